#pragma once
// Runs a Schedule's Steps in its arenas. The Schedule alone determines order, memory and fetches.
#include "runtime/arena.hpp"
#include "runtime/communication.hpp"
#include "schedule/timeline.hpp"

namespace trivium {

/// Provides values of the host: fills `destination` (the value's bytes) for one microbatch (-1: the step).
using Feed = std::function<void(const Value& value, i64 microbatch, void* destination)>;

struct ExecutorConfig {
    int threads = 1;
    bool trace = false;  ///< measure each Step
    Bytes red_zone = 0;  ///< as in the MemoryPlan; checked on the host, with contracts
    bool overlap = true; ///< overlap communication with computation; otherwise wait for each transfer at once
                         ///< (on the host)
    bool deterministic = true; ///< reductions between devices and attention add in a fixed order
    bool cudnn = true;         ///< attention by cuDNN where it applies
    bool graphs = false;       ///< on a device: capture the Steps once, then replay them (not with trace)
};

class Streams;
struct StreamsConfig;
struct BoundSchedule;
class Runner;
/// Makes the Streams of an Executor.
using StreamsMaker = std::function<std::unique_ptr<Streams>(const StreamsConfig&)>;

/// Throws IoError if the device or the network fails. Not thread-safe.
class Executor {
public:
    /// Binds every Step. Graph, schedule, arenas, grid and a Computing must outlive it. `grid`: the ranks
    /// that communicate, null if none do; all of them make their Executors in the same order. Runs on
    /// `streams` if given, otherwise on the device of this build, otherwise on the host. Throws as
    /// Dispatch::bind() and bind_communication().
    Executor(const Graph& graph, const Schedule& schedule, const Arenas& arenas, const ExecutorConfig& config,
             const Grid* grid = nullptr, const StreamsMaker& streams = {});
    Executor(const Executor&) = delete;
    Executor& operator=(const Executor&) = delete;
    ~Executor();

    /// Runs the Steps before the decision and waits for them. Afterwards fetched() returns their values.
    /// Transfers may still run if the graph decides early.
    void run_until_decision(const Feed& feed);
    /// Runs the other Steps, which change run-lifetime values. On a device they may still run when this
    /// returns; later work and HostWindow copies wait for them.
    void run_after_decision(const Feed& feed = {});
    /// Instead of run_after_decision(): ends the transfers that this rank and its peers have begun. All ranks
    /// call it after the same decision.
    void abandon();

    /// An element of the fetched output called `name`. Throws InternalError if there is none.
    double fetched(std::string_view name, i64 element = 0) const;
    /// The raw content of the fetched output called `name`, until the next run.
    const std::byte* fetched_data(std::string_view name) const;

    /// End of the highest byte that any Step uses, whether it has run or not, from the start of that space's
    /// arena.
    Bytes used(Space space = Space::device) const;
    /// Exposed communication since the last call of run_until_decision(): seconds in which this rank did
    /// not compute because it waited for transfers or, on the host, moved data itself; negative if not
    /// measured (a device without trace).
    Seconds exposed() const;
    /// With trace: the last run of each Step, for which this waits.
    const Timeline& timeline() const;
    /// Whether the next runs are measured. \pre made with config.trace
    void set_trace(bool on);

private:
    std::unique_ptr<BoundSchedule> bound_;
    std::unique_ptr<Runner> runner_;
    bool traceable_;
};

} // namespace trivium
