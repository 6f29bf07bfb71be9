// Steps on streams: the commands of a Schedule imply its order and require nothing of the host or the device
// that the Schedule does not state; and a device that delays its work and runs it in any legal order gives
// the bits of the host.
#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "catch.hpp"
#include "grid/cases.hpp"
#include "runtime/deferred_streams.hpp"
#include "schedule/closure.hpp"
#include "schedule/commands.hpp"

#include <cstring>
#include <map>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// A set of Steps.
class Steps {
public:
    explicit Steps(std::size_t count = 0) : words_(count / 64 + 1) {}
    void add(std::size_t step) { words_[step / 64] |= u64{1} << step % 64; }
    void add(const Steps& other)
    {
        for (std::size_t w = 0; w < words_.size(); ++w)
            words_[w] |= other.words_[w];
    }
    bool has(std::size_t step) const { return (words_[step / 64] >> step % 64 & 1) != 0; }
    bool operator==(const Steps&) const = default;

private:
    std::vector<u64> words_;
};

/// Whether the commands keep every order of the Schedule (whose closure is `wanted`), and each part ends on
/// the compute queue after all of its Steps.
bool keeps_order(const DeviceProgram& program, const Schedule& schedule, const Closure& wanted)
{
    const std::size_t steps = schedule.steps.size();
    std::vector<Steps> over(schedule.queues.size(), Steps(steps)),
        at_event(static_cast<std::size_t>(program.events), Steps(steps));
    std::vector<bool> recorded(at_event.size(), false);
    Steps all(steps), left(steps); // left: messages for which an early decision does not wait
    for (std::size_t i = 0; schedule.decides_early && i < schedule.decision; ++i)
        if (schedule.steps[i].kind == StepKind::op && schedule.steps[i].results.empty())
            left.add(i);
    for (const CommandList* list : {&program.until_decision, &program.after_decision}) {
        for (std::size_t n = 0; n < list->end_of_work; ++n) {
            const DeviceCommand& c = list->commands[n];
            Steps& queue = over[static_cast<std::size_t>(c.queue)];
            const auto event = static_cast<std::size_t>(c.event);
            if (c.kind == CommandKind::record) {
                at_event[event] = queue;
                recorded[event] = true;
            } else if (c.kind == CommandKind::wait) {
                if (!recorded[event])
                    return false;
                queue.add(at_event[event]);
            } else {
                const std::size_t first = c.step.index();
                for (std::size_t later = first; later < first + c.count; ++later)
                    for (std::size_t earlier = 0; earlier < first; ++earlier) {
                        const bool other_part =
                            earlier < schedule.decision && later >= schedule.decision && !left.has(earlier);
                        if ((other_part || wanted.before(earlier, later)) && !queue.has(earlier))
                            return false;
                    }
                for (std::size_t i = first; i < first + c.count; ++i) {
                    queue.add(i);
                    all.add(i);
                }
            }
        }
        Steps joined = over[queue_compute];
        if (list == &program.until_decision)
            joined.add(left);
        if (!(joined == all))
            return false;
    }
    return true;
}

bool keeps_order(const DeviceProgram& program, const Schedule& schedule)
{
    return keeps_order(program, schedule, Closure(schedule));
}

std::size_t count(const CommandList& list, CommandKind kind)
{
    return static_cast<std::size_t>(std::count_if(list.commands.begin(), list.commands.end(),
                                                  [&](const DeviceCommand& c) { return c.kind == kind; }));
}

Case small(i64 data, i64 pipeline, i64 tensor, bool llama = true)
{
    Case c;
    c.model = {llama, 2, 12, 3, 3, 7, 11, 5, !llama};
    c.precision = Precision::f32;
    c.rows = 4;
    c.steps = 3;
    c.parallel.data = data;
    c.parallel.pipeline = pipeline;
    c.parallel.tensor = tensor;
    c.parallel.zero = data > 1 ? 1 : 0;
    return c;
}

Case offloaded(i64 data)
{
    Case c = small(data, 1, 1);
    c.precision = Precision::bf16;
    c.parallel.bucket = "none";
    c.parallel.offload = Offload::optimizer;
    return c;
}

Case in_bf16()
{
    Case c = small(1, 1, 1);
    c.precision = Precision::bf16;
    return c;
}

Case post_validated(i64 data)
{
    Case c = small(data, 2, 1);
    c.micro_batch = 1;
    c.counts_all = true;
    c.parallel.update = UpdateMode::post_validated;
    return c;
}

std::vector<Case> cases()
{
    return {small(1, 1, 1),    small(1, 1, 1, false), small(2, 1, 1), small(1, 2, 1),
            small(1, 1, 3),    small(2, 2, 1, false), offloaded(1),   offloaded(2),
            post_validated(1), post_validated(2),     in_bf16()};
}

bool may_join(const Schedule& schedule, const Graph& graph, StepId a, StepId b)
{
    const OpKind kind = graph[schedule.steps[a.index()].op].kind;
    return (kind == OpKind::adamw || kind == OpKind::cast) &&
           graph[schedule.steps[b.index()].op].kind == kind;
}

} // namespace

TEST_CASE("commands keep the order of the Steps, and each wait is needed")
{
    for (const Case& c : cases()) {
        INFO(c.text());
        const Compiled compiled = compile(c, c.ranks() - 1);
        for (const Program& program : compiled.programs) {
            const Joins joins = [&](StepId a, StepId b) {
                return may_join(program.schedule, program.graph, a, b);
            };
            CHECK(keeps_order(lower(program.schedule), program.schedule));
            CHECK(keeps_order(lower(program.schedule, joins), program.schedule));
        }
        const Schedule& schedule = compiled.programs[train_program].schedule;
        const DeviceProgram lowered = lower(schedule);
        const Closure wanted(schedule);
        int mutants = 0;
        for (CommandList DeviceProgram::*part :
             {&DeviceProgram::until_decision, &DeviceProgram::after_decision}) {
            const std::vector<DeviceCommand>& commands = (lowered.*part).commands;
            std::size_t last_work =
                0; // the waits for the ends of the other queues come after it, those for the begin before it
            for (std::size_t n = 0; n < commands.size(); ++n)
                last_work = commands[n].step ? n : last_work;
            for (std::size_t n = 0; n < last_work; ++n) {
                if (commands[n].kind != CommandKind::wait || commands[n].event == commands.front().event)
                    continue;
                DeviceProgram mutant = lowered;
                (mutant.*part)
                    .commands.erase((mutant.*part).commands.begin() + static_cast<std::ptrdiff_t>(n));
                --(mutant.*part).end_of_work;
                ++mutants;
                INFO("without the wait for event " << commands[n].event);
                CHECK_FALSE(keeps_order(mutant, schedule, wanted));
            }
        }
        CHECK(mutants > 3);
    }
}

TEST_CASE("commands copy feeds and fetches, and the host waits once, before the decision")
{
    for (const Case& c : cases()) {
        INFO(c.text());
        const Compiled compiled = compile(c, 0);
        for (const Program& program : compiled.programs) {
            const Schedule& schedule = program.schedule;
            const DeviceProgram lowered = lower(schedule);
            std::map<CommandKind, std::size_t> want;
            for (const Step& step : schedule.steps)
                ++want[step.kind == StepKind::feed    ? CommandKind::copy_in
                       : step.kind == StepKind::fetch ? CommandKind::copy_out
                                                      : CommandKind::launch];
            for (const CommandKind kind : {CommandKind::launch, CommandKind::copy_in, CommandKind::copy_out})
                CHECK(count(lowered.until_decision, kind) + count(lowered.after_decision, kind) ==
                      want[kind]);
            CHECK(count(lowered.after_decision, CommandKind::copy_out) == 0);
            CHECK((count(lowered.after_decision, CommandKind::copy_in) == 0 || schedule.decides_early));
            CHECK(count(lowered.until_decision, CommandKind::synchronise) == 1);
            CHECK(count(lowered.after_decision, CommandKind::synchronise) == 0);
            CHECK(lowered.until_decision.commands.back().kind == CommandKind::synchronise);
            CHECK(lowered.until_decision.commands.size() == lowered.until_decision.end_of_work + 2);
        }
    }
}

TEST_CASE("consecutive updates of all parameters are one launch, and so are their casts")
{
    const Case c = in_bf16();
    const Compiled compiled = compile(c, 0);
    const Program& program = compiled.programs[train_program];
    const DeviceProgram lowered = lower(program.schedule, [&](StepId a, StepId b) {
        return may_join(program.schedule, program.graph, a, b);
    });
    CHECK(count(lowered.after_decision, CommandKind::launch) < 4);
    const std::size_t parameters = program.graph.with_role(Role::parameter).size();
    CHECK(parameters > 10);
    CHECK(count(lowered.until_decision, CommandKind::launch) + parameters - 1 <=
          count(lower(program.schedule).until_decision, CommandKind::launch));
}

TEST_CASE("a device that delays its work and runs it in any legal order gives the bits of the host")
{
    for (Case c : cases()) {
        if (c.ranks() == 2)
            c.model = runs::regularised(c.model);
        const Outcome want = train_on_threads(c);
        for (const u64 seed : {1, 2})
            if (const bool graphs = seed == 2 && c.parallel.update == UpdateMode::synchronous; true) {
                INFO(c.text() << ", seed " << seed << (graphs ? ", graphs" : ""));
                Meddle device;
                device.streams = runs::deferred_streams(seed);
                device.settle = runs::settle_deferred;
                device.graphs = graphs;
                CHECK(same_bits(train_on_threads(c, device), want));
            }
    }
}

TEST_CASE("a step consists of launches, copies of feeds and fetches, and one wait")
{
    Case c = small(1, 1, 1);
    c.precision = GENERATE(Precision::f32, Precision::bf16);
    runs::Run run(config_of(c));
    ExecutorConfig execution;
    execution.graphs = true;
    Executor executor(run.program().graph, run.program().schedule, run.engine->arenas(), execution, nullptr,
                      runs::deferred_streams(3));
    const Schedule& schedule = run.program().schedule;
    const auto of = [&](StepKind kind) {
        return std::count_if(schedule.steps.begin(), schedule.steps.end(),
                             [&](const Step& s) { return s.kind == kind; });
    };
    const auto parameters = static_cast<i64>(run.program().graph.with_role(Role::parameter).size());
    const i64 groups = c.precision == Precision::bf16 ? 3 : 2;
    const Feed nothing = [](const Value& value, i64, void* to) {
        std::memset(to, 0, static_cast<std::size_t>(value.type.bytes()));
    };
    runs::asked_of_deferred();
    for (int step = 0; step < 4; ++step) {
        executor.run_until_decision(nothing);
        executor.run_after_decision();
        runs::settle_deferred();
        const runs::AskedOfDevice asked = runs::asked_of_deferred();
        CHECK(asked.copies == of(StepKind::feed) + of(StepKind::fetch));
        CHECK(asked.synchronisations == 1);
        // The updates are one launch, so are the sums of squares, and in bf16 the casts of parameters.
        CHECK(asked.launches <= of(StepKind::op) - groups * (parameters - 1));
        CHECK(asked.replays == (step == 0 ? 0 : 2)); // the first step runs Step by Step
    }
}

TEST_CASE("while the host waits for a device, a watchdog can name the Step that is running")
{
    const Case c = small(1, 1, 1);
    runs::Run run(config_of(c));
    std::vector<std::string> seen;
    const StreamsMaker make = [&](const StreamsConfig& config) {
        StreamsConfig watched = config;
        watched.check = [&seen, check = config.check] {
            check();
            seen.push_back(Activity::of_process().read().piece);
        };
        return runs::deferred_streams(3)(watched);
    };
    Executor executor(run.program().graph, run.program().schedule, run.engine->arenas(), {}, nullptr, make);
    executor.run_until_decision([](const Value& value, i64, void* to) {
        std::memset(to, 0, static_cast<std::size_t>(value.type.bytes()));
    });
    REQUIRE(seen.size() == 1); // nothing is done yet
    CHECK(seen.front().find(", Step ") != std::string::npos);
    CHECK(Activity::of_process().read().piece.empty());
    executor.run_after_decision();
}

TEST_CASE("the spans of a device's Steps are those of their launches")
{
    const Case c = small(1, 1, 1);
    runs::Run run(config_of(c));
    ExecutorConfig execution;
    execution.trace = true;
    Executor executor(run.program().graph, run.program().schedule, run.engine->arenas(), execution, nullptr,
                      runs::deferred_streams(3));
    executor.run_until_decision([](const Value& value, i64, void* to) {
        std::memset(to, 0, static_cast<std::size_t>(value.type.bytes()));
    });
    executor.run_after_decision();
    const std::vector<Span>& spans = executor.timeline().spans;
    const Schedule& schedule = run.program().schedule;
    const Closure order(schedule);
    for (std::size_t later = 0; later < spans.size(); ++later) {
        bool in_order = spans[later].begin <= spans[later].end;
        for (std::size_t earlier = 0; earlier < later; ++earlier)
            if (order.before(earlier, later) && spans[later].begin < spans[later].end)
                in_order = in_order && spans[earlier].end <= spans[later].begin;
        CHECK(in_order);
    }
    CHECK(executor.exposed() >= 0);
    // They are on the host's clock: the streams count stamps, and the last Step's is the one before the
    // probe.
    Seconds latest = 0;
    for (const Span& span : spans)
        latest = std::max(latest, span.end);
    CHECK(latest == Approx(now() - 1).margin(0.5).epsilon(0));
}
