#pragma once
// Runs a Schedule's Steps in an arena. It decides nothing: order, memory and what is fetched are the Schedule's.
#include "runtime/arena.hpp"
#include "runtime/communication.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Where the host's values come from: fills `destination` (the value's bytes) for one microbatch (-1: the step).
using Feed = std::function<void(const Value& value, i64 microbatch, void* destination)>;

struct ExecutorConfig {
    int threads = 1;
    bool trace = false; ///< measure each Step
    Bytes red_zone = 0; ///< as memory was planned
    bool overlap = true; ///< compute while data move; else each move is waited for at once
};

class Executor {
public:
    /// Binds every Step; what it refers to must outlive it. `grid`: the ranks that communicate, null where none do;
    /// all of them make their Executors in the same order.
    Executor(const Graph& graph, const Schedule& schedule, Arena& arena, const ExecutorConfig& config, const Grid* grid = nullptr);
    ~Executor();

    /// The Steps before the decision. Afterwards fetched() has their values.
    void run_until_decision(const Feed& feed);
    /// The Steps that change run-lifetime values.
    void run_after_decision();

    /// A fetched scalar or vector element of the output called `name`.
    double fetched(std::string_view name, i64 element = 0) const;
    /// The raw content of the output called `name`.
    const std::byte* fetched_data(std::string_view name) const;

    /// End of the highest byte of the arena that a Step was given so far.
    Bytes used() const { return used_; }
    /// Seconds that Steps have waited for moves since the last call of run_until_decision().
    Seconds exposed() const { return exposed_; }
    /// With trace: the last run of each Step.
    const Timeline& timeline() const { return timeline_; }

private:
    struct Guard;
    void run_steps(std::size_t begin, std::size_t end, const Feed* feed);
    void run_step(std::size_t i, const Feed* feed);
    void touch(const Step& step);
    void begin_move(std::size_t i);
    /// Returns when the move that Step i began is over; drives the others on meanwhile.
    void finish_move(std::size_t i);
    void move_is_over(std::size_t i);
    void drive_moves();
    void bury(const std::vector<BufferId>& dead);

    const Graph& graph_;
    const Schedule& schedule_;
    Arena& arena_;
    ExecutorConfig config_;
    kernels::Exec exec_;
    Dispatch dispatch_;
    std::vector<Call> calls_;                            ///< by Step; empty for feed, fetch and moves
    std::vector<std::unique_ptr<Communication>> moves_;  ///< by Step; null for what moves nothing
    std::vector<std::size_t> under_way_;                 ///< Steps whose moves have begun, oldest first
    std::vector<std::vector<std::byte>> fetched_;        ///< by position in the graph's outputs
    std::unique_ptr<Guard> guard_;                       ///< with contracts
    Timeline timeline_;
    Bytes used_ = 0;
    Seconds exposed_ = 0;
};

} // namespace trivium
