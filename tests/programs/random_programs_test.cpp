// Random programs with random annotations, forward and backward, on threads: all ranks together compute what
// one computes. A failing case prints its seed and its text.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text.hpp"
#include "plan/collective_list.hpp"
#include "plan/graph_file.hpp"
#include "random_program.hpp"
#include "runs.hpp"
#include "soak_settings.hpp"

#include <map>

using namespace trivium;

namespace {

const std::vector<Mesh> meshes{{{{"x", 2}}}, {{{"x", 2}, {"y", 2}}}, {{{"x", 3}, {"y", 2}}},
                               {{{"x", 4}}}, {{{"x", 2}, {"y", 4}}}, {{{"x", 2}, {"y", 2}, {"z", 2}}}};

} // namespace

TEST_CASE("random programs with random annotations compute the one-rank result, forward and backward")
{
    runs::start_runtime();
    std::map<std::string, int> kinds;
    const u64 first = soak::seed() * 1000000;
    soak::Budget budget;
    const char* only = std::getenv("TRIVIUM_SEED");
    int run = 0;
    for (u64 seed = only ? std::strtoull(only, nullptr, 10) : first;
         seed < first + 1000 || budget.left() || only; ++seed) {
        RandomConfig config;
        config.mesh = meshes[seed % meshes.size()];
        config.backward = seed % 4 != 0;
        INFO("seed " << seed);
        const std::string text = to_text(random_program(seed, config));
        INFO(text);
        if (std::getenv("TRIVIUM_SEEDS"))
            std::fprintf(stderr, "seed %llu\n", static_cast<unsigned long long>(seed));
        double difference = -1;
        std::string error;
        try {
            difference = runs::difference_on_threads(text, seed);
        } catch (const Error& problem) {
            error = problem.what();
        }
        ++run;
        if (only) {
            FILE* f = fopen("/tmp/p10/failing.graph", "w");
            fputs(text.c_str(), f);
            fclose(f);
        }
        CHECK(error == "");
        CHECK(difference <= 1e-10);
        if (!error.empty())
            continue;
        for (const CollectiveEntry& entry :
             collectives_of(local_graph(sharded_graph(read_graph(text, "t")), 0)))
            ++kinds[entry.kind];
        if (only)
            break;
    }
    for (const auto& [kind, times] : kinds)
        WARN(kind << " " << times);
    CHECK((only || run >= 1000));
}
