// Cases of Shardy's public tests (openxla/shardy), restated: *.cases has programs with the shardings and
// collectives that propagation and partitioner shall give. docs/graphs.md names the deliberate differences.
#include "base/check.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"
#include "passes/propagate.hpp"

#include "catch.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace trivium;

namespace {

struct Case {
    std::string file, name, text;
    std::vector<std::string> expected; ///< what follows "#= "
    int line = 0;
};

std::vector<Case> read_cases()
{
    std::vector<Case> cases;
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(TRIVIUM_SHARDY_CASES))
        if (entry.path().extension() == ".cases")
            files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
        std::ifstream in(file);
        std::string line;
        for (int number = 1; std::getline(in, line); ++number) {
            constexpr std::string_view begins = "### case ", expects = "#= ";
            if (line.starts_with(begins))
                cases.push_back({file.filename().string(), line.substr(begins.size()), "", {}, number});
            else if (line.starts_with(expects) && !cases.empty())
                cases.back().expected.push_back(line.substr(expects.size()));
            else if (!cases.empty())
                cases.back().text += line + "\n";
        }
    }
    return cases;
}

/// What differs from the expectation; empty: nothing.
std::string shardings_wrong(const Case& test, const Graph& sharded)
{
    std::string wrong;
    for (const std::string& line : test.expected) {
        if (!line.starts_with("%"))
            continue;
        const std::size_t space = line.find(' ');
        const ValueId v = sharded.find(line.substr(1, space - 1));
        const std::string want = line.substr(space + 1, line.find('>') - space);
        const std::string got = v ? to_text(Sharding{sharded[v].sharding.dims, sharded[v].sharding.partial}) : "no value";
        if (got != want)
            wrong += str("  ", line.substr(0, space), ": expected ", want, ", got ", got, "\n");
    }
    return wrong;
}

} // namespace

TEST_CASE("Shardy's cases")
{
    int passed = 0;
    const char* only = std::getenv("TRIVIUM_CASE");
    for (const Case& test : read_cases()) {
        if (only && test.name != only)
            continue;
        INFO(test.file << ":" << test.line << " " << test.name << "\n" << test.text);
        std::string wrong;
        try {
            Graph graph = parse_graph(test.text, test.file);
            verify(graph, Level::global);
            const Graph sharded = propagate(std::move(graph));
            verify(sharded, Level::sharded);
            wrong = shardings_wrong(test, sharded);
        } catch (const Error& error) {
            wrong = error.what();
        }
        INFO(wrong);
        CHECK(wrong.empty());
        passed += wrong.empty();
    }
    CHECK(passed >= (only ? 1 : 150));
    WARN(passed << " passed");
}
