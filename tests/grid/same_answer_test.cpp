// Gradients, parameters, moments, losses and norms of every grid against those of one rank, by global name.
#include "base/check.hpp"
#include "base/covering.hpp"
#include "catch.hpp"
#include "grid/cases.hpp"
#include "schedule/named_order.hpp"
#include "schedule/order_check.hpp"
#include "schedule/order_file.hpp"

#include <functional>
#include <numeric>
#include <random>
#include <set>

using namespace trivium;
using namespace trivium::grids;

TEST_CASE("a covering array has every pair")
{
    for (const std::vector<int>& levels :
         {std::vector{2, 2, 2}, {5, 1, 3}, factor_levels(true), factor_levels(false)}) {
        const auto rows = covering_array(levels);
        std::size_t pairs = 0;
        std::set<std::vector<std::size_t>> covered;
        for (std::size_t f = 0; f < levels.size(); ++f)
            for (std::size_t g = f + 1; g < levels.size(); ++g) {
                pairs += static_cast<std::size_t>(levels[f] * levels[g]);
                for (const std::vector<int>& row : rows)
                    covered.insert(
                        {f, g, static_cast<std::size_t>(row[f]), static_cast<std::size_t>(row[g])});
            }
        for (const std::vector<int>& row : rows)
            for (std::size_t f = 0; f < levels.size(); ++f)
                CHECK((row[f] >= 0 && row[f] < levels[f]));
        CHECK(covered.size() == pairs);
        UNSCOPED_INFO(rows.size() << " rows for " << pairs << " pairs");
        CHECK(static_cast<double>(rows.size()) <=
              std::accumulate(levels.begin(), levels.end(), 1.0, std::multiplies<>())); // the full product
    }
    CHECK(covering_cases(true).size() < 130); // 29 grids x 4 buckets at least
    CHECK(all_grids().size() == 1 + 3 + 6 + 9 + 10);
}

namespace {

Differences from_one_rank(const Case& c)
{
    const Outcome& want = alone_outcome(c);
    Outcome got;
    REQUIRE_NOTHROW(got = train_on_threads(c));
    return differences(got, want);
}

void require_same_answer(const Case& c)
{
    INFO(c.text());
    const Differences d = from_one_rank(c);
    INFO(d.text());
    CHECK(d.most() < (c.optimizer == OptimizerKind::muon ? 2e-9 : 1e-9)); // 1.2e-9 in one case
}

} // namespace

TEST_CASE("the same result on every grid")
{
    std::size_t n = 0, of_muon = 0;
    for (Case c : covering_cases(true)) {
        if (contracts_on && n++ % 17 != 0) // sanitizers take their time
            continue;
        if (c.optimizer == OptimizerKind::muon && !contracts_on) { // differences have time to grow
            ++of_muon;
            c.steps = 20;
            if (c.model.layers > 8 || c.packing) // as rounding errors do with depth and length
                c.lr = 1e-3;
        }
        require_same_answer(c);
    }
    CHECK((contracts_on || of_muon > 40));
}

namespace {

/// An order that can run, from random moves of tasks along their ranks.
PipelineOrder shuffled(PipelineOrder order, u64 seed)
{
    std::mt19937_64 draw(seed);
    for (int move = 0; move < 200; ++move) {
        RankOrder& rank = order.ranks[draw() % order.ranks.size()];
        const RankOrder before = rank;
        const auto at = [&](std::size_t i) { return rank.begin() + static_cast<std::ptrdiff_t>(i); };
        const std::size_t from = draw() % rank.size(), to = draw() % rank.size();
        from < to ? std::rotate(at(from), at(from) + 1, at(to) + 1)
                  : std::rotate(at(to), at(from), at(from) + 1);
        if (find_fault(order))
            rank = before;
    }
    return order;
}

} // namespace

TEST_CASE("orders from files and from the search: the same result")
{
    const std::string grids[] = {"data 1 x pipeline 2 x tensor 1", "data 2 x pipeline 2 x tensor 1",
                                 "data 1 x pipeline 4 x tensor 1", "data 1 x pipeline 2 x tensor 2",
                                 "data 2 x pipeline 2 x tensor 2"};
    const char* const schedules[] = {"1f1b", "zb-h2", "interleaved", "zb-v", "dualpipe-v", "auto"};
    for (std::size_t g = 0; g < std::size(grids); ++g)
        for (std::size_t k = 0; k < std::size(schedules); ++k) {
            if ((g + k) % 2 == 1)
                continue;
            // Sanitizers take their time: 1f1b, the search, stages in a V with split backward passes.
            if (contracts_on && !(g == 0 && k == 0) && !(g == 1 && k == 5) && !(g == 3 && k == 3))
                continue;
            std::vector<int> levels(factor_count, 0);
            levels[f_schedule] = 3; // enough layers for two chunks
            levels[f_tied] = static_cast<int>(k % 2);
            levels[f_microbatches] = 1 + static_cast<int>(g % 2);
            levels[f_zero] = static_cast<int>((g + k) % 4);
            while (describe_degrees(all_grids()[static_cast<std::size_t>(levels[f_grid])]) != grids[g])
                ++levels[f_grid];
            Case c = case_of(levels);
            c.parallel.schedule = schedules[k];
            c.parallel.chunks = 0;
            if (const std::optional<ScheduleKind> kind = schedule_called(schedules[k])) {
                const i64 microbatches = microbatch_count(config_of(c));
                c.parallel.schedule = "shuffled.csv";
                c.parallel.schedule_rows = to_csv(
                    shuffled(named_order(*kind, c.parallel.pipeline, chunks_of(*kind).usual, microbatches),
                             g + 10 * k));
            }
            INFO(schedules[k] << " " << c.parallel.schedule_rows);
            require_same_answer(c);
        }
}

TEST_CASE("twenty steps on every grid", "[release]")
{
    for (const Case& c : covering_cases(false)) {
        INFO(c.text());
        const Differences d = from_one_rank(c);
        INFO(d.text());
        const bool bf16 = c.precision == Precision::bf16 || c.parallel.reduce == GradientType::bf16;
        CHECK(d.losses < (bf16 ? 2e-2 : 1e-4));
        CHECK(d.norms < (!bf16                  ? 1e-4
                         : c.trained.has_lora() ? 5e-2
                                                : 2e-2)); // two products of rounded values
    }
}
