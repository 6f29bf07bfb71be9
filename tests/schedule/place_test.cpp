// Where gathers of parameters and additions of reduced gradients stand among the Steps.
#include "base/check.hpp"
#include "episodes.hpp"
#include "ir/builder.hpp"
#include "ir/collectives.hpp"
#include "ir/names.hpp"
#include "ir/text/text.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/collectives/bucket.hpp"
#include "passes/memory/recompute.hpp"
#include "passes/memory/zero.hpp"
#include "passes/optimizer.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"
#include "schedule/memory.hpp"
#include "schedule/stage_order.hpp"

#include <algorithm>
#include <map>
#include <set>

using namespace trivium;

namespace {

constexpr int layers = 5;

/// What one of two data ranks runs with ZeRO 3.
Graph sharded_model(bool merged)
{
    ModelConfig m;
    m.layers = layers;
    m.dim = 16;
    m.heads = 4;
    m.kv_heads = 2;
    m.ffn_dim = 24;
    m.vocab = 32;
    m.seq = 8;
    GraphConfig config{4, DType::f32, DType::f32};
    config.axes.batch = {data_axis};
    Graph g = build_loss_graph(m, config);
    g.mesh = {{{data_axis, 2}}};
    g = autodiff(gather_in_microbatches(complete_annotations(std::move(g))), {.reduce_axis = data_axis});
    g = recompute(std::move(g), {.gathers = true});
    OptimizerConfig optimizer;
    optimizer.shard_axis = data_axis;
    g = simplify(partition(propagate(simplify(add_optimizer(std::move(g), optimizer))), {{0}, ""}));
    return merged ? bucket(std::move(g), {}) : g;
}

/// List positions of the Steps of ops for which `is`.
template <class Is>
std::vector<std::size_t> positions(const Schedule& s, Is is)
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < s.steps.size(); ++i)
        if (s.steps[i].kind == StepKind::op && is(s.steps[i].op))
            found.push_back(i);
    return found;
}

bool reads(const Step& reader, const Step& writer)
{
    return std::any_of(writer.results.begin(), writer.results.end(), [&](BufferId b) {
        return std::find(reader.operands.begin(), reader.operands.end(), b) != reader.operands.end();
    });
}

std::size_t first_reader(const Schedule& s, std::size_t writer)
{
    for (std::size_t i = writer + 1; i < s.steps.size(); ++i)
        if (reads(s.steps[i], s.steps[writer]))
            return i;
    throw InternalError(__FILE__, __LINE__, "nothing reads it");
}

} // namespace

TEST_CASE("in a microbatch there is one gather for each block and pass, and one reduction for each block")
{
    const Graph g = sharded_model(true);
    std::map<std::pair<Phase, int>, int> gathers, reductions;
    const std::vector<bool> reduces = gradient_reductions(g);
    for (std::size_t i = 0; i < g.ops.size(); ++i) {
        if (gathers_parameters(g, g.ops[i]))
            ++gathers[{g.ops[i].phase, g.ops[i].block}];
        if (reduces[i])
            ++reductions[{g.ops[i].phase, g.ops[i].block}];
    }
    for (int block = 1; block <= layers; ++block) {
        CHECK(gathers[{Phase::forward, block}] == 1);
        CHECK(gathers[{Phase::backward, block}] == 1);
        CHECK(reductions[{Phase::backward, block}] == 1);
    }
    for (const auto& [place, count] : gathers)
        CHECK(count == 1);
    for (const auto& [place, count] : reductions)
        CHECK(count == 1);
}

TEST_CASE("a gather begins before the first reader of the gather before it")
{
    const bool merged = GENERATE(false, true);
    const i64 microbatches = GENERATE(1, 3);
    const Graph g = sharded_model(merged);
    ScheduleConfig config;
    config.microbatches = microbatches;
    const Schedule s = build_schedule(g, config);
    const std::vector<std::size_t> gathers =
        positions(s, [&](OpId op) { return gathers_parameters(g, g[op]); });
    if (merged) // embedding and head gather once in each pass that needs them
        CHECK(static_cast<i64>(gathers.size()) >= microbatches * 2 * layers);
    std::size_t ahead = 0;
    for (std::size_t k = 1; k < gathers.size(); ++k) {
        const std::size_t before = first_reader(s, gathers[k - 1]);
        ahead += gathers[k] < before;
        if (k >= 2) // no more than one: the bytes in flight are bounded
            CHECK(gathers[k] > first_reader(s, gathers[k - 2]));
    }
    CHECK(ahead + 1 >= gathers.size());
}

TEST_CASE("a reduced gradient is added before the next reduction begins, not at once")
{
    const bool merged = GENERATE(false, true);
    const Graph g = sharded_model(merged);
    ScheduleConfig config;
    config.microbatches = 2;
    const Schedule s = build_schedule(g, config);
    const std::vector<bool> reduces = gradient_reductions(g);
    const std::vector<std::size_t> reductions = positions(s, [&](OpId op) { return reduces[op.index()]; });
    REQUIRE(reductions.size() >= 2 * layers);
    for (std::size_t k = 0; k < reductions.size(); ++k) {
        const std::size_t added = first_reader(s, reductions[k]);
        const std::size_t next = k + 1 < reductions.size() ? reductions[k + 1] : s.steps.size();
        CHECK(added < next);
        // Only additions and gathers lie between the first addition and the next reduction.
        for (std::size_t i = added; k + 1 < reductions.size() && i < next; ++i)
            CHECK((reduction_added_by(g, g[s.steps[i].op]) || gathers_parameters(g, g[s.steps[i].op])));
    }
}

TEST_CASE("placement changes the order of Steps, not the Steps")
{
    const Graph g = sharded_model(true);
    ScheduleConfig config;
    config.microbatches = 3;
    const Schedule placed = build_schedule(g, config);
    config.place = false;
    const Schedule plain = build_schedule(g, config);
    const auto sorted = [&](const Schedule& s) {
        std::vector<std::pair<i64, std::size_t>> all;
        for (const Step& step : s.steps)
            if (step.kind == StepKind::op)
                all.emplace_back(step.microbatch, step.op.index());
        std::sort(all.begin(), all.end());
        return all;
    };
    CHECK(sorted(placed) == sorted(plain));
    const auto in_order = [&](const Schedule& s) {
        std::vector<std::size_t> all;
        for (const Step& step : s.steps)
            if (step.kind == StepKind::op)
                all.push_back(step.op.index());
        return all;
    };
    CHECK(in_order(placed) != in_order(plain));
}

TEST_CASE("planning over the first and last microbatches gives the memory of all, with gathers too")
{
    const Graph g = sharded_model(true);
    ScheduleConfig config;
    config.microbatches = 9;
    Schedule part = build_schedule(g, config), whole = part;
    whole.representative = every_microbatch;
    CHECK(plan_memory({&part}, {}).arena == plan_memory({&whole}, {}).arena);
    for (std::size_t i = 0; i < part.buffers.size(); ++i)
        REQUIRE(part.buffers[i].offset == whole.buffers[i].offset);
}

TEST_CASE("gathers ahead and additions behind: no race, no shared bytes")
{
    const bool merged = GENERATE(false, true);
    const Graph g = sharded_model(merged);
    for (const i64 stages : {1, 3}) {
        Schedule s =
            build_schedule(g, stage_order(g, ScheduleKind::one_f_one_b, 0, stages, 5, {1024, 512, 256, 512}));
        check_no_race(s, Closure(s));
        plan_memory({&s}, {});
        check_disjoint(s, episodes_of(s), 0);
    }
}

TEST_CASE("a halo travels as soon as what it sends is there, in the order of its axis")
{
    const Graph g = parse_graph(
        "graph g\nmesh x=2\nat x=0\ninput %a : f64[4]<x> of f64[8]\nmicrobatch {\n"
        "%b = tanh(%a) : f64[4]<x>\n%c = tanh(%b) : f64[4]<x>\n%d = tanh(%c) : f64[4]<x>\n"
        "%h = halo(%b) {axis=\"x\", shape=\"5\", owned=\"0 4 4 4\", needed=\"0 5 3 5\"} : f64[5]\n"
        "%k = halo(%a) {axis=\"x\", shape=\"5\", owned=\"0 4 4 4\", needed=\"0 5 3 5\"} : f64[5]\n"
        "%y = add(%h, %k) : f64[5]\n%z = slice(%y) {start=\"0\", limit=\"4\"} : f64[4]\n"
        "%e = add(%z, %d) : f64[4]<x>\n}\noutput %e\n",
        "g");
    const auto order = [&](bool place) {
        std::string names;
        for (const Step& step : build_schedule(g, {.place = place}).steps)
            names += (step.kind == StepKind::feed    ? "feed"
                      : step.kind == StepKind::fetch ? "fetch"
                                                     : g[g[step.op].results[0]].name) +
                     " ";
        return names;
    };
    CHECK(order(false) == "feed b c d h k y z e fetch ");
    CHECK(order(true) == "feed b h c d k y z e fetch ");
}

TEST_CASE("what is gathered for gradients of weights takes turns in two buffers, each until its last reader")
{
    for (const bool again : {false, true}) { // the last block reads what the first one has gathered
        INFO(again);
        Graph g;
        Builder b(g);
        g.name = "turns";
        g.mesh.axes = {{tensor_axis, 2}};
        g.at = {0};
        const TensorType part{DType::f32, {32}}, whole{DType::f32, {64}};
        constexpr int blocks = 5;
        b.where = {Region::microbatch, Phase::forward, 0, ""};
        std::vector<ValueId> kept{b.value("x", part, Role::input)};
        for (int block = 1; block <= blocks; ++block) {
            b.where.block = block;
            kept.push_back(b.op1(OpKind::gelu, {kept.back()}));
        }
        const ValueId before = b.value("grad", whole, Role::carry);
        ValueId sum = before;
        std::vector<ValueId> gathered;
        for (int block = blocks; block > 0; --block) {
            b.where = {Region::microbatch, Phase::weights, block, ""};
            gathered.push_back(b.all_gather(kept[static_cast<std::size_t>(block)], tensor_axis, 0, 64));
            sum = b.add_into(sum, b.op1(OpKind::gelu, {gathered.back()}), false);
        }
        if (again)
            sum = b.add_into(sum, b.op1(OpKind::gelu, {gathered.front()}), false);
        g.carries.push_back({before, sum});
        ScheduleConfig config;
        config.microbatches = 3;
        for (i64 m = 0; m < config.microbatches; ++m)
            for (const Work work : {Work::forward, Work::input_gradient, Work::weight_gradient})
                config.tasks.push_back({work, 0, m});
        const Schedule s = build_schedule(g, config);
        std::set<BufferId> buffers;
        std::map<BufferId, std::pair<ValueId, i64>>
            holds; // by buffer: the gathered value, and its microbatch
        for (const Step& step : s.steps) {
            if (step.kind != StepKind::op)
                continue;
            const Op& op = g[step.op];
            for (std::size_t i = 0; i < op.operands.size(); ++i)
                if (std::ranges::find(gathered, op.operands[i]) != gathered.end())
                    CHECK(holds.at(step.operands[i]) == std::pair(op.operands[i], step.microbatch));
            if (!info(op).communicates)
                continue;
            buffers.insert(step.results.front());
            holds[step.results.front()] = {op.results.front(), step.microbatch};
        }
        CHECK(buffers.size() == (again ? 3 : 2));
    }
}
