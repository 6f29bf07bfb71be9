// Weights that read the same values as one product (parallel.group) against separate ones.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/grid_run.hpp"

#include <algorithm>
#include <array>

using namespace trivium;
using namespace trivium::grids;

namespace {

Case case_of(bool llama, Precision precision)
{
    Case c;
    c.model = {llama, 3, 16, 4, llama ? 2 : 4, 24, 11, 6, false};
    c.precision = precision;
    c.rows = 8;
    c.micro_batch = 2;
    c.steps = contracts_on ? 2 : 4;
    c.parallel.group = true;
    return c;
}

i64 count(const Graph& graph, OpKind kind)
{
    return std::count_if(graph.ops.begin(), graph.ops.end(), [&](const Op& op) { return op.kind == kind; });
}

/// Trains with and without groups: the same but for the order of the sum of X's gradient.
void require_same(Case c)
{
    INFO(c.text());
    const Outcome got = train_on_threads(c);
    c.parallel.group = false;
    const Differences d = differences(got, train_on_threads(c));
    INFO(d.text());
    if (c.precision == Precision::f64)
        CHECK(d.most() < 1e-10);
    else // the gradient of a key's bias is only rounding errors, which AdamW makes as large as others
        CHECK(std::max({d.losses, d.norms, d.evaluation, d.gradients / 50}) < 1e-6);
}

} // namespace

TEST_CASE("q, k and v, and gate and up, are one product each, forward and backward")
{
    for (const bool llama : {false, true})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            Case c = case_of(llama, Precision::bf16);
            c.parallel.recompute = recompute;
            const Graph grouped = compile(c, 0).programs[train_program].graph;
            c.parallel.group = false;
            const Graph plain = compile(c, 0).programs[train_program].graph;
            INFO(c.text());
            const i64 groups = (llama ? 2 : 1) * c.model.layers,
                      passes = recompute == Recompute::full ? 2 : 1; // forward passes
            CHECK(count(grouped, OpKind::split_columns) == groups * passes);
            CHECK(count(grouped, OpKind::join_columns) == groups);
            CHECK(count(grouped, OpKind::pack_columns) == 2 * c.model.layers); // gpt2: weights and biases
            CHECK(count(plain, OpKind::split_columns) + count(plain, OpKind::pack_columns) == 0);
            CHECK(count(grouped, OpKind::add) + count(grouped, OpKind::matmul_add) <
                  count(plain, OpKind::add) + count(plain, OpKind::matmul_add));
        }
}

TEST_CASE("views have no Steps, and their parts are in the buffer of the whole")
{
    const Compiled compiled = compile(case_of(true, Precision::bf16), 0);
    const Program& train = compiled.programs[train_program];
    for (const Step& step : train.schedule.steps)
        if (step.kind == StepKind::op)
            CHECK_FALSE(info(train.graph[step.op]).view);
    i64 columns = 0;
    for (const ColumnsIn& at : train.schedule.columns)
        columns += at.apart > 0;
    CHECK(columns >= 10 * 3); // q, k, v, gate, up and their gradients in three layers
}

TEST_CASE("the same result with groups on one rank")
{
    for (const bool llama : {false, true})
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
            Case c = case_of(llama, Precision::f32);
            c.parallel.recompute = recompute;
            require_same(c);
            c.precision = Precision::f64;
            require_same(c);
        }
}

TEST_CASE("the same result with groups on grids")
{
    for (const bool llama : {false, true})
        for (const auto& [data, pipeline, tensor, zero] : {std::array<i64, 4>{1, 1, 2, 0},
                                                           {2, 1, 1, 0},
                                                           {2, 1, 1, 1},
                                                           {2, 1, 1, 2},
                                                           {2, 1, 1, 3},
                                                           {1, 2, 1, 0},
                                                           {2, 2, 2, 1}}) {
            if (contracts_on && data * pipeline * tensor > 2) // sanitizers take their time
                continue;
            Case c = case_of(llama, Precision::f64);
            c.parallel.data = data;
            c.parallel.pipeline = pipeline;
            c.parallel.tensor = tensor;
            c.parallel.zero = zero;
            require_same(c);
        }
}

TEST_CASE("the same result with groups under zero-bubble schedules, post-validated updates and offload")
{
    for (const bool llama : {false, true}) {
        Case c = case_of(llama, Precision::f64);
        c.parallel.pipeline = 2;
        c.parallel.schedule = "zb-h1";
        require_same(c);
        c.parallel.update = UpdateMode::post_validated;
        require_same(c);
        c = case_of(llama, Precision::f64);
        c.parallel.offload = Offload::optimizer;
        require_same(c);
        c = case_of(llama, Precision::f64);
        c.parallel.zero = 3;
        c.parallel.data = 2;
        c.parallel.gather_every = GatherEvery::step;
        require_same(c);
    }
}
