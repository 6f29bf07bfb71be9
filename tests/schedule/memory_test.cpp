// The memory plan against a brute-force checker, on random Schedules over several queues.
#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "closure.hpp"
#include "episodes.hpp"
#include "schedule/liveness.hpp"
#include "schedule/memory.hpp"

#include <algorithm>
#include <map>
#include <numeric>

using namespace trivium;

namespace {

/// A random valid Schedule: a Step that uses a buffer waits for its writer, and a buffer is reused only after
/// its former content has been read.
class RandomSchedule {
public:
    RandomSchedule(u64 seed, const std::string& prefix) : stream_(seed, "schedule " + prefix)
    {
        const std::size_t queues = 1 + below(3), buffers = 3 + below(25), steps = 5 + below(60);
        for (std::size_t q = 0; q < queues; ++q)
            schedule.queues.push_back(std::string(1, static_cast<char>('a' + q)));
        for (std::size_t b = 0; b < buffers; ++b) {
            Buffer buffer;
            buffer.bytes = static_cast<Bytes>(1 + below(below(4) == 0 ? 5000 : 300));
            const std::size_t sort = below(8);
            buffer.lifetime = sort == 0 ? Lifetime::run : sort < 3 ? Lifetime::step : Lifetime::microbatch;
            buffer.name = str(buffer.lifetime == Lifetime::run ? "kept" : prefix, b);
            if (buffer.lifetime ==
                Lifetime::run) { // shared by name between schedules: the same size everywhere
                buffer.bytes = static_cast<Bytes>(10 * b + 7);
                buffer.kind = MemoryKind::parameters;
            } else if (below(9) == 0) {
                buffer.kind = MemoryKind::scratch;
                buffer.lifetime = Lifetime::microbatch;
            }
            schedule.buffers.push_back(buffer);
        }
        current_.assign(buffers, none);
        for (std::size_t i = 0; i < steps; ++i)
            add_step(i);
        // A buffer that no Step uses has no interval; a real Schedule has none.
        for (std::size_t b = 0; b < buffers; ++b)
            if (current_[b] == none) {
                Step step;
                step.queue = static_cast<int>(below(queues));
                step.microbatch = 1000;
                touch(schedule.steps.size(), step, b, true);
                schedule.steps.push_back(step);
            }
    }

    Schedule schedule;
    std::vector<Episode> episodes;

private:
    static constexpr std::size_t none = static_cast<std::size_t>(-1);

    std::size_t below(std::size_t n) { return static_cast<std::size_t>(stream_.bits_at(counter_++) % n); }

    void add_step(std::size_t i)
    {
        Step step;
        step.queue = static_cast<int>(below(schedule.queues.size()));
        step.microbatch = static_cast<i64>(below(4));
        for (std::size_t n = below(3); n > 0 && i > 0; --n)
            step.waits.emplace_back(below(i));
        std::vector<std::size_t> order(schedule.buffers.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        for (std::size_t n = 1 + below(4); n > 0 && !order.empty(); --n) {
            const std::size_t pick = below(order.size());
            touch(i, step, order[pick], below(2) == 0);
            order.erase(order.begin() + static_cast<std::ptrdiff_t>(pick));
        }
        schedule.steps.push_back(step);
    }

    void touch(std::size_t i, Step& step, std::size_t b, bool writes)
    {
        const Buffer& buffer = schedule.buffers[b];
        const bool scratch = buffer.kind == MemoryKind::scratch;
        if (scratch && step.scratch)
            return;
        const bool fresh =
            current_[b] == none || scratch ||
            (buffer.lifetime == Lifetime::microbatch && episodes[current_[b]].microbatch != step.microbatch);
        if (current_[b] != none) {
            const Episode& e = episodes[current_[b]];
            for (const std::size_t other : e.steps)
                if (fresh || other == e.steps.front())
                    step.waits.emplace_back(other);
        }
        if (fresh) {
            current_[b] = episodes.size();
            episodes.push_back({b, {}, step.microbatch});
        }
        episodes[current_[b]].steps.push_back(i);
        if (scratch)
            step.scratch = BufferId(b);
        else
            (writes || fresh ? step.results : step.operands).emplace_back(b);
    }

    RandomStream stream_;
    u64 counter_ = 0;
    std::vector<std::size_t> current_; ///< by buffer: its latest episode
};

/// Maximum bytes that are live at one position of the list.
Bytes list_peak(const RandomSchedule& random)
{
    Bytes most = 0;
    for (std::size_t at = 0; at < random.schedule.steps.size(); ++at) {
        Bytes live = 0;
        for (std::size_t b = 0; b < random.schedule.buffers.size(); ++b) {
            bool counts = random.schedule.buffers[b].lifetime == Lifetime::run;
            for (const Episode& e : random.episodes)
                counts = counts || (e.buffer == b && e.steps.front() <= at && at <= e.steps.back());
            live += counts ? random.schedule.buffers[b].bytes : 0;
        }
        most = std::max(most, live);
    }
    return most;
}

/// Maximum bytes of episodes of which none has certainly ended before another begins, by the weighted form of
/// Dilworth's theorem: all bytes less a maximum flow between what may follow each other.
Bytes heaviest_antichain(const RandomSchedule& random)
{
    const Schedule& s = random.schedule;
    const Closure closure(s);
    std::vector<Episode> episodes;
    Bytes kept = 0;
    for (const Buffer& b : s.buffers)
        kept += b.lifetime == Lifetime::run ? b.bytes : 0;
    for (const Episode& e : random.episodes)
        if (s.buffers[e.buffer].lifetime != Lifetime::run)
            episodes.push_back(e);
    const std::size_t n = episodes.size(), source = 2 * n, sink = 2 * n + 1;
    std::vector<std::vector<Bytes>> room(2 * n + 2, std::vector<Bytes>(2 * n + 2, 0));
    Bytes all = 0;
    for (std::size_t i = 0; i < n; ++i) {
        const Bytes bytes = s.buffers[episodes[i].buffer].bytes;
        all += room[source][i] = room[n + i][sink] = bytes;
        for (std::size_t j = 0; j < n; ++j)
            if (i != j && closure.all_before(episodes[i].steps, episodes[j].steps))
                room[i][n + j] = Bytes{1} << 60;
    }
    for (;;) { // shortest augmenting paths
        std::vector<std::size_t> from(2 * n + 2, source), queue{source};
        std::vector<bool> seen(2 * n + 2, false);
        seen[source] = true;
        for (std::size_t k = 0; k < queue.size() && !seen[sink]; ++k)
            for (std::size_t v = 0; v < 2 * n + 2; ++v)
                if (!seen[v] && room[queue[k]][v] > 0) {
                    seen[v] = true;
                    from[v] = queue[k];
                    queue.push_back(v);
                }
        if (!seen[sink])
            return kept + all;
        Bytes flow = Bytes{1} << 60;
        for (std::size_t v = sink; v != source; v = from[v])
            flow = std::min(flow, room[from[v]][v]);
        for (std::size_t v = sink; v != source; v = from[v]) {
            room[from[v]][v] -= flow;
            room[v][from[v]] += flow;
        }
        all -= flow;
    }
}

Step step_on(int queue, std::vector<std::size_t> operands, std::vector<std::size_t> results,
             std::vector<std::size_t> waits = {})
{
    Step step;
    step.queue = queue;
    step.microbatch = 0;
    for (const std::size_t id : operands)
        step.operands.emplace_back(id);
    for (const std::size_t id : results)
        step.results.emplace_back(id);
    for (const std::size_t id : waits)
        step.waits.emplace_back(id);
    return step;
}

Schedule with_buffers(std::size_t count, Bytes bytes)
{
    Schedule s;
    s.queues = {"a", "b"};
    for (std::size_t i = 0; i < count; ++i) {
        s.buffers.emplace_back();
        s.buffers.back().name = str("b", i);
        s.buffers.back().bytes = bytes;
    }
    return s;
}

} // namespace

TEST_CASE("no two buffers that may be live at the same time share bytes")
{
    for (u64 seed = 0; seed < 300; ++seed) {
        INFO("seed " << seed);
        RandomSchedule one(seed, "one."), two(seed, "two.");
        MemoryConfig config;
        config.alignment = seed % 3 == 0 ? 1 : 64;
        config.red_zone = seed % 2 == 0 ? 0 : 32;
        const MemoryPlan plan = plan_memory({&one.schedule, &two.schedule}, config);
        Bytes end = 0, kept_end = 0;
        std::map<std::string, Bytes> kept;
        for (const RandomSchedule* random : {&one, &two}) {
            check_disjoint(random->schedule, random->episodes, config.red_zone);
            for (const Buffer& b : random->schedule.buffers) {
                REQUIRE(b.offset >= 0);
                REQUIRE(b.offset % config.alignment == 0);
                end = std::max(end, b.offset + b.bytes);
                if (b.lifetime == Lifetime::run) { // one buffer, in any Schedule
                    kept_end = std::max(kept_end, b.offset + b.bytes);
                    REQUIRE(kept.try_emplace(b.name, b.offset).first->second == b.offset);
                }
            }
        }
        for (const RandomSchedule* random : {&one, &two})
            for (const Buffer& b : random->schedule.buffers)
                REQUIRE((b.lifetime == Lifetime::run ||
                         b.offset >= kept_end + (kept_end > 0 ? config.red_zone : 0)));
        REQUIRE(plan.arena == end);
        REQUIRE(plan.kept == kept_end);
        REQUIRE(plan.transient == plan.arena - plan.kept);
        REQUIRE(plan.lower_bound >= std::max(list_peak(one), list_peak(two)));
        if (seed % 6 == 0) // slow
            REQUIRE(plan.lower_bound <= std::max(heaviest_antichain(one), heaviest_antichain(two)));
        REQUIRE(plan.arena >= plan.lower_bound);
        REQUIRE(std::accumulate(std::begin(plan.by_kind), std::end(plan.by_kind), Bytes{0}) ==
                plan.lower_bound);
    }
}

TEST_CASE("vector clocks give the transitive closure")
{
    for (u64 seed = 0; seed < 60; ++seed) {
        const RandomSchedule random(seed, "closure");
        const Closure closure(random.schedule);
        const HappensBefore order(random.schedule);
        for (std::size_t i = 0; i < random.schedule.steps.size(); ++i)
            for (std::size_t j = 0; j < random.schedule.steps.size(); ++j)
                REQUIRE(order.before(StepId(i), StepId(j)) == (i < j && closure.before(i, j)));
    }
}

TEST_CASE("executions obey the waits, and transfers last as long as these allow")
{
    for (u64 seed = 0; seed < 100; ++seed) {
        const RandomSchedule random(seed, "execution");
        const Schedule& s = random.schedule;
        const Closure closure(s);
        for (const Execution& execution : {one_by_one(s), long_transfers(s, HappensBefore(s))}) {
            std::vector<bool> begins(s.steps.size(), false);
            for (std::size_t i = 0; i < s.steps.size(); ++i) {
                const Execution::Span span = execution.steps[i];
                REQUIRE(span.end > span.begin);
                REQUIRE(span.end <= s.steps.size());
                REQUIRE(!begins[span.begin]);
                begins[span.begin] = true;
                for (std::size_t j = 0; j < i; ++j)
                    if (closure.before(j, i))
                        REQUIRE(execution.steps[j].end <= span.begin);
            }
        }
        // A transfer ends no earlier than the first compute Step that must wait for it begins.
        const Execution slow = long_transfers(s, HappensBefore(s));
        for (std::size_t i = 0; i < s.steps.size(); ++i) {
            std::size_t next = s.steps.size();
            for (std::size_t j = i + 1; j < s.steps.size(); ++j)
                if (s.steps[j].queue == queue_compute && closure.before(i, j))
                    next = std::min(next, slow.steps[j].begin);
            for (std::size_t j = 0; j < s.steps.size(); ++j) // compute Steps that need not wait begin before
                if (s.steps[i].queue != queue_compute && s.steps[j].queue == queue_compute &&
                    slow.steps[j].begin < next)
                    REQUIRE(slow.steps[j].begin < slow.steps[i].end);
        }
    }
}

TEST_CASE("the peak counts what a transfer may still hold")
{
    // Queue b sends b0 while a computes b1; only then a waits for it. In list order b0 is free before b1.
    Schedule s = with_buffers(2, 256);
    s.steps = {step_on(0, {}, {0}), step_on(1, {0}, {}, {0}), step_on(0, {}, {1}), step_on(0, {1}, {}, {1})};
    CHECK(plan_memory({&s}, {}).lower_bound == 512);
    CHECK(plan_memory({&s}, {}).by_kind[static_cast<int>(MemoryKind::activations)] == 512);
}

TEST_CASE("a chain of values needs two buffers")
{
    Schedule s = with_buffers(10, 256);
    s.steps.push_back(step_on(0, {}, {0}));
    for (std::size_t i = 1; i < 10; ++i)
        s.steps.push_back(step_on(0, {i - 1}, {i}));
    const MemoryPlan plan = plan_memory({&s}, {});
    CHECK(plan.arena == 512);
    CHECK(plan.lower_bound == 512);
}

TEST_CASE("a buffer that another queue may still read keeps its bytes until a Step waits for that queue")
{
    // Queue a computes b0; queue b reads it; a continues with b1. Only a wait frees b0's bytes for b1.
    for (const bool waits : {false, true}) {
        Schedule s = with_buffers(2, 256);
        s.steps = {step_on(0, {}, {0}), step_on(1, {0}, {}, {0}),
                   step_on(0, {}, {1}, waits ? std::vector<std::size_t>{1} : std::vector<std::size_t>{})};
        CHECK(plan_memory({&s}, {}).arena == (waits ? 256 : 512));
    }
}

TEST_CASE("a Step that waits for a later one, or for itself, is refused")
{
    for (const std::size_t wait : {1, 2, 7}) {
        Schedule s = with_buffers(1, 8);
        s.steps = {step_on(0, {}, {0}), step_on(1, {0}, {}, {wait}), step_on(0, {0}, {})};
        CHECK_THROWS_AS(HappensBefore(s), InternalError);
        CHECK_THROWS_AS(plan_memory({&s}, {}), InternalError);
    }
}

TEST_CASE("the memory limit is enforced")
{
    Schedule s = with_buffers(2, 300);
    s.steps = {step_on(0, {}, {0}), step_on(0, {0}, {1})};
    MemoryConfig config;
    const Bytes needs = plan_memory({&s}, config).arena;
    CHECK(needs == 512 + 300);
    config.limit = needs;
    CHECK(plan_memory({&s}, config).arena == needs);
    config.limit = needs - 1;
    CHECK_THROWS_AS(plan_memory({&s}, config), UserError);
}

TEST_CASE("one name, one size")
{
    Schedule a = with_buffers(1, 8), b = with_buffers(1, 16);
    a.buffers[0].lifetime = b.buffers[0].lifetime = Lifetime::run;
    a.steps = {step_on(0, {}, {0})};
    b.steps = a.steps;
    CHECK_THROWS_AS(plan_memory({&a, &b}, {}), InternalError);
}

TEST_CASE("a buffer dies at its last Step, once per content")
{
    for (u64 seed = 0; seed < 60; ++seed) {
        const RandomSchedule random(seed, "dying");
        std::vector<std::vector<std::size_t>> want(random.schedule.steps.size());
        for (const Episode& e : random.episodes)
            if (random.schedule.buffers[e.buffer].lifetime != Lifetime::run)
                want[e.steps.back()].push_back(e.buffer);
        const std::vector<std::vector<BufferId>> dying = dying_buffers(random.schedule);
        REQUIRE(dying.size() == want.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
            std::vector<std::size_t> got;
            for (const BufferId id : dying[i])
                got.push_back(id.index());
            std::sort(got.begin(), got.end());
            std::sort(want[i].begin(), want[i].end());
            REQUIRE(got == want[i]);
        }
    }
}
