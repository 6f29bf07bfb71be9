// Cases of Shardy's public tests (openxla/shardy), restated: *.cases has programs with the shardings and
// collectives that propagation and partitioner shall give. differences.md lists the deliberate differences.
#include "base/check.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"
#include "plan/collective_list.hpp"

#include "catch.hpp"
#include "reshardings.hpp"

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
    for (const auto& entry : std::filesystem::directory_iterator(TRIVIUM_TEST_DATA "/shardy"))
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
        const std::string got =
            v ? to_text(Sharding{sharded[v].sharding->dims, sharded[v].sharding->partial}) : "no value";
        if (got != want)
            wrong += str("  ", line.substr(0, space), ": expected ", want, ", got ", got, "\n");
    }
    return wrong;
}

/// "all_gather(x,y)": the axes in alphabetical order, neighbouring parts as they are named.
std::string text_of(std::string kind, std::vector<std::string> axes)
{
    std::sort(axes.begin(), axes.end());
    std::string list;
    for (const std::string& axis : axes)
        list += (list.empty() ? "" : ",") + axis;
    return kind + "(" + list + ")";
}

/// Exchanges in a row as one, without axes: where Shardy permutes and then exchanges, or exchanges several
/// times, ours is one exchange, in which every element travels once.
std::vector<std::string> merged(const std::vector<std::string>& all)
{
    std::vector<std::string> out;
    for (const std::string& one : all) {
        const bool exchange = one.starts_with("all_to_all") || one.starts_with("permute");
        if (!exchange)
            out.push_back(one);
        else if (out.empty() || out.back() != "exchange")
            out.emplace_back("exchange");
    }
    return out;
}

std::string collectives_wrong(const Case& test, const Graph& sharded, Reshardings& reshardings)
{
    for (const std::string& line : test.expected) {
        if (!line.starts_with("collectives "))
            continue;
        std::vector<std::string> want, got;
        std::istringstream words(line.substr(line.find(' ') + 1));
        for (std::string word; words >> word && word != "none";) {
            const std::size_t open = word.find('(');
            std::vector<std::string> axes;
            std::string rest = word.substr(open + 1, word.size() - open - 2);
            // A part "x:(2)2" has brackets of its own, no comma.
            std::istringstream names(rest);
            for (std::string axis; std::getline(names, axis, ',');)
                axes.push_back(axis);
            want.push_back(text_of(word.substr(0, open), axes));
        }
        Bytes bytes = 0;
        const PartitionConfig config{Coordinates(sharded.mesh.axes.size(), 0), pipeline_axis,
                                     sharded.carries.empty()};
        const Graph local = simplify(partition(look_ahead(sharded, config), config));
        verify(local, Level::local);
        count_reshardings(local, reshardings);
        for (const CollectiveEntry& entry : collectives_of(local)) {
            got.push_back(text_of(entry.kind, entry.axes));
            bytes += entry.bytes;
        }
        if (merged(want) != merged(got)) {
            const auto joined = [](const std::vector<std::string>& all) {
                std::string text;
                for (const std::string& one : all)
                    text += " " + one;
                return all.empty() ? " none" : text;
            };
            return str("  collectives: expected", joined(want), ", got", joined(got), " (", bytes,
                       " bytes)\n");
        }
    }
    return "";
}

} // namespace

TEST_CASE("Shardy's cases")
{
    int passed = 0;
    Reshardings reshardings;
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
            wrong = shardings_wrong(test, sharded) + collectives_wrong(test, sharded, reshardings);
        } catch (const Error& error) {
            wrong = error.what();
        }
        INFO(wrong);
        CHECK(wrong.empty());
        passed += wrong.empty();
    }
    CHECK(passed >= (only ? 1 : 150));
    WARN(passed << " passed; " << reshardings.full_gathers << " of " << reshardings.all
                << " reshardings are full gathers");
    CHECK(reshardings.full_gathers * 20 <= reshardings.all);
}
