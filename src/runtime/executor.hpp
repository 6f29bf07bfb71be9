#pragma once
// Runs a Schedule's Steps in an arena. It decides nothing: order, memory and what is fetched are the
// Schedule's.
#include "runtime/arena.hpp"
#include "runtime/communication.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// The source of the host's values: fills `destination` (the value's bytes) for one microbatch (-1: the
/// step).
using Feed = std::function<void(const Value& value, i64 microbatch, void* destination)>;

struct ExecutorConfig {
    int threads = 1;
    bool trace = false;  ///< measure each Step
    Bytes red_zone = 0;  ///< as memory was planned
    bool overlap = true; ///< compute while data move; otherwise each move is waited for at once (on the host)
    bool deterministic = true; ///< reductions between devices add in rank order
    bool graphs = false;       ///< on a device: capture the Steps once, then replay them (not with trace)
};

class Streams;
struct StreamsConfig;
struct BoundSchedule;
class Runner;
/// Makes the streams of an executor.
using StreamsMaker = std::function<std::unique_ptr<Streams>(const StreamsConfig&)>;

class Executor {
public:
    /// Binds every Step; what it refers to must outlive it. `grid`: the ranks that communicate, null where
    /// none do; all of them make their Executors in the same order. It runs on the device of this build, or
    /// where it has none on the host; with `streams`, on those.
    Executor(const Graph& graph, const Schedule& schedule, Arena& arena, const ExecutorConfig& config,
             const Grid* grid = nullptr, const StreamsMaker& streams = {});
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    ~Executor();

    /// The Steps before the decision. Afterwards fetched() has their values.
    void run_until_decision(const Feed& feed);
    /// The Steps that change run-lifetime values. A device may still run them when this returns; its later
    /// work, and reads of the arena by the host, come after them.
    void run_after_decision();

    /// A fetched scalar or vector element of the output called `name`.
    double fetched(std::string_view name, i64 element = 0) const;
    /// The raw content of the output called `name`.
    const std::byte* fetched_data(std::string_view name) const;

    /// End of the highest byte of the arena that a Step has used so far.
    Bytes used() const;
    /// Seconds that computation has waited for moves since the last call of run_until_decision(); negative
    /// where that was not measured (a device without trace).
    Seconds exposed() const;
    /// With trace: the last run of each Step.
    const Timeline& timeline() const;

private:
    std::unique_ptr<BoundSchedule> bound_;
    std::unique_ptr<Runner> runner_;
};

} // namespace trivium
