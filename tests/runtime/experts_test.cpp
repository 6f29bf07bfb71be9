// Mixtures of experts over whole steps: the bias that balances them, their loads, and division into
// microbatches.
#include "base/check.hpp"
#include "catch.hpp"
#include "config/option_sets.hpp"
#include "harness.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

using namespace trivium;
using namespace trivium::runs;
using reference::Tensors;
using reference::Vector;

namespace {

constexpr i64 rows = 4;

RunConfig config_of_experts(OptionSet options, i64 microbatches)
{
    reference::Model shape;
    shape.layers = 3;
    shape.seq = 6;
    RunConfig config = config_of(shape, Precision::f64, rows, microbatches);
    set_options(config.model, options);
    config.train.balance_rate = 0.25;
    config.train.balance_loss = 0.2;
    config.train.router_z_loss = 0.1;
    resolve_and_validate(config);
    return config;
}

TokenBatch batch_of(const RunConfig& config, std::uint64_t seed)
{
    reference::Model shape;
    shape.vocab = static_cast<int>(config.model.vocab);
    shape.seq = static_cast<int>(config.model.seq);
    return random_batch(shape, rows, seed);
}

bool is_balance(const std::string& name) { return name.ends_with(".router.balance"); }

constexpr Hyper hyper{0.01, 0.9, 0.95, 1e-8, 0.1, 0.05};

} // namespace

TEST_CASE("a step moves the bias of each expert towards the mean load of the global batch, by the rate alone")
{
    const RunConfig config = config_of_experts(OptionSet::groups, 2);
    const ModelConfig& m = config.model;
    Run run(config);
    for (const std::uint64_t step : {1, 2, 3}) {
        const TokenBatch batch = batch_of(config, step);
        Tensors before = run.parameters();
        run.differentiate(batch, hyper);
        CHECK(run.parameters() == before); // a step that is refused
        Tensors counts = run.gradients();
        double squares = 0;
        for (const auto& [name, gradient] : counts)
            for (const double g : gradient)
                squares += is_balance(name) ? 0 : g * g / (run.tokens() * run.tokens());
        CHECK(run.fetched("global_norm") == Approx(std::sqrt(squares)).epsilon(1e-12));
        run.update();
        std::size_t layers = 0;
        for (const auto& [name, old] : before) {
            if (!is_balance(name))
                continue;
            ++layers;
            const Vector& count = counts.at(name);
            CHECK(std::accumulate(count.begin(), count.end(), 0.0) ==
                  static_cast<double>(rows * m.seq * m.expert_slots));
            const double mean =
                static_cast<double>(rows * m.seq * m.expert_slots) / static_cast<double>(m.experts);
            const Vector now = run.read(name);
            for (std::size_t e = 0; e < old.size(); ++e)
                CHECK(now[e] == old[e] + (count[e] < mean ? 0.25 : count[e] > mean ? -0.25 : 0));
        }
        CHECK(layers == 2); // the first layer is dense
        const Tensors after = run.parameters();
        run.engine->evaluate(rows_of(batch));
        CHECK(run.parameters() == after);
    }
}

TEST_CASE("the outputs of a step have the largest load of each layer and the slots that are not dropped")
{
    const double factor = GENERATE(1.25, 1e20);
    RunConfig config = config_of_experts(OptionSet::groups, 2);
    config.model.expert_capacity = factor;
    const ModelConfig& m = config.model;
    Run run(config);
    StepResult result;
    run.engine->step(rows_of(batch_of(config, 5)), hyper, {.accept = [&](const StepResult& r) {
                         result = r;
                         return false;
                     }});
    REQUIRE(result.loads.size() == 4); // two of each layer
    const Tensors counts = run.gradients();
    const auto all = static_cast<double>(rows * m.seq * m.expert_slots);
    for (std::size_t layer = 0; layer < 2; ++layer) {
        const Vector& count = counts.at(str("layers.", layer + 1, ".ffn.router.balance"));
        CHECK(result.loads[2 * layer] == *std::max_element(count.begin(), count.end()));
        const double capacity =
            std::ceil(factor * static_cast<double>(m.seq * m.expert_slots) / static_cast<double>(m.experts));
        CHECK(result.loads[2 * layer + 1] <= all);
        CHECK(result.loads[2 * layer + 1] <= static_cast<double>(m.experts * rows) * capacity);
        CHECK(result.loads[2 * layer + 1] > (factor > 2 ? all - 1 : 0));
    }
}

TEST_CASE("losses of routers, capacities and loads do not depend on microbatches")
{
    for (const OptionSet options : {OptionSet::experts, OptionSet::groups}) {
        Run whole(config_of_experts(options, 1)), parts(config_of_experts(options, 4));
        const TokenBatch batch = batch_of(whole.config, 9);
        whole.differentiate(batch, hyper);
        parts.differentiate(batch, hyper);
        CHECK(parts.loss_sum() == Approx(whole.loss_sum()).epsilon(1e-12));
        const Tensors want = whole.gradients(), got = parts.gradients();
        for (const auto& [name, gradient] : want) {
            INFO(name);
            CHECK(scaled_difference(got.at(name), gradient) <= 1e-9);
        }
    }
}

TEST_CASE("what a layer recomputes chooses the same experts")
{
    for (const Recompute recompute : {Recompute::selective, Recompute::full}) {
        RunConfig config = config_of_experts(OptionSet::groups, 1);
        Run whole(config);
        config.parallel.recompute = recompute;
        Run again(config);
        for (const Op& op : again.program().graph.ops) // not made again
            CHECK((op.kind != OpKind::route || op.phase == Phase::forward));
        const TokenBatch batch = batch_of(config, 3);
        whole.differentiate(batch, hyper);
        again.differentiate(batch, hyper);
        CHECK(again.loss_sum() == whole.loss_sum());
        CHECK(again.gradients() == whole.gradients());
    }
}
