// Steps on streams: the host enqueues all of them on the device, then waits once, for the values of the
// decision.
#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "mpi/clock_offset.hpp"
#include "runtime/runner.hpp"
#include "runtime/streams.hpp"
#include "schedule/commands.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <span>

namespace trivium {

namespace {

class StreamRunner : public Runner {
public:
    StreamRunner(BoundSchedule& bound, const StreamsMaker& make_streams)
        : bound_(bound), schedule_(bound.schedule),
          program_(lower(schedule_,
                         [this](StepId first, StepId next) { return joins(first.index(), next.index()); }))
    {
        StreamsConfig config;
        config.queues = static_cast<int>(schedule_.queues.size());
        config.events = program_.events + 1;
        config.stamps = bound.config.trace ? probe_stamp() + 1 : 0;
        config.threads = bound.config.threads;
        config.check = [this] {
            if (bound_.grid)
                check_devices(*bound_.grid);
            tell_progress();
        };
        streams_ = make_streams(config);
        bind_groups(program_.until_decision);
        bind_groups(program_.after_decision);
        stage();
    }

    void run_until_decision(const Feed& feed) override
    {
        write_feeds(feed, 0, schedule_.decision);
        const NamedPieces names(bound_);
        position_ = nowhere;
        run(program_.until_decision, until_);
        measured_ = false;
        for (const auto& [step, place] : staged_)
            if (schedule_.steps[step].kind == StepKind::fetch) {
                std::vector<std::byte>& to = bound_.fetched_by(schedule_.steps[step]);
                std::copy_n(place, to.size(), to.data());
            }
    }

    void run_after_decision(const Feed& feed) override
    {
        write_feeds(feed, schedule_.decision, schedule_.steps.size());
        run(program_.after_decision, after_);
        measured_ = false;
    }

    void abandon() override
    {
        const NamedPieces names(bound_);
        for (const std::size_t i : bound_.outstanding)
            streams_->launch(schedule_.steps[i].queue, *bound_.moves[i]);
        for (int queue = 0; queue < static_cast<int>(schedule_.queues.size()); ++queue) {
            streams_->record(queue, program_.events);
            streams_->synchronise(program_.events);
        }
    }

    void measure() override
    {
        if (measured_ || !bound_.config.trace || until_.runs == 0)
            return;
        measured_ = true;
        const std::size_t end = after_.runs > 0 ? schedule_.steps.size() : schedule_.decision;
        for (std::size_t first = 0; first < end;) {
            const std::size_t count = std::max<std::size_t>(1, group_size(first));
            const Span span{streams_->seconds(begin_stamp(first)), streams_->seconds(end_stamp(first))};
            for (std::size_t i = 0; i < count; ++i) // a launch of several Steps counts for the first
                bound_.timeline.spans[first + i] = i == 0 ? span : Span{span.end, span.end};
            first += count;
        }
        bound_.exposed = exposed(end);
        const Seconds ahead = ahead_of_host();
        for (Span& span : bound_.timeline.spans)
            span = {span.begin - ahead, span.end - ahead};
    }

private:
    struct Part {
        int graph;
        i64 runs = 0;
        bool captured = false;
    };

    /// Those of Steps [begin, end), whose earlier copies are done: the host has waited for a later decision.
    void write_feeds(const Feed& feed, std::size_t begin, std::size_t end)
    {
        for (auto at = staged_.lower_bound(begin); at != staged_.end() && at->first < end; ++at)
            if (const Step& step = schedule_.steps[at->first]; step.kind == StepKind::feed)
                feed(bound_.graph[step.value], step.microbatch, at->second);
    }

    /// Ops of one kind that share a launch, as long as none writes a buffer that another uses, because memory
    /// is planned for sequential execution.
    bool joins(std::size_t first, std::size_t next) const
    {
        if (!bound_.calls[next] || !can_bind_together(bound_.bindings[first], bound_.bindings[next]))
            return false;
        const auto overlap = [&](BufferId a, BufferId b) {
            const Buffer &x = schedule_[a], &y = schedule_[b];
            return x.space == y.space && x.offset < y.offset + y.bytes && y.offset < x.offset + x.bytes;
        };
        const auto clash = [&](std::span<const BufferId> written, std::span<const BufferId> used) {
            return std::any_of(written.begin(), written.end(), [&](BufferId w) {
                return std::any_of(used.begin(), used.end(), [&](BufferId u) { return overlap(w, u); });
            });
        };
        const Step& step = schedule_.steps[next];
        for (std::size_t i = first; i < next; ++i) {
            const Step& other = schedule_.steps[i];
            if (clash(step.results, other.operands) || clash(step.results, other.results) ||
                clash(other.results, step.operands))
                return false;
        }
        return true;
    }

    void bind_groups(const CommandList& list)
    {
        for (const DeviceCommand& command : list.commands) {
            const std::size_t first = command.step ? command.step.index() : 0;
            if (command.kind == CommandKind::launch && command.count > 1) {
                groups_[first] = command.count;
                bound_.calls[first] =
                    bound_.dispatch.bind_together({bound_.bindings.data() + first, command.count});
            }
        }
    }

    std::size_t group_size(std::size_t first) const
    {
        const auto found = groups_.find(first);
        return found == groups_.end() ? 1 : found->second;
    }

    /// Host memory for each feed and fetch. The host writes the next feeds only after the decision, when all
    /// copies are done.
    void stage()
    {
        std::map<std::size_t, Bytes> offsets;
        Bytes bytes = 0;
        for (std::size_t i = 0; i < schedule_.steps.size(); ++i)
            if (const Step& step = schedule_.steps[i]; step.kind != StepKind::op) {
                offsets[i] = bytes;
                bytes += round_up(bytes_of(step), 256);
            }
        std::byte* const memory = streams_->host_memory(bytes);
        for (const auto& [step, offset] : offsets)
            staged_[step] = memory + offset;
    }

    Bytes bytes_of(const Step& step) const { return bound_.graph[step.value].type.bytes(); }

    /// While the host waits: reports the first Step in list order that is not known to have ended.
    void tell_progress()
    {
        if (replayed_) // captured work reports no progress
            return;
        std::vector<std::size_t> last(schedule_.queues.size(), 0); // the last Step enqueued on each queue
        for (const DeviceCommand& command : program_.until_decision.commands) {
            const auto queue = static_cast<std::size_t>(command.queue);
            if (command.kind == CommandKind::record) {
                if (!streams_->reached(command.event))
                    return stands_at(last[queue]);
            } else if (command.step)
                last[queue] = command.step.index() + command.count - 1;
        }
    }

    void stands_at(std::size_t step)
    {
        Activity& activity = Activity::of_process();
        if (step != position_)
            activity.at(static_cast<i64>(step));
        position_ = step;
        activity.waits_for(bound_.moves[step] ? "the device" : "");
    }

    void run(const CommandList& list, Part& part)
    try {
        const bool graphs = bound_.config.graphs && !bound_.config.trace && list.end_of_work > 1;
        if (graphs && part.runs > 0 && !part.captured) { // the first run, Step by Step, loads every kernel
            part.captured = true;
            streams_->begin_capture();
            play(list, 0, list.end_of_work);
            streams_->end_capture(part.graph);
        }
        replayed_ = graphs && part.runs > 0;
        if (replayed_)
            streams_->replay(part.graph);
        else
            play(list, 0, list.end_of_work);
        play(list, list.end_of_work, list.commands.size());
        ++part.runs;
    } catch (...) {
        if (bound_.grid) // otherwise freeing memory would wait for transfers whose peers never arrive
            abandon_devices(*bound_.grid);
        throw;
    }

    void play(const CommandList& list, std::size_t begin, std::size_t end)
    {
        for (std::size_t c = begin; c < end; ++c) {
            const DeviceCommand& command = list.commands[c];
            switch (command.kind) {
            case CommandKind::record: streams_->record(command.queue, command.event); break;
            case CommandKind::wait: streams_->wait(command.queue, command.event); break;
            case CommandKind::synchronise:
                streams_->synchronise(command.event);
                Activity::of_process().waits_for("");
                break;
            default: work(command);
            }
        }
    }

    void work(const DeviceCommand& command)
    {
        const std::size_t i = command.step.index();
        const Step& step = schedule_.steps[i];
        if (bound_.config.trace)
            streams_->stamp(command.queue, begin_stamp(i));
        if (command.kind == CommandKind::copy_in)
            streams_->copy(command.queue, bound_.at(step.results[0]), staged_.at(i), bytes_of(step));
        else if (command.kind == CommandKind::copy_out)
            streams_->copy(command.queue, staged_.at(i), bound_.at(step.operands[0]), bytes_of(step));
        else if (bound_.moves[i])
            streams_->launch(command.queue, *bound_.moves[i]);
        else
            streams_->launch(command.queue, bound_.calls[i]);
        if (bound_.config.trace)
            streams_->stamp(command.queue, end_stamp(i));
    }

    static int begin_stamp(std::size_t step) { return 2 * static_cast<int>(step); }
    static int end_stamp(std::size_t step) { return 2 * static_cast<int>(step) + 1; }

    int probe_stamp() const { return 2 * static_cast<int>(schedule_.steps.size()); }

    /// The clock of the stamps minus that of the host, so that traces of several ranks have one clock.
    Seconds ahead_of_host()
    {
        std::array<RoundTrip, 4> trips;
        for (RoundTrip& trip : trips) {
            trip.begin = now();
            streams_->stamp(queue_compute, probe_stamp());
            trip.theirs = streams_->seconds(probe_stamp());
            trip.end = now();
        }
        return clock_offset(trips).offset;
    }

    /// Seconds in which data are transferred between ranks and no queue computes.
    Seconds exposed(std::size_t end) const
    {
        std::vector<Span> compute, moves;
        for (std::size_t i = 0; i < end; ++i)
            if (const int queue = schedule_.steps[i].queue; queue == queue_compute || bound_.moves[i])
                (queue == queue_compute ? compute : moves).push_back(bound_.timeline.spans[i]);
        std::erase_if(moves, [](const Span& span) { return span.end <= span.begin; });
        std::sort(moves.begin(), moves.end(), [](const Span& a, const Span& b) { return a.begin < b.begin; });
        Seconds total = 0, seen = moves.empty() ? 0 : moves.front().begin;
        std::size_t next = 0;
        for (const Span& move : moves) { // the part of the union of the transfers that is outside the spans
                                         // of compute, which are ordered
            Seconds at = std::max(seen, move.begin);
            while (next > 0 && compute[next - 1].end > at)
                --next;
            for (; next < compute.size() && compute[next].begin < move.end; ++next) {
                total += std::max(0.0, compute[next].begin - at);
                at = std::max(at, compute[next].end);
            }
            total += std::max(0.0, move.end - at);
            seen = std::max(seen, move.end);
        }
        return total;
    }

    BoundSchedule& bound_;
    const Schedule& schedule_;
    DeviceProgram program_;
    std::unique_ptr<Streams> streams_;
    std::map<std::size_t, std::size_t> groups_; ///< first Step of a launch of several -> how many
    std::map<std::size_t, std::byte*> staged_;  ///< feed or fetch -> its host memory
    Part until_{0}, after_{1};
    static constexpr std::size_t nowhere = ~std::size_t{0};
    bool replayed_ = false;          ///< the current part was
    std::size_t position_ = nowhere; ///< by tell_progress()
    bool measured_ = false;
};

} // namespace

std::unique_ptr<Runner> make_stream_runner(BoundSchedule& bound, const StreamsMaker& make_streams)
{
    return std::make_unique<StreamRunner>(bound, make_streams);
}

} // namespace trivium
