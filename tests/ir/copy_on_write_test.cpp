// Copies that share memory do not see each other's changes.
#include "ir/copy_on_write.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

using namespace trivium;

TEST_CASE("a change of one copy is not seen in the others")
{
    using Texts = std::vector<std::string>;
    CopyOnWrite<Texts> first;
    CHECK(first == Texts{});
    first.edit() = {"a", "b"};
    CopyOnWrite<Texts> second = first;
    CHECK(&*second == &*first); // one memory
    const Texts* const before = &*first;
    second.edit().push_back("c");
    CHECK(*first == Texts{"a", "b"});
    CHECK(*second == Texts{"a", "b", "c"});
    CHECK(&*first == before);
    CHECK_FALSE(first == second);
    const Texts* const alone = &*second;
    second.edit().pop_back(); // nobody else has it: in its place
    CHECK(&*second == alone);
    CHECK(first == second);
    second = first;
    first = {};
    CHECK(*second == Texts{"a", "b"});
}
