// Random programs with random annotations, forward and backward, on threads: all ranks together compute what
// one computes. A failing case prints its seed and its text.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "plan/collective_list.hpp"
#include "plan/graph_file.hpp"
#include "random_program.hpp"
#include "runs.hpp"
#include "soak_settings.hpp"

#include <cstdio>
#include <map>
#include <set>

using namespace trivium;

namespace {

/// Empty, or what is wrong.
std::string problem_of(const Graph& program, u64 seed)
{
    try {
        const std::string text = to_text(program);
        const double difference = runs::difference_on_threads(text, seed);
        return difference <= 1e-10 ? "" : str("differs by ", difference);
    } catch (const Error& error) {
        return error.what();
    }
}

/// As many programs as asked for, and more while the time lasts; after a few failures no more.
void check_seeds(u64 first, u64 least, const soak::Budget* budget)
{
    runs::start_runtime();
    u64 run = 0;
    for (int failed = 0; failed < 5 && (run < least || (budget && budget->left())); ++run) {
        const u64 seed = first + run;
        const RandomConfig config = random_config(seed);
        const Graph program = random_program(seed, config);
        if (const std::string problem = problem_of(program, seed); !problem.empty()) {
            FAIL_CHECK("seed " << seed << ": " << problem << "\n" << to_text(program));
            ++failed;
        }
    }
    CHECK(run >= least);
    std::printf("%llu programs\n", static_cast<unsigned long long>(run));
}

} // namespace

TEST_CASE("random programs with random annotations compute the one-rank result, forward and backward")
{
    if (const u64 only = soak::number("TRIVIUM_SEED", 0); only > 0) { // one that failed, for tools: its text
        std::printf("%s", to_text(random_program(only, random_config(only))).c_str());
        check_seeds(only, 1, nullptr);
        return;
    }
    const soak::Budget budget;
    check_seeds(1'000'000 * soak::seed(), contracts_on ? 30 : 60, &budget);
}

/// Of a thousand programs in all, tests/run takes two hundred.
TEST_CASE("more random programs", "[release]")
{
    check_seeds(1'000'000 * soak::seed() + 500'000, soak::whole() ? 940 : 140, nullptr);
}

TEST_CASE("random programs have every general op, every kind of collective, and what the text can say")
{
    std::map<std::string, int> ops, kinds;
    int parts = 0, priorities = 0, replicated = 0, partial = 0, least = 1000, most = 0;
    for (u64 seed = 0; seed < 200; ++seed) {
        const Graph program = random_program(seed, random_config(seed));
        int forward = 0;
        for (const Op& op : program.ops) {
            ++ops[info(op).name];
            forward += op.phase == Phase::forward ? 1 : 0;
        }
        least = std::min(least, forward);
        most = std::max(most, forward);
        for (const Value& v : program.values) {
            replicated += v.sharding->replicated.empty() ? 0 : 1;
            partial += v.sharding->partial.empty() ? 0 : 1;
            for (const DimSharding& dim : v.sharding->dims) {
                priorities += dim.priority > 0 ? 1 : 0;
                for (const std::string& axis : dim.axes)
                    parts += axis.find(':') == std::string::npos ? 0 : 1;
            }
        }
        if (seed % 4 == 0)
            for (const CollectiveEntry& entry :
                 collectives_of(local_graph(sharded_graph(read_graph(to_text(program), "t")), 0)))
                ++kinds[entry.kind];
    }
    for (const char* op : {
#define TRV_OP(op, ...) #op,
#include "ir/general_ops.inc"
#undef TRV_OP
         }) {
        INFO(op);
        CHECK(ops[op] > 0);
    }
    for (const char* kind : {"all_gather", "all_reduce", "reduce_scatter", "all_to_all", "permute", "halo"}) {
        INFO(kind);
        CHECK(kinds[kind] > 5);
    }
    CHECK(parts > 20);
    CHECK(priorities > 20);
    CHECK(replicated > 20);
    CHECK(partial > 20);
    CHECK(least < 20);
    CHECK(most > 30);
}
