// The unrolling of a graph into Steps: a golden text, and properties that hold for every model.
#include "base/check.hpp"
#include "catch.hpp"
#include "episodes.hpp"
#include "golden/golden.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "model/model.hpp"
#include "passes/autodiff.hpp"
#include "passes/optimizer.hpp"
#include "passes/simplify.hpp"
#include "schedule/memory.hpp"
#include "schedule/order.hpp"
#include "schedule/stage_order.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

Graph training_graph(Family family, DType compute)
{
    ModelConfig m;
    set_family(m, family);
    m.layers = 2;
    m.dim = 8;
    m.heads = 2;
    m.ffn_dim = 12;
    m.vocab = 11;
    m.seq = 4;
    m.tied_embeddings = family == Family::gpt2;
    resolve(m);
    return simplify(add_optimizer(autodiff(build_loss_graph(m, {2, compute, DType::f32}), {}), {1, 0.1}));
}

} // namespace

TEST_CASE("the Steps of a tiny graph, as text")
{
    const Graph graph = parse_graph(read_text("golden/schedule/tiny.graph"), "tiny.graph");
    verify(graph, Level::global);
    for (const auto& [name, kind] :
         {std::pair{"1f1b", ScheduleKind::one_f_one_b}, {"gpipe", ScheduleKind::gpipe}}) {
        Schedule s = build_schedule(graph, stage_order(graph, kind, 0, 1, 2, {1024, 512, 256}));
        plan_memory({&s}, {});
        require_golden(str("golden/schedule/tiny.", name), to_text(s, graph));
    }
}

TEST_CASE("Steps that use the same buffer are ordered if one of them writes")
{
    for (const Family family : {Family::llama, Family::gpt2})
        for (const DType compute : {DType::f32, DType::bf16})
            for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe})
                for (const i64 stages : {1, 3}) {
                    const Graph graph = training_graph(family, compute);
                    const Schedule s =
                        build_schedule(graph, stage_order(graph, kind, 0, stages, 4, {1024, 512, 256}));
                    check_no_race(s, Closure(s));
                }
}

TEST_CASE("each op runs once per microbatch or step, values are written before they are read")
{
    const i64 microbatches = 4;
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe})
        for (const i64 stages : {1, 2, 3, 5}) {
            const Graph graph = training_graph(Family::llama, DType::bf16);
            const Schedule s = build_schedule(graph, stage_order(graph, kind, 0, stages, microbatches));
            CHECK(s.slots == (kind == ScheduleKind::gpipe ? microbatches : std::min(stages, microbatches)));
            std::set<std::pair<std::size_t, i64>> ran;
            std::set<std::pair<std::size_t, i64>> known; // (value, microbatch)
            std::set<std::size_t> begun;                 // accumulators
            const auto instance = [&](ValueId v, i64 microbatch) {
                return std::pair{v.index(), graph[v].lifetime == Lifetime::microbatch ? microbatch : -1};
            };
            for (const Step& step : s.steps) {
                if (step.kind == StepKind::feed) {
                    known.insert(instance(step.value, step.microbatch));
                    continue;
                }
                if (step.kind == StepKind::fetch) {
                    REQUIRE(known.count(instance(step.value, -1)) == 1);
                    continue;
                }
                const Op& op = graph[step.op];
                REQUIRE((step.microbatch >= 0) == (op.region == Region::microbatch));
                REQUIRE(ran.insert({step.op.index(), step.microbatch}).second);
                for (const ValueId v : op.operands) {
                    INFO(graph[v].name);
                    const bool given = graph[v].role != Role::computed && graph[v].role != Role::input &&
                                       graph[v].role != Role::hyper;
                    REQUIRE((given || known.count(instance(v, step.microbatch)) == 1));
                }
                for (const ValueId v : op.results)
                    known.insert(instance(v, step.microbatch));
                if (op.accumulate) { // the first one writes, all later ones add
                    ValueId root = op.operands.back();
                    while (graph[root].role == Role::computed)
                        root = aliased_operand(graph[graph[root].producer], 0);
                    INFO(graph[root].name);
                    REQUIRE(step.overwrite == begun.insert(root.index()).second);
                }
            }
            std::size_t want = 0;
            for (const Op& op : graph.ops)
                want += op.region == Region::microbatch ? static_cast<std::size_t>(microbatches) : 1;
            REQUIRE(ran.size() == want);
        }
}

TEST_CASE("before the decision no run-lifetime value changes, after it nothing is fetched")
{
    const Graph graph = training_graph(Family::gpt2, DType::f32);
    const Schedule s = build_schedule(graph, {2});
    REQUIRE(s.decision > 0);
    REQUIRE(s.decision < s.steps.size());
    std::set<std::string> updated;
    for (std::size_t i = 0; i < s.steps.size(); ++i)
        for (const BufferId id : s.steps[i].results)
            if (s[id].lifetime == Lifetime::run) {
                CHECK(i >= s.decision);
                updated.insert(s[id].name);
            }
    for (std::size_t i = s.decision; i < s.steps.size(); ++i)
        CHECK(s.steps[i].kind == StepKind::op);
    for (const ValueId p : graph.with_role(Role::parameter))
        for (const char* prefix : {"", "adam_m.", "adam_v."})
            CHECK(updated.count(prefix + graph[p].name) == 1);
}

TEST_CASE("fetched values are still in memory when the host fetches them")
{
    ModelConfig m;
    m.vocab = 11;
    resolve(m);
    std::vector<Graph> graphs{build_decode_graph(m, {1, DType::f32, DType::f32}, {4, 16}),
                              training_graph(Family::llama, DType::f32)};
    for (const Graph& graph : graphs)
        for (const i64 microbatches : {1, 3}) {
            const Schedule s =
                build_schedule(graph, stage_order(graph, ScheduleKind::gpipe, 0, 1, microbatches));
            const std::vector<std::vector<BufferId>> dying = dying_buffers(s);
            std::size_t fetches = 0;
            for (std::size_t i = 0; i < s.steps.size(); ++i) {
                if (s.steps[i].kind != StepKind::fetch)
                    continue;
                ++fetches;
                const BufferId id = s.steps[i].operands[0];
                std::size_t written = i;
                while (std::count(s.steps[written].results.begin(), s.steps[written].results.end(), id) == 0)
                    REQUIRE(written-- > 0);
                INFO(graph.name << ": " << s[id].name << " is written by step " << written << ", fetched by "
                                << i);
                for (std::size_t j = written; j < i; ++j)
                    CHECK(std::count(dying[j].begin(), dying[j].end(), id) == 0);
            }
            CHECK(fetches == graph.outputs.size());
        }
}

TEST_CASE("planning over the first microbatches gives the memory of all")
{
    ModelConfig model = preset("toy");
    model.vocab = 50;
    model.layers = 3;
    resolve(model);
    const Graph graph = add_optimizer(autodiff(build_loss_graph(model, {}), {}), {});
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::gpipe})
        for (const i64 stages : {1, 3, 4})
            for (i64 stage = 0; stage < stages; ++stage) {
                Schedule part = build_schedule(graph, stage_order(graph, kind, stage, stages,
                                                                  kind == ScheduleKind::gpipe ? 5 : 13)),
                         whole = part;
                whole.representative = every_microbatch;
                CHECK(plan_memory({&part}, {}).arena == plan_memory({&whole}, {}).arena);
                for (std::size_t i = 0; i < part.buffers.size(); ++i)
                    REQUIRE(part.buffers[i].offset == whole.buffers[i].offset);
            }
}
