// train.ema and log.layer_norms on grids, against formulas over the weights of shorter runs.
#include "catch.hpp"
#include "grid/grid_run.hpp"

#include <cmath>

using namespace trivium;
using namespace trivium::grids;

namespace {

constexpr double decay = 0.8;
constexpr int steps = 4, refused = 1;

/// `update`: synchronous or post-validated.
Case of(i64 data, i64 pipeline, i64 tensor, i64 zero, OptimizerKind optimizer, UpdateMode update)
{
    Case c;
    c.model = {zero != 2, 3, 12, 3, 3, 7, 11, 5, zero != 3};
    c.optimizer = optimizer;
    c.steps = steps;
    c.refused = {refused};
    c.average = decay;
    c.norms = true;
    c.parallel.data = data;
    c.parallel.pipeline = pipeline;
    c.parallel.tensor = tensor;
    c.parallel.zero = zero;
    c.parallel.update = update;
    return c;
}

/// The parameters after that many steps, without averages.
reference::Tensors after(Case c, int count)
{
    c.steps = count;
    c.average = 0;
    c.norms = false;
    return train_on_threads(alone(c)).parameters;
}

double norm(const reference::Vector& x)
{
    double sum = 0;
    for (const double each : x)
        sum += each * each;
    return std::sqrt(sum);
}

} // namespace

TEST_CASE("averages of weights and norms of layers are those of formulas, on every grid")
{
    std::vector<Case> cases;
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::muon}) {
        cases.push_back(of(1, 1, 1, 0, optimizer, UpdateMode::synchronous));
        cases.push_back(of(2, 2, 2, 1, optimizer, UpdateMode::synchronous));
    }
    for (const i64 zero : {0, 2, 3})
        cases.push_back(of(2, zero == 0 ? 2 : 1, 2, zero, OptimizerKind::adamw, UpdateMode::synchronous));
    cases.push_back(of(2, 2, 1, 1, OptimizerKind::adamw, UpdateMode::post_validated));
    cases.push_back(cases[1]);
    cases.back().parallel.offload = Offload::optimizer;
    std::size_t n = 0;
    for (const Case& c : cases) {
        if (contracts_on && n++ % 4 != 3) // sanitizers take their time
            continue;
        INFO(c.text());
        const Outcome got = train_on_threads(c);
        reference::Tensors averages, before, now;
        for (const auto& [name, values] : got.parameters)
            averages[name].assign(values.size(), 0);
        for (int step = 1; step <= steps; ++step) {
            before = step == 1 ? got.initial : now;
            now = after(c, step);
            if (step != refused + 1)
                for (auto& [name, values] : averages)
                    for (std::size_t i = 0; i < values.size(); ++i)
                        values[i] = decay * values[i] + (1 - decay) * now.at(name)[i];
        }
        reference::Tensors kept;
        for (const auto& [name, values] : averages)
            kept[name] = got.moments.at("ema." + name);
        CHECK(largest_difference(kept, averages) < 1e-9);
        CHECK(largest_difference(got.parameters, now) < 1e-9);

        const runs::TokenBatch batch = batch_of(c, steps - 1);
        const reference::Result result = reference::run(c.model, averages, batch.tokens, batch.targets);
        CHECK(got.average_evaluation == Approx(result.loss_sum / result.tokens).epsilon(1e-9));
        const reference::Result raw = reference::run(c.model, now, batch.tokens, batch.targets);
        CHECK(got.evaluation == Approx(raw.loss_sum / raw.tokens).epsilon(1e-9));

        const reference::Result gradient = reference::run(c.model, before, batch.tokens, batch.targets);
        REQUIRE(got.norm_names.size() == now.size());
        double squares = 0;
        for (std::size_t i = 0; i < got.norm_names.size(); ++i) {
            const std::string& name = got.norm_names[i];
            INFO(name);
            reference::Vector change = now.at(name);
            for (std::size_t k = 0; k < change.size(); ++k)
                change[k] -= before.at(name)[k];
            CHECK(got.last_norms.weights[i] == Approx(norm(now.at(name))).epsilon(1e-9));
            CHECK(got.last_norms.updates[i] ==
                  Approx(norm(change)).epsilon(1e-6).margin(1e-8)); // small differences
            CHECK(got.last_norms.gradients[i] ==
                  Approx(norm(gradient.gradients.at(name)) / gradient.tokens).epsilon(1e-7).margin(1e-12));
            squares += got.last_norms.gradients[i] * got.last_norms.gradients[i];
        }
        CHECK(std::sqrt(squares) == Approx(got.norms.back()).epsilon(1e-9));
    }
}
