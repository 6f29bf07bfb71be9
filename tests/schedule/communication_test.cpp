// Schedules with communication queues: no race, no shared bytes, reductions as early as possible. On random
// local graphs, and on what the ranks of a grid run.
#include "base/check.hpp"
#include "episodes.hpp"
#include "ir/builder.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/collectives/bucket.hpp"
#include "passes/optimizer.hpp"
#include "passes/pipeline/balance_stages.hpp"
#include "passes/pipeline/stage.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/sharding/propagate.hpp"
#include "passes/simplify.hpp"
#include "schedule/memory.hpp"
#include "schedule/stage_order.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>

using namespace trivium;

namespace {

/// A stage in the middle of a pipeline: messages in and out, collectives over two axes in every region,
/// gradients that several ops add into, reductions in chains, and an update.
class RandomStage {
public:
    explicit RandomStage(u64 seed) : draw_(seed), b_(graph_)
    {
        graph_.name = "stage";
        graph_.mesh.axes = {{"data", 2}, {"pipeline", 3}, {"tensor", 2}};
        graph_.at = {0, 1, 0};
        b_.where = {Region::prologue, Phase::forward, 0, ""};
        std::vector<ValueId> weights;
        for (std::size_t n = 1 + below(3); n > 0; --n) {
            weights.push_back(b_.value(str("w", n), type(), Role::parameter));
            parameters_.push_back(weights.back());
        }
        grow(weights, below(4));
        b_.where = {Region::microbatch, Phase::forward, 1, ""};
        std::vector<ValueId> forward = weights;
        forward.push_back(b_.value("fed", type(), Role::input));
        forward.push_back(b_.receive("pipeline", 0, 0, type(), "x"));
        grow(forward, 3 + below(8));
        b_.send("pipeline", 2, 0, forward.back());
        b_.where.phase = Phase::backward;
        std::vector<ValueId> backward = forward;
        backward.push_back(b_.receive("pipeline", 2, 1, type(), "dx"));
        std::vector<ValueId> sums;
        for (const ValueId p : parameters_) {
            const ValueId before = b_.value("grad." + graph_[p].name, type(), Role::carry);
            ValueId sum = before;
            for (std::size_t adds = 1 + below(2); adds > 0; --adds) {
                grow(backward, below(3));
                sum = b_.add_into(sum, backward[backward.size() - 1 - below(3)], false);
            }
            graph_.carries.push_back({before, sum});
            sums.push_back(sum);
        }
        grow(backward, below(3));
        b_.send("pipeline", 0, 1, backward.back());
        update(sums);
        verify(graph_, Level::local);
    }

    Graph take() { return std::move(graph_); }

private:
    static constexpr i64 rows = 64;
    static TensorType type() { return {DType::f32, {rows}}; }
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(draw_() % n); }

    /// Appends `ops` ops on values of one shape, plain ones and collectives.
    void grow(std::vector<ValueId>& values, std::size_t ops)
    {
        for (; ops > 0; --ops) {
            const ValueId x = values[below(values.size())], y = values[below(values.size())];
            const char* axis = below(2) ? "data" : "tensor";
            switch (below(6)) {
            case 0: values.push_back(b_.sum_of(x, y)); break;
            case 1: values.push_back(b_.op1(OpKind::swiglu, {x, y})); break;
            case 2: values.push_back(b_.all_reduce(x, axis, Combine::sum)); break;
            case 3:
                values.push_back(b_.all_gather(b_.reduce_scatter(x, axis, 0, rows / 2), axis, 0, rows));
                break;
            default: values.push_back(b_.op1(OpKind::gelu, {x})); break;
            }
        }
    }

    void update(const std::vector<ValueId>& sums)
    {
        b_.where = {Region::epilogue, Phase::update, 0, ""};
        std::vector<ValueId> reduced, squares;
        for (const ValueId sum : sums) {
            ValueId x = sum;
            if (below(3) > 0)
                x = b_.all_reduce(x, "tensor", Combine::sum);
            if (below(4) == 0)
                x = b_.sum_of(x, x); // later Steps wait for the compute queue
            if (below(3) > 0)
                x = b_.all_reduce(x, "data", Combine::sum);
            reduced.push_back(x);
        }
        for (const ValueId x : reduced)
            squares.push_back(b_.squares_of(x));
        squares.insert(squares.begin(), {squares[0], squares[0]});
        const ValueId totals = b_.all_reduce(b_.stack_of(squares, "totals.part"), "world", Combine::sum),
                      norm = b_.norm_of(totals, 1, std::ssize(reduced));
        graph_.outputs = {totals, norm};
        const ValueId hyper = b_.value("hyper", {DType::f64, {hyper_count}}, Role::hyper);
        for (std::size_t i = 0; i < parameters_.size(); ++i) {
            b_.update(parameters_[i], b_.states_of(parameters_[i], "adamw", {}), {reduced[i], norm, hyper},
                      0.1);
        }
    }

    std::mt19937_64 draw_;
    Graph graph_;
    Builder b_;
    std::vector<ValueId> parameters_;
};

/// Requires that collectives of the epilogue that wait only for the backward pass begin after the last op for
/// which they wait, and wait for nothing later. Returns their number.
int check_early(const Graph& graph, const Schedule& s, const Closure& closure)
{
    std::vector<std::size_t> ran(graph.ops.size(), 0); // the last Step of an op
    for (std::size_t i = 0; i < s.steps.size(); ++i)
        if (s.steps[i].kind == StepKind::op)
            ran[s.steps[i].op.index()] = i;
    const auto in_epilogue = [&](std::size_t i) {
        return s.steps[i].kind == StepKind::op && graph[s.steps[i].op].region == Region::epilogue &&
               info(graph[s.steps[i].op]).communicates;
    };
    std::vector<std::size_t> last(graph.ops.size(),
                                  0); // the Step of the backward pass for which such a collective waits
    int early = 0;
    for (std::size_t n = 0; n < graph.ops.size(); ++n) {
        const Op& op = graph.ops[n];
        if (op.region != Region::epilogue || !info(op).communicates)
            continue;
        bool only_backward = !op.operands.empty();
        for (const ValueId v : op.operands) {
            const OpId producer = graph[v].producer;
            const std::size_t step =
                !producer ? 0
                : graph[producer].region == Region::microbatch && graph[producer].phase == Phase::backward
                    ? ran[producer.index()]
                    : last[producer.index()];
            only_backward = only_backward && step > 0;
            last[n] = std::max(last[n], step);
        }
        if (!only_backward) {
            last[n] = 0;
            continue;
        }
        ++early;
        INFO("op " << n << " in step " << ran[n] << ", waits for step " << last[n]);
        REQUIRE(ran[n] > last[n]);
        for (std::size_t i = last[n] + 1; i < ran[n]; ++i)
            REQUIRE(in_epilogue(i));
        REQUIRE(closure.before(last[n], ran[n]));
        for (std::size_t i = last[n] + 1; i < s.steps.size(); ++i)
            if (s.steps[i].queue == queue_compute)
                REQUIRE_FALSE((i < ran[n] && closure.before(i, ran[n])));
    }
    return early;
}

/// One queue for the collectives of each axis, and one for each tag and direction of messages.
void check_queues(const Graph& graph, const Schedule& s)
{
    std::map<int, std::set<std::string>> users;
    std::map<std::string, std::set<int>> queues;
    for (const Step& step : s.steps) {
        if (step.kind != StepKind::op || !info(graph[step.op]).communicates) {
            REQUIRE(step.queue <= queue_device_to_host);
            continue;
        }
        const Op& op = graph[step.op];
        std::string user = *op.attrs->axis;
        if (op.attrs->tag)
            user += str(op.attrs->to ? " to" : " from", op.attrs->to ? *op.attrs->to : *op.attrs->from,
                        " tag ", *op.attrs->tag);
        REQUIRE(step.queue > queue_device_to_host);
        users[step.queue].insert(user);
        queues[user].insert(step.queue);
    }
    for (const auto& [queue, names] : users)
        REQUIRE(names.size() == 1);
    for (const auto& [user, own] : queues)
        REQUIRE(own.size() == 1);
    REQUIRE(s.queues.size() == 3 + users.size());
}

/// A receive starts in its turn, not at the beginning, because another buffer may use its bytes until then.
void check_messages(const Graph& graph, const Schedule& s, const Closure& closure)
{
    std::size_t compute = s.steps.size();
    for (std::size_t i = 0; i < s.steps.size(); ++i)
        if (s.steps[i].queue == queue_compute)
            compute = i;
        else if (s.steps[i].kind == StepKind::op && graph[s.steps[i].op].operands.empty() && compute < i)
            REQUIRE(closure.before(compute, i));
}

int check(const Graph& graph, const ScheduleConfig& config, Bytes red_zone)
{
    Schedule s = build_schedule(graph, config);
    const Closure closure(s);
    check_queues(graph, s);
    check_no_race(s, closure);
    check_messages(graph, s, closure);
    plan_memory({&s}, {64, red_zone, 0});
    check_disjoint(s, episodes_of(s), red_zone);
    return check_early(graph, s, closure);
}

/// The training program of the rank at `at` for a small model.
Graph part_of_model(Family family, const Mesh& mesh, const Coordinates& at, bool tied, bool zero)
{
    ModelConfig m;
    set_family(m, family);
    m.layers = 2;
    m.dim = 8;
    m.heads = 2;
    m.ffn_dim = 9;
    m.vocab = 11;
    m.seq = 5;
    m.tied_embeddings = tied;
    resolve(m);
    Graph g = build_loss_graph(m, {4, DType::f32, DType::f32, {{"data"}, "tensor", true, false}});
    g.mesh = mesh;
    g = complete_annotations(std::move(g));
    OptimizerConfig optimizer{1, 0.1};
    optimizer.shard_axis = zero ? "data" : "";
    g = propagate(simplify(add_optimizer(autodiff(std::move(g), {}), optimizer)));
    std::vector<int> each(static_cast<std::size_t>(mesh.size("pipeline")));
    std::iota(each.begin(), each.end(), 0);
    g = StageGraphs(g, {balance_stages(g, each), each}).of(static_cast<int>(at[1]));
    g = bucket(simplify(partition(g, {at, "pipeline"})), {Bytes{600}, false});
    verify(g, Level::local);
    return g;
}

} // namespace

TEST_CASE("random stages with communication: no race, no shared bytes, early reductions")
{
    int early = 0;
    for (u64 seed = 0; seed < 200; ++seed) {
        const Graph graph = RandomStage(seed).take();
        for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe})
            for (const i64 microbatches :
                 {1, 2, seed % 20 == 0 ? 14 : 5}) { // 14: memory planning skips most of them
                INFO("seed " << seed << ", " << microbatches << " microbatches");
                ScheduleConfig config = stage_order(graph, kind, static_cast<i64>(seed % 3), 3, microbatches,
                                                    {1024, 512, 256, 512});
                config.receive_early = seed % 3 != 0;
                early += check(graph, config, seed % 2 ? 32 : 0);
            }
    }
    CHECK(early > 1000);
}

TEST_CASE("the ranks of a grid: no race, no shared bytes, early reductions")
{
    const Mesh mesh{{{"data", 2}, {"pipeline", 2}, {"tensor", 2}}};
    int early = 0;
    for (const Family family : {Family::llama, Family::gpt2})
        for (const i64 stage : {0, 1}) {
            const bool tied = family == Family::gpt2;
            const Graph graph = part_of_model(family, mesh, {stage, stage, 1 - stage}, tied, stage == 0);
            for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
                INFO(graph.name << " of stage " << stage);
                early += check(graph, stage_order(graph, kind, stage, 2, 3, {1024, 512, 256, 4096}), 0);
            }
        }
    CHECK(early >= 16);
}

TEST_CASE("an early receive begins before the first reader of the one before it, if its buffer is free")
{
    const Mesh mesh{{{"data", 1}, {"pipeline", 3}, {"tensor", 1}}};
    const Graph graph = part_of_model(Family::llama, mesh, {0, 1, 0}, false, false);
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
        ScheduleConfig config = stage_order(graph, kind, 1, 3, 6);
        const Schedule late = build_schedule(graph, config);
        config.receive_early = true;
        const Schedule early = build_schedule(graph, config);
        // Of each receive: how many Steps of the compute queue come before it.
        const auto places = [&](const Schedule& s) {
            std::map<std::array<i64, 3>, int> all; // by sender, tag and microbatch
            int computed = 0;
            for (const Step& step : s.steps) {
                computed += step.queue == queue_compute;
                if (step.kind == StepKind::op && graph[step.op].attrs->from)
                    all[{*graph[step.op].attrs->from, *graph[step.op].attrs->tag, step.microbatch}] =
                        computed;
            }
            return all;
        };
        const auto before = places(late), after = places(early);
        REQUIRE(before.size() == 12); // a forward and a backward one in each of six microbatches
        int earlier = 0;
        for (const auto& [receive, place] : before) {
            CHECK(after.at(receive) <= place);
            earlier += after.at(receive) < place;
        }
        CHECK(earlier >= (kind == ScheduleKind::gpipe ? 10 : 4)); // 1F1B reuses the inputs' buffers at once
    }
}

TEST_CASE("planning over the first and last microbatches gives the memory of all, with messages too")
{
    const Mesh mesh{{{"data", 1}, {"pipeline", 3}, {"tensor", 2}}};
    for (const i64 stage : {0, 1, 2}) {
        const Graph graph = part_of_model(Family::llama, mesh, {0, stage, 0}, true, false);
        for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe}) {
            Schedule part = build_schedule(
                         graph, stage_order(graph, kind, stage, 3, kind == ScheduleKind::gpipe ? 5 : 13)),
                     whole = part;
            whole.representative = every_microbatch;
            CHECK(plan_memory({&part}, {}).arena == plan_memory({&whole}, {}).arena);
            for (std::size_t i = 0; i < part.buffers.size(); ++i)
                REQUIRE(part.buffers[i].offset == whole.buffers[i].offset);
        }
    }
}
