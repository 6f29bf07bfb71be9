#pragma once
// Streams and events: the interface to a device, which works concurrently with the host. runtime/device
// implements it for GPUs; runtime/no_device has no streams; tests have streams that delay their work and run
// it in any legal order.
#include "runtime/communication.hpp"

namespace trivium {

struct StreamsConfig {
    int queues = 1;              ///< one stream each; all Streams of a process share the stream of queue 0
    int events = 0;              ///< number of events
    int stamps = 0;              ///< number of time stamps
    int threads = 1;             ///< for kernels::Exec
    std::function<void()> check; ///< called at least once per synchronise() and periodically while it
                                 ///< waits; throws if the wait would never end
};

/// All calls except synchronise(), seconds() and host_memory() return at once. Each stream runs its work in
/// order; arguments must stay valid until it is done. Events, stamps and graphs are numbered from 0. \throws
/// IoError if the device fails, at the latest from the next synchronise()
class Streams {
public:
    Streams() = default;
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;
    virtual ~Streams() = default;

    virtual void launch(int queue, const Call& call) = 0;
    virtual void launch(int queue, Communication& move) = 0;
    /// One of `to` and `from` is host_memory(), the other device memory.
    virtual void copy(int queue, void* to, const void* from, Bytes bytes) = 0;

    virtual void record(int queue, int event) = 0;
    /// Later work of `queue` waits until `event`, as last recorded, is reached. \pre `event` was recorded
    virtual void wait(int queue, int event) = 0;
    /// The host waits until `event`, as last recorded, is reached.
    virtual void synchronise(int event) = 0;
    /// Whether `event`, as last recorded, has been reached. Not for an event that captured work records.
    virtual bool reached(int event) const = 0;

    virtual void stamp(int queue, int stamp) = 0;
    /// Time at which a stamp was reached, relative to an arbitrary start that all stamps share. Waits for the
    /// stamp. \pre stamp 0 was enqueued
    virtual Seconds seconds(int stamp) = 0;

    /// Host memory for fast copies (pinned), aligned to 256 bytes; freed with the Streams.
    virtual std::byte* host_memory(Bytes bytes) = 0;

    /// Work that is enqueued between the two calls is recorded for replay() instead of run. It begins and
    /// ends on queue 0. `graph`: the number of earlier captures.
    virtual void begin_capture() = 0;
    virtual void end_capture(int graph) = 0;
    /// Enqueues the captured work on queue 0.
    virtual void replay(int graph) = 0;
};

/// The streams of this build; null if it computes on the host.
std::unique_ptr<Streams> make_device_streams(const StreamsConfig& config);

} // namespace trivium
