// Runs Steps on the host, one after another; communication advances between them.
#include "base/check.hpp"
#include "base/clock.hpp"
#include "mpi/patient_wait.hpp"
#include "runtime/element_runs.hpp"
#include "runtime/runner.hpp"
#include "schedule/memory.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

/// With contracts: poisons dead buffers and checks the red zones after live ones.
struct Guard {
    static constexpr int dead = 0xFF; // NaN in every floating-point type
    static constexpr int zone = 0xC3;
    /// Scratch may be far larger than a call needs: it is filled completely once, later only at its start,
    /// where calls begin to use it.
    static constexpr Bytes scratch_head = Bytes{1} << 18;

    std::vector<std::vector<BufferId>> dying;
    std::vector<char> live, filled; ///< by buffer; not of bool: each Step looks at all
    std::vector<std::byte> whole_zone;
    std::vector<std::pair<std::size_t, BufferId>> late; ///< transfers, and the buffers that die with them

    Guard(const Schedule& schedule, Bytes red_zone)
        : dying(dying_buffers(schedule)), live(schedule.buffers.size(), false), filled(live),
          whole_zone(static_cast<std::size_t>(red_zone), std::byte{zone})
    {
    }
};

class HostRunner : public Runner {
public:
    explicit HostRunner(BoundSchedule& bound)
        : bound_(bound), schedule_(bound.schedule), config_(bound.config)
    {
        exec_.threads = config_.threads;
        started_.resize(schedule_.steps.size(), false);
        if constexpr (contracts_on)
            guard_ = std::make_unique<Guard>(schedule_, config_.red_zone); // looks at single Steps
        runs_.resize(schedule_.steps.size());
        if (!guard_)
            runs_ = find_element_runs(bound);
        // A transfer's scratch dies with the transfer, which may begin long after its Step: other transfers
        // of the queue may use the bytes until then.
        for (std::size_t i = 0; guard_ && i < schedule_.steps.size(); ++i)
            if (bound_.moves[i])
                std::erase(guard_->dying[i], schedule_.steps[i].scratch);
    }

    void run_until_decision(const Feed& feed) override
    {
        const NamedPieces names(bound_);
        if (guard_) // after a skipped update, some live buffers are no longer needed
            guard_->live.assign(guard_->live.size(), false);
        bound_.exposed = 0;
        run_steps(0, schedule_.decision, feed);
    }
    void run_after_decision(const Feed& feed) override
    {
        const NamedPieces names(bound_);
        run_steps(schedule_.decision, schedule_.steps.size(), feed);
    }
    void abandon() override
    {
        const NamedPieces names(bound_);
        for (const std::size_t i : bound_.outstanding)
            communicate([&] { begin_move(i); });
        finish_moves();
    }

private:
    void run_steps(std::size_t begin, std::size_t end, const Feed& feed)
    {
        for (std::size_t i = begin; i < end; ++i) {
            for (const StepId wait : schedule_.steps[i].waits)
                finish_move(wait.index());
            if (!under_way_.empty())
                communicate([&] { drive_moves(); });
            Activity::of_process().at(static_cast<i64>(i));
            if (runs_[i]) {
                run_elements(i, *runs_[i]);
                i += runs_[i]->steps() - 1;
                continue;
            }
            run_step(i, feed);
            if (config_.trace && !bound_.moves[i])
                span(i).end = now();
        }
        if (end == schedule_.steps.size() || !schedule_.decides_early)
            finish_moves();
        else
            leave_sends();
    }

    void finish_moves()
    {
        while (!under_way_.empty())
            finish_move(under_way_.front());
    }

    /// Until the host continues, nothing advances here. So that no peer waits for this rank meanwhile, all
    /// collectives end and all messages are on their way.
    void leave_sends()
    {
        const auto is_send = [&](std::size_t i) { return schedule_.steps[i].results.empty(); };
        for (const std::size_t i : under_way_)
            if (is_send(i))
                start(i);
        for (const std::size_t i : std::vector<std::size_t>(under_way_))
            if (!is_send(i))
                finish_move(i);
    }

    Span& span(std::size_t i) { return bound_.timeline.spans[i]; }

    void run_step(std::size_t i, const Feed& feed)
    {
        const Step& step = schedule_.steps[i];
        if (config_.trace) // not earlier, because until then its row shows the transfers for which it waited
            span(i).begin = now();
        if (guard_ && config_.red_zone > 0 && !bound_.moves[i])
            guard_zones(step);
        switch (step.kind) {
        case StepKind::op:
            if (bound_.moves[i])
                communicate([&] { begin_move(i); });
            else
                bound_.calls[i](exec_);
            break;
        case StepKind::feed:
            feed(bound_.graph[step.value], step.microbatch, bound_.at(step.results[0]));
            break;
        case StepKind::fetch: {
            std::vector<std::byte>& to = bound_.fetched_by(step);
            std::copy_n(bound_.at(step.operands[0]), to.size(), to.data());
            break;
        }
        }
        if (guard_) {
            if (config_.red_zone > 0)
                check_zones(i);
            bury(guard_->dying[i]);
        }
    }

    /// The timeline divides the time equally.
    void run_elements(std::size_t first, const ElementRun& run)
    {
        const auto count = run.steps();
        const Seconds begin = config_.trace ? now() : 0;
        run(exec_);
        if (!config_.trace)
            return;
        const Seconds each = (now() - begin) / static_cast<Seconds>(count);
        for (std::size_t k = 0; k < count; ++k) {
            span(first + k).begin = begin + each * static_cast<Seconds>(k);
            span(first + k).end = begin + each * static_cast<Seconds>(k + 1);
        }
    }

    bool has_zone(const Buffer& b) const
    {
        return b.lifetime != Lifetime::run &&
               b.offset + b.bytes + config_.red_zone <= bound_.arenas.of(b.space).size();
    }

    void guard_zones(const Step& step)
    {
        const auto guard = [&](BufferId id) {
            const Buffer& b = schedule_[id];
            if (has_zone(b) && !guard_->live[id.index()])
                std::memset(bound_.at(id) + b.bytes, Guard::zone, static_cast<std::size_t>(config_.red_zone));
            guard_->live[id.index()] = true;
        };
        std::ranges::for_each(step.operands, guard);
        std::ranges::for_each(step.results, guard);
        if (step.scratch)
            guard(step.scratch);
    }

    void check_zones(std::size_t i) const
    {
        const Step& step = schedule_.steps[i];
        for (std::size_t n = 0; n < schedule_.buffers.size(); ++n) {
            const Buffer& b = schedule_.buffers[n];
            if (!guard_->live[n] || !has_zone(b))
                continue;
            TRV_CHECK(std::memcmp(bound_.at(BufferId(n)) + b.bytes, guard_->whole_zone.data(),
                                  guard_->whole_zone.size()) == 0,
                      "step ", i, " (", step.kind == StepKind::op ? info(bound_.graph[step.op]).name : "copy",
                      ") wrote past the end of ", b.name);
        }
    }

    void bury(const std::vector<BufferId>& dead)
    {
        for (const BufferId id : dead) {
            // A buffer that a transfer still uses dies with the transfer.
            const auto uses = [&](std::size_t move) {
                const Step& step = schedule_.steps[move];
                return std::ranges::find(step.operands, id) != step.operands.end() ||
                       std::ranges::find(step.results, id) != step.results.end();
            };
            if (const auto move = std::ranges::find_if(under_way_, uses); move != under_way_.end()) {
                guard_->late.emplace_back(*move, id);
                continue;
            }
            poison(id);
        }
    }

    void poison(BufferId id)
    {
        const Buffer& b = schedule_[id];
        const bool head_only = b.kind == MemoryKind::scratch && guard_->filled[id.index()];
        std::memset(bound_.at(id), Guard::dead,
                    static_cast<std::size_t>(head_only ? std::min(b.bytes, Guard::scratch_head) : b.bytes));
        guard_->filled[id.index()] = true;
        guard_->live[id.index()] = false;
    }

    /// Transfers of one queue run one after another, because the next may use the buffers of the previous
    /// one.
    std::size_t first_of_queue(std::size_t i) const
    {
        return *std::ranges::find_if(under_way_, [&](std::size_t other) {
            return schedule_.steps[other].queue == schedule_.steps[i].queue;
        });
    }

    void begin_move(std::size_t i)
    {
        under_way_.push_back(i);
        start_move(i);
        if (!config_.overlap &&
            !schedule_.steps[i].results.empty()) // a receiver may wait for a message of this rank first
            wait_for(i);
    }

    /// Counts what `work` takes as exposed: this thread computes nothing meanwhile.
    template <class Work>
    void communicate(Work work)
    {
        const Seconds begin = now();
        work();
        bound_.exposed += now() - begin;
    }

    void finish_move(std::size_t i)
    {
        if (std::ranges::find(under_way_, i) != under_way_.end())
            communicate([&] { wait_for(i); });
    }

    /// Returns when the transfer that Step i started is done; meanwhile the others advance.
    void wait_for(std::size_t i)
    {
        // A peer may wait for another transfer of this rank before it continues this one.
        const auto under_way = [&] { return std::ranges::find(under_way_, i) != under_way_.end(); };
        Activity::of_process().at(static_cast<i64>(i));
        PatientWait patience;
        for (drive_moves(); under_way() && under_way_.size() > 1; drive_moves())
            patience.yield([&] { return bound_.moves[first_of_queue(i)]->waits_for(); });
        if (under_way()) {
            bound_.moves[i]->finish();
            move_is_over(i);
        }
    }

    void start_move(std::size_t i)
    {
        if (first_of_queue(i) == i)
            start(i);
    }

    void start(std::size_t i)
    {
        if (started_[i])
            return;
        started_[i] = true;
        if (guard_ && config_.red_zone > 0) // not before: earlier transfers of the queue may use the bytes
            guard_zones(schedule_.steps[i]);
        if (config_.trace)
            span(i).begin = now();
        bound_.moves[i]->start(exec_);
    }

    void drive_moves()
    {
        for (const std::size_t i : std::vector<std::size_t>(under_way_)) {
            start_move(i);
            if (started_[i] && bound_.moves[i]->progress())
                move_is_over(i);
        }
    }

    void move_is_over(std::size_t i)
    {
        std::erase(under_way_, i);
        started_[i] = false;
        if (config_.trace)
            span(i).end = now();
        if (!guard_)
            return;
        std::vector<BufferId> dead;
        std::erase_if(guard_->late, [&](const auto& entry) {
            if (entry.first == i)
                dead.push_back(entry.second);
            return entry.first == i;
        });
        bury(dead);
        if (const BufferId scratch = schedule_.steps[i].scratch)
            poison(scratch);
    }

    BoundSchedule& bound_;
    const Schedule& schedule_;
    const ExecutorConfig& config_;
    kernels::Exec exec_;
    std::vector<std::size_t> under_way_; ///< Steps with transfers that are not over, oldest first
    std::vector<bool> started_; ///< by Step: of these, the transfers that do not wait for their queue
    std::unique_ptr<Guard> guard_;
    std::vector<std::unique_ptr<ElementRun>> runs_; ///< by first Step; null: a Step alone
};

} // namespace

std::unique_ptr<Runner> make_host_runner(BoundSchedule& bound) { return std::make_unique<HostRunner>(bound); }

} // namespace trivium
