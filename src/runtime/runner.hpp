#pragma once
// Internal: a Schedule whose Steps are bound to kernels and memory, and the two ways to run it.
#include "runtime/executor.hpp"

namespace trivium {

/// What both share; the Executor owns it.
struct BoundSchedule {
    const Graph& graph;
    const Schedule& schedule;
    Arena& arena;
    ExecutorConfig config;
    Dispatch dispatch;
    std::vector<Binding> bindings;                     ///< by Step; empty for feed and fetch
    std::vector<Call> calls;                           ///< by Step; empty for feed, fetch and moves
    std::vector<std::unique_ptr<Communication>> moves; ///< by Step; null for what moves nothing
    std::vector<std::vector<std::byte>> fetched;       ///< by position in the graph's outputs
    const Grid* grid = nullptr;                        ///< of ranks that communicate; null: one rank
    Timeline timeline;                                 ///< with config.trace
    Bytes used = 0;
    Seconds exposed = -1;

    BoundSchedule(const Graph& g, const Schedule& s, Arena& a, const ExecutorConfig& c)
        : graph(g), schedule(s), arena(a), config(c), dispatch(c.threads)
    {
    }
    /// The destination of a fetch.
    std::vector<std::byte>& fetched_by(const Step& step);
    /// Adds the Step's buffers to `used`.
    void use(const Step& step);
};

/// While it lives, a watchdog can name the Steps of `bound`.
class NamedPieces {
public:
    explicit NamedPieces(const BoundSchedule& bound);
    NamedPieces(const NamedPieces&) = delete;
    NamedPieces& operator=(const NamedPieces&) = delete;
    ~NamedPieces();
};

/// Position of an output of the graph. Throws InternalError where none has that name.
std::size_t output_index(const Graph& graph, std::string_view name);

class Runner {
public:
    virtual ~Runner() = default;
    virtual void run_until_decision(const Feed& feed) = 0;
    virtual void run_after_decision() = 0;
    /// The timeline and the exposed seconds are as of the last run.
    virtual void measure() {}
};

/// The host runs each Step itself; communication progresses between them.
std::unique_ptr<Runner> make_host_runner(BoundSchedule& bound);
/// The host gives the Steps to streams (schedule/commands.hpp).
std::unique_ptr<Runner> make_stream_runner(BoundSchedule& bound, const StreamsMaker& make_streams);

} // namespace trivium
