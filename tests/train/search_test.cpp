// The search over strategies: what it may change, and that nothing legal is faster than what it finds.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/memory_policy.hpp"
#include "choose/quick_estimate.hpp"
#include "choose/smaller.hpp"
#include "choose/strategy_space.hpp"
#include "draw.hpp"
#include "io/files/config_file.hpp"
#include "searches.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <sstream>

using namespace trivium;

namespace {

RunConfig toy_config(std::vector<std::string> overrides)
{
    overrides.insert(overrides.begin(), {"model.preset=toy", "model.layers=6", "model.vocab=258"});
    RunConfig c = read_config("", overrides);
    resolve_and_validate(c);
    return c;
}

/// Bytes that a rank needs with the best strategy.
Bytes largest_of(const SearchResult& found) { return std::ranges::max(found.strategies.at(0).score.bytes); }

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
    const RunConfig base = toy_config({"train.global_batch=32", "model.dim=128", "model.heads=8"});
    for (const auto& [ranks, memory] : {std::pair{i64{4}, 0.6}, {i64{8}, 0.0}}) { // of what the best needs
        const Machine machine = small_nodes(
            static_cast<Bytes>(memory * as_double(largest_of(search(base, ranks, small_nodes())))));
        const SearchResult found = search(base, ranks, machine);
        REQUIRE_FALSE(found.strategies.empty());
        const Seconds best = found.strategies.front().score.step;
        int legal = 0;
        for (int draws = 0; draws < 40; ++draws) {
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

TEST_CASE("a closed form has the step and the arena of the planned one, nearly", "[release]")
{
    const Machine h100 = machine_called("h100");
    struct Row {
        const char* keys;
        double step = 0.985; ///< that of the closed form over the planned one
    };
    for (const auto& [keys, step] : std::vector<Row>{
             {"data=32 tensor=1 pipeline=1 zero=3 schedule=1f1b"},
             {"data=16 tensor=2 pipeline=1 zero=2 schedule=1f1b"},
             {"data=8 tensor=4 pipeline=1 zero=1 schedule=1f1b"},
             {"data=4 tensor=8 pipeline=1 zero=1 schedule=1f1b"},
             {"data=4 tensor=2 pipeline=4 zero=1 schedule=interleaved chunks=4"},
             {"data=4 tensor=2 pipeline=4 zero=1 schedule=interleaved "
              "order=[\"data\",\"pipeline\",\"tensor\"]"},
             {"data=16 tensor=1 pipeline=2 zero=1 schedule=zb-v"},
             {"data=4 tensor=4 pipeline=2 zero=2 schedule=1f1b"},
             {"data=2 tensor=4 pipeline=4 zero=1 schedule=dualpipe-v"},
             // Of the next two, one stage after the other ends its backward passes.
             {"data=128 tensor=1 pipeline=4 zero=1 schedule=interleaved chunks=4"},
             {"data=64 tensor=2 pipeline=2 zero=1 schedule=breadth-first chunks=2"},
             // One microbatch: its gradients are not summed.
             {"data=512 tensor=1 pipeline=1 zero=1 schedule=1f1b", 0.91},
             {"data=4 tensor=1 pipeline=8 zero=1 schedule=interleaved chunks=2"}, // messages in flight
             // Copies of parameters in flight. The time of reductions in microbatches is too short.
             {"data=4 tensor=2 pipeline=4 zero=3 schedule=interleaved chunks=4 gather_every=microbatch",
              0.83}}) {
        std::vector<std::string> overrides{"model.preset=llama3-8b", "model.layers=16",
                                           "train.precision=bf16",   "train.global_batch=512",
                                           "train.micro_batch=1",    "parallel.update=synchronous"};
        std::istringstream in(keys);
        for (std::string key; in >> key;)
            overrides.push_back("parallel." + key);
        RunConfig c = read_config("", overrides);
        resolve_and_validate(c);
        c = with_usual_policy(c);
        Compiling estimator(h100);
        const Candidate candidate{c, training_order(c)};
        QuickEstimator quick(estimator, h100, [](const ParallelConfig&) { return 1; });
        const Score planned = estimator.score(candidate, h100);
        const QuickEstimate played = quick.played(c, candidate.order);
        INFO(keys << ": " << planned.step << " s, " << planned.arena << " bytes");
        CHECK(played.step / planned.step == Approx(step).margin(0.05));
        CHECK(played.bytes / as_double(planned.arena) == Approx(1).margin(0.085));
    }
}

TEST_CASE("a rough score has the memory of the planned strategy, with the snapshot of a host")
{
    RunConfig c = toy_config({"model.dim=256", "model.heads=8", "model.seq=16", "train.global_batch=8",
                              "parallel.data=2", "parallel.pipeline=2", "checkpoint.every=10"});
    resolve_and_validate(c);
    c = with_usual_policy(c);
    const Machine host = machine_called("cpu");
    Compiling estimator(host);
    const Candidate candidate{c, training_order(c)};
    const Score rough = estimator.rough_score(candidate, host, {}),
                planned = estimator.score(candidate, host);
    REQUIRE(rough.bytes.size() == 2);
    for (std::size_t stage = 0; stage < 2; ++stage) {
        const double used = as_double(planned.bytes[stage] - host.process);
        CHECK(as_double(rough.bytes[stage] - host.process) / used == Approx(1).margin(0.01));
    }
}

TEST_CASE(
    "parallel.bucket = \"auto\" takes no longer than any other mode, also with several stages on a rank",
    "[release]")
{
    const Machine h100 = machine_called("h100");
    for (const char* const keys :
         {"train.global_batch=64 parallel.data=4 parallel.tensor=2 parallel.zero=1",
          "train.global_batch=32 parallel.data=8 parallel.zero=3",
          "train.global_batch=128 parallel.data=8 parallel.pipeline=4 parallel.zero=1 "
          "parallel.schedule=interleaved parallel.chunks=4"}) {
        std::vector<std::string> overrides{"model.preset=llama3-8b", "model.layers=14",
                                           "train.precision=bf16", "train.micro_batch=1",
                                           "parallel.update=synchronous"};
        std::istringstream in(keys);
        for (std::string key; in >> key;)
            overrides.push_back(key);
        const auto step_with = [&](const std::string& mode) {
            std::vector<std::string> all = overrides;
            all.push_back("parallel.bucket=" + mode);
            return step_of(read_config("", all), h100);
        };
        const Seconds chosen = step_with("auto");
        REQUIRE(chosen > 0);
        for (const char* const mode : {"none", "block", "greedy", "global"}) {
            INFO(keys << ", " << mode);
            CHECK(chosen <= step_with(mode) * 1.0005);
        }
    }
}

TEST_CASE("ranks share experts where that pays, within a node if the links between nodes are slow",
          "[release]")
{
    const std::vector<std::string> experts{"train.global_batch=32", "model.experts=8",
                                           "model.expert_dim=512",  "model.layers=3",
                                           "model.seq=32",          "parallel.expert_buffer=1.25"};
    const SearchResult found = search(toy_config(experts), 8, small_nodes());
    REQUIRE_FALSE(found.strategies.empty());
    std::set<i64> seen;
    for (const Strategy& s : found.strategies) {
        const ParallelConfig& p = s.config.parallel;
        seen.insert(p.expert);
        CHECK(p.expert_buffer == 1.25);
        CHECK(group_ranks(p) * p.context % p.expert == 0);
    }
    CHECK(seen.size() > 1);
    const ParallelConfig& best = found.strategies.front().config.parallel;
    INFO(to_toml(found.strategies.front().config, {"parallel", "train"}));
    CHECK(best.expert > 1); // a copy of all experts on each rank, and the sum of their gradients, cost more
    CHECK(best.expert * best.tensor <= 4);
    std::vector<std::string> given = experts;
    given.push_back("parallel.expert=2");
    for (const Strategy& s : search(toy_config(given), 8, small_nodes()).strategies)
        CHECK(s.config.parallel.expert ==
              std::gcd(i64{2}, group_ranks(s.config.parallel) * s.config.parallel.context));
}

TEST_CASE("of two axes the one that sends more is within nodes, unless the config says which")
{
    const std::vector<std::string> order{"pipeline", "data", "tensor"};
    const std::vector<std::string> given{"train.global_batch=16", "parallel.data=4", "parallel.pipeline=2",
                                         "model.seq=16"};
    const SearchResult found = search(toy_config(given), 8, small_nodes());
    REQUIRE_FALSE(found.strategies.empty());
    const Strategy& best = found.strategies.front();
    CHECK(best.config.parallel.order == order); // gradients of four ranks, rather than messages
    RunConfig other = best.config;
    other.parallel.order = {};
    CHECK(step_of(other, small_nodes()) > best.score.step);

    std::vector<std::string> fixed = given;
    fixed.push_back("parallel.order=[\"data\",\"pipeline\",\"tensor\"]");
    for (const Strategy& s : search(toy_config(fixed), 8, small_nodes()).strategies)
        CHECK(s.config.parallel.order == std::vector<std::string>{"data", "pipeline", "tensor"});
    for (const Strategy& s : search(toy_config(given), 8, machine_called("cpu")).strategies)
        CHECK(s.config.parallel.order.empty()); // all ranks are on one node
}

TEST_CASE("no group of ZeRO is faster than the one that the search finds")
{
    // Tensor ranks fill a node, and each rank of a group adds the latency of a link between nodes.
    Machine machine = small_nodes();
    machine.node_link_latency = 1e-4;
    const SearchResult found =
        search(toy_config({"train.global_batch=64", "model.heads=8", "parallel.tensor=4", "parallel.data=16",
                           "parallel.zero=1"}),
               64, machine);
    REQUIRE_FALSE(found.strategies.empty());
    const Strategy& best = found.strategies.front();
    for (const i64 ranks : {0, 2, 4, 8}) {
        RunConfig other = best.config;
        other.parallel.shard = ranks;
        const Seconds step = step_of(other, machine);
        INFO(ranks << " ranks: " << step << " s, found " << best.config.parallel.shard << ": "
                   << best.score.step);
        CHECK(best.score.step <= step * (1 + 1e-3));
    }
}

TEST_CASE("a search looks at rings between devices only if it is told to")
{
    const auto forms = [](const char* form) {
        std::set<ContextForm> all;
        for (const Strategy& s : search(toy_config({"train.global_batch=4", "parallel.context=4",
                                                    "model.seq=64", str("parallel.context_form=", form)}),
                                        4, small_nodes())
                                     .strategies)
            all.insert(s.config.parallel.context_form);
        return all;
    };
    CHECK(forms("auto") == std::set{ContextForm::gather});
    CHECK(forms("ring") == std::set{ContextForm::ring});
}

TEST_CASE("models whose layers are dense but one have strategies")
{
    const RunConfig c = toy_config({"train.global_batch=4", "model.layers=4", "model.experts=4",
                                    "model.expert_dim=64", "model.dense_layers=3", "model.seq=32"});
    CHECK_FALSE(search(c, 2, small_nodes()).strategies.empty());
}

TEST_CASE("what a config sets stays; degrees but that of data if they divide the ranks")
{
    const auto grids = [](const std::vector<std::string>& overrides, i64 ranks) {
        std::vector<std::string> all{"train.global_batch=24"};
        all.insert(all.end(), overrides.begin(), overrides.end());
        return grids_for(toy_config(all), ranks);
    };
    CHECK(grids({"parallel.data=2", "parallel.pipeline=2"}, 4).size() == 1);
    for (const ParallelConfig& p : grids({"parallel.data=2", "parallel.pipeline=2"}, 8))
        CHECK(p.pipeline == 2);
    CHECK(grids({"parallel.data=2", "parallel.pipeline=2"}, 3).size() > 1); // 2 stages do not divide 3 ranks
    for (const auto& [ranks, context] : {std::pair<i64, i64>{8, 4}, {6, 2}, {3, 1}}) {
        const std::vector<ParallelConfig> found = grids({"parallel.context=4", "model.seq=64"}, ranks);
        CHECK_FALSE(found.empty());
        for (const ParallelConfig& p : found)
            CHECK(p.context == context);
    }
    for (const ParallelConfig& p : grids({}, 8)) {
        CHECK(24 % p.data == 0);
        CHECK(rank_count(p) <= 8);
        CHECK(rank_count(p) > 4);
    }
    const RunConfig c = toy_config({"train.global_batch=24", "train.micro_batch=3", "parallel.zero=2",
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

TEST_CASE("strategies fit the memory; without one, the smallest is the answer", "[release]")
{
    const RunConfig c = toy_config({"train.global_batch=16"});
    const Bytes most = largest_of(search(c, 4, small_nodes())) * 6 / 10;
    const SearchResult found = search(c, 4, small_nodes(most));
    REQUIRE_FALSE(found.strategies.empty());
    for (const Strategy& s : found.strategies)
        for (const Bytes bytes : s.score.bytes)
            CHECK(bytes <= most);
    const SearchResult none = search(c, 4, small_nodes(1000));
    CHECK(none.strategies.empty());
    CHECK(none.smallest);
    int fitting = 0;
    for (Bytes memory = most / 4; memory < 2 * most; memory += memory / 4) { // what a remedy names
        const Machine machine = small_nodes(memory);
        Compiling estimator(machine);
        const auto named = fitting_strategy(c, 4, search_on(machine, c.parallel, 1), estimator);
        INFO(memory << " bytes: " << (named ? to_toml(*named, {"parallel", "train"}) : "nothing"));
        CHECK((!named || step_of(*named, machine) > 0));
        CHECK((named || search(c, 4, machine).strategies.empty()));
        fitting += named ? 1 : 0;
    }
    CHECK(fitting > 3);
    RunConfig odd = c;
    odd.train.global_batch = 1;
    odd.model.layers = 1;
    odd.given = {"parallel.tensor"};
    odd.parallel.tensor = 3; // the heads cannot be shared by three ranks, nor the layers by more than three
    CHECK_THROWS_AS(choose_strategy(odd, 27, search_on(small_nodes(), {}, 1),
                                    *std::make_unique<Compiling>(small_nodes())),
                    UserError);
}

TEST_CASE("of ZeRO's stages, each way to gather and to reduce is considered, but those of a lower stage")
{
    const auto ways = [](std::vector<std::string> overrides) {
        overrides.insert(overrides.end(), {"train.global_batch=8", "parallel.data=4"});
        const RunConfig c = toy_config(overrides);
        const OpenSettings open = open_settings(c);
        std::set<std::string> found;
        for_each_strategy(c, open, c.parallel, small_nodes(), [&](const RunConfig& strategy) {
            for (const RunConfig& each : memory_settings(strategy, open))
                if (each.parallel.zero >= 2)
                    found.insert(str(each.parallel.zero, " ", name_of(each.parallel.gather_every), " ",
                                     name_of(each.parallel.reduce_every)));
        });
        return found;
    };
    CHECK(ways({}) == std::set<std::string>{"2 pass microbatch", "3 microbatch microbatch",
                                            "3 microbatch step", "3 pass microbatch", "3 pass step"});
    CHECK(ways({"parallel.zero=2"}) == std::set<std::string>{"2 pass microbatch", "2 pass step"});
    CHECK(ways({"parallel.gather_every=step"}) ==
          std::set<std::string>{"2 pass microbatch", "3 step microbatch", "3 step step"});
}

TEST_CASE("every rule that fits is among the strategies")
{
    const SearchResult found = search(toy_config({"train.global_batch=16"}), 8, small_nodes());
    for (const char* rule : {"data parallel", "FSDP", "hybrid FSDP", "Megatron"})
        CHECK(std::ranges::any_of(found.strategies, [&](const Strategy& s) { return s.rule == rule; }));
}
