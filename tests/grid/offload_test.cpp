// parallel.offload = "optimizer": no bit changes, the states' bytes move from one arena to the other, and
// copies stream while the backward pass still runs.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/grid_run.hpp"
#include "schedule/episodes.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::grids;

namespace {

Case with(Precision precision, i64 data, i64 pipeline, i64 tensor, i64 zero)
{
    Case c;
    c.model = {zero != 2, 3, 12, 3, 3, 7, 11, 5, zero == 2};
    c.precision = precision;
    c.rows = 8;
    c.micro_batch = 2;
    c.steps = 2;
    c.parallel.data = data;
    c.parallel.pipeline = pipeline;
    c.parallel.tensor = tensor;
    c.parallel.zero = zero;
    return c;
}

Case offloaded(Case c)
{
    c.parallel.offload = Offload::optimizer;
    return c;
}

/// By name of a queue: its Steps.
std::vector<std::size_t> steps_on(const Schedule& s, std::string_view queue)
{
    std::vector<std::size_t> found;
    for (std::size_t i = 0; i < s.steps.size(); ++i)
        if (s.queues[static_cast<std::size_t>(s.steps[i].queue)] == queue)
            found.push_back(i);
    return found;
}

} // namespace

TEST_CASE("offload changes no bit")
{
    std::vector<Case> cases;
    for (const Precision precision : {Precision::f32, Precision::bf16, Precision::f64}) {
        cases.push_back(with(precision, 1, 1, 1, 0));
        for (const i64 zero : {0, 1, 2, 3})
            cases.push_back(with(precision, 2, 1, 1, zero));
    }
    cases.push_back(with(Precision::bf16, 2, 2, 2, 3));
    cases.back().parallel.recompute = Recompute::full;
    cases.push_back(with(Precision::f32, 4, 1, 1, 2));
    cases.back().parallel.shard = 2; // hybrid sharding
    cases.push_back(with(Precision::f32, 2, 2, 1, 1));
    cases.back().parallel.reduce = GradientType::bf16;
    cases.back().parallel.bucket = "none";
    cases.push_back(with(Precision::bf16, 2, 1, 1, 2));
    cases.back().parallel.accumulate = GradientType::bf16;
    std::size_t n = 0;
    for (const Case& c : cases) {
        if (contracts_on && n++ % 3 != 0) // sanitizers take their time
            continue;
        INFO(c.text());
        const Outcome want = train_on_threads(c), got = train_on_threads(offloaded(c));
        CHECK((same_bits(got, want) ? "" : differences(got, want).text()) == "");
    }
}

TEST_CASE("offload moves exactly the bytes of parameters and moments to the arena of the host")
{
    // Each tensor's shard is a multiple of the alignment, so that no gap is in these sums.
    for (const i64 data : {1, 2}) {
        Case c;
        c.model = {true, 1, 128, 2, 2, 128, 128, 4, false};
        c.precision = Precision::bf16;
        c.rows = data;
        c.parallel.data = data;
        c.parallel.zero = data > 1 ? 1 : 0;
        c.parallel.bucket = "none";
        const Compiled off = compile(c, 0), on = compile(offloaded(c), 0);
        // Embedding and head, four products of attention, three of the feed-forward layer; three norms.
        const Bytes elements = (2 * 128 * 128 + 4 * 128 * 128 + 3 * 128 * 128 + 3 * 128) / data,
                    zone = off.memory.red_zone;
        const Bytes tensors = 12, states = 3 * (4 * elements + tensors * zone);
        CHECK(off.host.arena == 0);
        CHECK(off.memory.host_arena == 0);
        CHECK(off.memory.kept - on.memory.kept == states);
        CHECK(on.host.kept == states - zone); // none after the last tensor
        CHECK(on.memory.host_arena == on.host.arena);
        // Live at its peak: the states, the gradients, norm and clipping factor, and the optimizer's numbers.
        CHECK(on.host.lower_bound == 16 * elements + 16 + 48);
        // On the device, the compute copies and the gradients stay; the optimizer's numbers left, too.
        CHECK(off.memory.lower_bound - on.memory.lower_bound == 12 * elements + 48);
        for (const auto& [kind, bytes] :
             {std::pair{MemoryKind::parameters, 4 * elements}, {MemoryKind::optimizer, 8 * elements}}) {
            CHECK(off.memory.by_kind[static_cast<int>(kind)] == bytes);
            CHECK(on.memory.by_kind[static_cast<int>(kind)] == 0);
            CHECK(on.host.by_kind[static_cast<int>(kind)] == bytes);
        }
    }
}

TEST_CASE("each op computes in one space, and copies have queues of their own")
{
    for (const Case& c : {with(Precision::f32, 1, 1, 1, 0), with(Precision::bf16, 2, 1, 1, 1),
                          with(Precision::f32, 2, 2, 1, 3)}) {
        INFO(c.text());
        const Compiled compiled = compile(offloaded(c), 0);
        for (const Program& program : compiled.programs) {
            const Schedule& s = program.schedule;
            check_no_race(s, Closure(s));
            check_disjoint(s, episodes_of(s), compiled.memory.red_zone);
            for (const Step& step : s.steps) {
                const std::string& queue = s.queues[static_cast<std::size_t>(step.queue)];
                const Space from = queue == "host" || queue == "to_device" ? Space::host : Space::device,
                            to = queue == "host" || queue == "to_host" ? Space::host : Space::device;
                for (const BufferId id : step.operands)
                    CHECK(s[id].space == from);
                for (const BufferId id : step.results)
                    CHECK((s[id].space == to || step.kind == StepKind::feed));
            }
        }
        const Program& train = compiled.programs[train_program];
        std::size_t updates = 0; // all of them on the host, after the decision
        for (const std::size_t i : steps_on(train.schedule, "host"))
            updates += i >= train.schedule.decision;
        CHECK(updates == train.graph.with_role(Role::parameter).size());
        CHECK(steps_on(train.schedule, "host").back() == train.schedule.steps.size() - 1);
    }
}

TEST_CASE("a gradient's copy waits for its reduction alone, and the forward pass for no other parameter")
{
    for (const i64 data : {1, 2}) {
        Case c = with(Precision::f32, data, 1, 1, 0);
        c.parallel.bucket = "none";
        const Compiled compiled = compile(offloaded(c), 0);
        const Graph& g = compiled.programs[train_program].graph;
        const Schedule& s = compiled.programs[train_program].schedule;
        const Closure order(s);
        std::size_t last_backward = 0, first_forward = s.steps.size();
        for (std::size_t i = 0; i < s.steps.size(); ++i)
            if (s.steps[i].kind == StepKind::op && g[s.steps[i].op].region == Region::microbatch) {
                first_forward = std::min(first_forward, i);
                last_backward = i;
            }
        const std::vector<std::size_t> out = steps_on(s, "to_host"), in = steps_on(s, "to_device");
        REQUIRE(out.size() == g.with_role(Role::parameter).size() + 1); // and the norm
        std::size_t during = 0;
        for (const std::size_t copy : out) {
            const ValueId copied = g[s.steps[copy].op].operands[0];
            const OpId producer = g[copied].producer;
            for (std::size_t i = 0; i < s.steps.size(); ++i)
                if (s.steps[i].kind == StepKind::op && s.steps[i].op == producer)
                    CHECK(order.before(i, copy));
            CHECK(copy < s.decision);
            during += !order.before(last_backward, copy) && copy < last_backward;
        }
        // All but those of the last op, of the embedding's gradient, and the norm.
        CHECK(during >= out.size() - 3);
        // Each update waits for its gradient's copy and for the norm's, which is the last.
        for (const std::size_t update : steps_on(s, "host"))
            CHECK(order.before(out.back(), update));
        // The copies to the device go on while the forward pass runs.
        CHECK_FALSE(order.before(in.back(), first_forward));
        CHECK(std::none_of(in.begin(), in.end(), [&](std::size_t copy) { return copy > first_forward; }));
    }
}
