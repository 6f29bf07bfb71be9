// Every file in tests/errors/programs is a legal graph from which no program can be made: it must fail with
// the message of its first line, and what lines `# and:` say.
#include "base/check.hpp"
#include "catch.hpp"
#include "golden/golden.hpp"
#include "has.hpp"
#include "plan/graph_file.hpp"

#include <filesystem>
#include <sstream>

using namespace trivium;

TEST_CASE("each file of tests/errors/programs fails with the error of its first line")
{
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(test_file("errors/programs"))) {
        const std::string name = entry.path().filename(), text = read_text("errors/programs/" + name);
        INFO(name);
        std::istringstream lines(text);
        std::vector<std::string> wanted{name + ":"};
        for (std::string line; std::getline(lines, line);)
            for (const std::string mark : {"# expect: ", "# and: "})
                if (line.rfind(mark, 0) == 0)
                    wanted.push_back(line.substr(mark.size()));
        REQUIRE(wanted.size() > 1);
        const std::string got = message_of<UserError>([&] { compile_graph(text, name, Machine{}, 0); });
        INFO("got: " << got);
        for (const std::string& part : wanted) {
            INFO("want: " << part);
            CHECK(has(got, part));
        }
        CHECK(has(got, "remedy: "));
        ++files;
    }
    CHECK(files >= 3);
}

TEST_CASE("a stage receives messages in the order in which others compute them, not in that of their readers")
{
    for (const std::string name : {"message_read_late.graph", "message_read_backwards.graph"}) {
        INFO(name);
        CHECK_NOTHROW(
            compile_graph(read_text("plan/graphs/" + name), name, Machine{}, 0)); // it plays the ranks
    }
}
