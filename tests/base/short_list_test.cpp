#include "base/rng.hpp"
#include "base/short_list.hpp"
#include "catch.hpp"

#include <vector>

using namespace trivium;

using List = ShortList<int, 4>;

TEST_CASE("a short list behaves as a vector does")
{
    const RandomStream random(1, "short list");
    for (std::uint64_t draw = 0; draw < 200; ++draw) {
        List list;
        std::vector<int> expected;
        for (std::uint64_t i = 0; i < random.bits_at(draw) % 20; ++i) {
            const int number = static_cast<int>(random.bits_at(1000 * draw + i) % 100);
            list.push_back(number);
            expected.push_back(number);
        }
        const List copy = list;
        List moved = std::move(list);
        CHECK(std::ranges::equal(copy, expected));
        CHECK((moved == copy && moved.size() == expected.size() && moved.empty() == expected.empty()));
        List other{1, 2, 3, 4, 5, 6};
        other = copy;
        CHECK(other == copy);
        if (!expected.empty()) {
            CHECK((other.front() == expected.front() && other.back() == expected.back()));
            for (int i = 0; i < 9; ++i)
                moved.push_back(moved.front()); // an element of its own
            CHECK((moved.back() == expected.front() && moved.size() == expected.size() + 9));
        }
        moved.clear();
        CHECK((moved.empty() && moved == List{} && copy.size() == expected.size()));
    }
}
