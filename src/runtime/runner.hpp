#pragma once
// Internal: a Schedule whose Steps are bound to kernels and memory, and its two runners.
#include "runtime/executor.hpp"

#include <array>

namespace trivium {

/// Shared by both runners; the Executor owns it.
struct BoundSchedule {
    const Graph& graph;
    const Schedule& schedule;
    const Arenas& arenas;
    ExecutorConfig config;
    Dispatch dispatch;
    std::vector<Binding> bindings; ///< by Step; empty for feed and fetch
    std::vector<Call> calls;       ///< by Step; empty for feeds, fetches and communication
    std::vector<std::unique_ptr<Communication>> moves; ///< by Step; null for Steps that do not communicate
    std::vector<std::vector<std::byte>> fetched;       ///< by position in the graph's outputs
    /// Steps after the decision that receive messages which peers send before their decision.
    std::vector<std::size_t> outstanding;
    const Grid* grid = nullptr;  ///< the ranks that communicate; null: one rank
    Timeline timeline;           ///< with config.trace
    std::array<Bytes, 2> used{}; ///< by space: see Executor::used()
    Seconds exposed = -1;        ///< see Executor::exposed()

    BoundSchedule(const Graph& g, const Schedule& s, const Arenas& a, const ExecutorConfig& c);
    /// The address of a buffer.
    std::byte* at(BufferId id) const { return arenas.of(schedule[id].space).at(schedule[id].offset); }
    /// The destination of a Step that fetches.
    std::vector<std::byte>& fetched_by(const Step& step);
};

/// During its lifetime, a watchdog can name the Steps of `bound`.
class NamedPieces {
public:
    explicit NamedPieces(const BoundSchedule& bound);
    NamedPieces(const NamedPieces&) = delete;
    NamedPieces& operator=(const NamedPieces&) = delete;
    ~NamedPieces();
};

/// Index in graph.outputs of the output called `name`. Throws InternalError if there is none.
std::size_t output_index(const Graph& graph, std::string_view name);

/// See Executor.
class Runner {
public:
    virtual ~Runner() = default;
    virtual void run_until_decision(const Feed& feed) = 0;
    virtual void run_after_decision(const Feed& feed) = 0;
    virtual void abandon() = 0;
    /// Waits for the last run, then updates the timeline and the exposed seconds.
    virtual void measure() {}
};

/// The host runs each Step itself; communication advances between Steps.
std::unique_ptr<Runner> make_host_runner(BoundSchedule& bound);
/// The host enqueues the Steps on streams (schedule/commands.hpp).
std::unique_ptr<Runner> make_stream_runner(BoundSchedule& bound, const StreamsMaker& make_streams);

} // namespace trivium
