// The search over strategies: what it may change, and that nothing legal is faster than what it finds.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"
#include "choose/search.hpp"
#include "choose/strategy_space.hpp"
#include "draw.hpp"
#include "io/files/config_file.hpp"

#include <algorithm>

using namespace trivium;

namespace {

RunConfig config_of(std::vector<std::string> overrides)
{
    overrides.insert(overrides.begin(), {"model.preset=toy", "model.layers=6", "model.vocab=258"});
    RunConfig c = read_config("", overrides);
    resolve_and_validate(c);
    return c;
}

/// Nodes of four ranks, with links that make transfers matter for small models.
Machine small_nodes(Bytes memory = 0)
{
    Machine machine = machine_called("cpu");
    machine.name = "small";
    machine.is_device = true;
    machine.process = 0;
    machine.ranks_per_node = 4;
    machine.link_bytes_per_second = 2e10;
    machine.node_link_bytes_per_second = 2e9;
    machine.node_link_latency = 1e-5;
    machine.memory = memory;
    return machine;
}

SearchResult search(const RunConfig& c, i64 ranks, const Machine& machine)
{
    Compiling estimator(machine);
    return search_strategies(c, ranks, search_on(machine, c.parallel, 1), estimator);
}

/// The simulated step of a config in which some settings were drawn; 0 if it is not legal or too large.
Seconds step_of(RunConfig c, const Machine& machine)
{
    try {
        resolve_and_validate(c);
        Compiling estimator(machine);
        const Choices choices = decide(c, estimator);
        const Score score = estimator.score({choices.config, choices.order}, machine, {0, machine.memory});
        return score.fits ? score.step : 0;
    } catch (const UserError&) {
        return 0;
    }
}

RunConfig drawn(const RunConfig& base, i64 ranks, Draw& draw)
{
    RunConfig c = base;
    ParallelConfig& p = c.parallel;
    const std::vector<ParallelConfig> grids = grids_of(ranks);
    const auto one_of = [&](i64 count) { return below(draw, count); };
    const ParallelConfig& grid = grids[static_cast<std::size_t>(one_of(static_cast<i64>(grids.size())))];
    p.data = grid.data;
    p.pipeline = grid.pipeline;
    p.tensor = grid.tensor;
    p.zero = one_of(4);
    p.shard = one_of(2) * 2;
    c.train.micro_batch = i64{1} << one_of(5);
    p.schedule = p.pipeline == 1 ? "1f1b"
                                 : std::string(names_of_enum<ScheduleKind>[static_cast<std::size_t>(
                                       one_of(static_cast<i64>(names_of_enum<ScheduleKind>.size())))]);
    p.recompute = static_cast<Recompute>(one_of(3));
    p.sequence = one_of(3) > 0;
    p.overlap = one_of(4) > 0;
    return c;
}

} // namespace

TEST_CASE("no strategy that is drawn is faster than the one that the search finds", "[release]")
{
    Draw draw(7);
    const RunConfig base = config_of({"train.global_batch=32", "model.dim=128", "model.heads=8"});
    for (const i64 ranks : {4, 8, 16})
        for (const double memory : {0.0, 6e6}) {
            const Machine machine = small_nodes(static_cast<Bytes>(memory));
            const SearchResult found = search(base, ranks, machine);
            REQUIRE_FALSE(found.strategies.empty());
            const Seconds best = found.strategies.front().score.step;
            int legal = 0;
            for (int draws = 0; draws < 60; ++draws) {
                const RunConfig c = drawn(base, ranks, draw);
                const Seconds step = step_of(c, machine);
                if (step == 0)
                    continue;
                ++legal;
                INFO(ranks << " ranks, memory " << memory << ": " << to_toml(c, {"parallel", "train"})
                           << "\nfound\n"
                           << to_toml(found.strategies.front().config, {"parallel", "train"}));
                CHECK(best <= step * (1 + 1e-9));
            }
            CHECK(legal > 5);
        }
}

TEST_CASE("what a config sets stays; degrees but that of data if they divide the ranks")
{
    const auto grids = [](const std::vector<std::string>& overrides, i64 ranks) {
        std::vector<std::string> all{"train.global_batch=24"};
        all.insert(all.end(), overrides.begin(), overrides.end());
        return grids_for(config_of(all), ranks);
    };
    CHECK(grids({"parallel.data=2", "parallel.pipeline=2"}, 4).size() == 1);
    for (const ParallelConfig& p : grids({"parallel.data=2", "parallel.pipeline=2"}, 8))
        CHECK(p.pipeline == 2);
    CHECK(grids({"parallel.data=2", "parallel.pipeline=2"}, 3).size() > 1); // 2 stages do not divide 3 ranks
    for (const ParallelConfig& p : grids({}, 8)) {
        CHECK(24 % p.data == 0);
        CHECK(rank_count(p) <= 8);
        CHECK(rank_count(p) > 4);
    }
    const RunConfig c = config_of({"train.global_batch=24", "train.micro_batch=3", "parallel.zero=2",
                                   "parallel.recompute=full", "parallel.schedule=zb-h1"});
    const SearchResult found = search(c, 4, small_nodes());
    REQUIRE_FALSE(found.strategies.empty());
    for (const Strategy& s : found.strategies) {
        CHECK(s.config.train.micro_batch == 3);
        CHECK(s.config.parallel.zero == 2);
        CHECK(s.config.parallel.recompute == Recompute::full);
        CHECK(s.config.parallel.schedule == "zb-h1");
        CHECK(s.config.train.global_batch == 24);
    }
}

TEST_CASE("strategies fit the memory; without one, the smallest is the answer")
{
    const RunConfig c = config_of({"train.global_batch=16"});
    const Bytes most = 3'000'000;
    const SearchResult found = search(c, 4, small_nodes(most));
    REQUIRE_FALSE(found.strategies.empty());
    for (const Strategy& s : found.strategies)
        for (const Bytes bytes : s.score.bytes)
            CHECK(bytes <= most);
    const SearchResult none = search(c, 4, small_nodes(1000));
    CHECK(none.strategies.empty());
    CHECK(none.smallest);
    RunConfig odd = c;
    odd.train.global_batch = 1;
    odd.model.layers = 1;
    odd.given = {"parallel.tensor"};
    odd.parallel.tensor = 3; // the heads cannot be shared by three ranks, nor the layers by more than three
    CHECK_THROWS_AS(choose_strategy(odd, 27, search_on(small_nodes(), {}, 1),
                                    *std::make_unique<Compiling>(small_nodes())),
                    UserError);
}

TEST_CASE("every rule that fits is among the strategies")
{
    const SearchResult found = search(config_of({"train.global_batch=16"}), 8, small_nodes());
    for (const char* rule : {"data parallel", "FSDP", "hybrid FSDP", "Megatron"})
        CHECK(std::ranges::any_of(found.strategies, [&](const Strategy& s) { return s.rule == rule; }));
}
