#pragma once
// Streams of work concurrent with the host, and events between them: the interface to a device.
// runtime/cuda has CUDA's; runtime/no_cuda has none; tests have some that work late and in any legal order.
#include "runtime/communication.hpp"

namespace trivium {

struct StreamsConfig {
    int queues = 1; ///< a stream each; queue 0 is the same stream for all Streams of a process
    int events = 0;
    int stamps = 0;              ///< moments to be measured
    int threads = 1;             ///< for kernels::Exec
    std::function<void()> check; ///< called at the begin of each synchronise() and now and then while it
                                 ///< waits; throws where waiting has no end
};

/// All calls but synchronise() and seconds() return at once; the work is done later, each stream's in the
/// order in which it was given. What they refer to stays as it is until then. \throws IoError where the
/// device fails, at the latest from the next synchronise()
class Streams {
public:
    Streams() = default;
    Streams(const Streams&) = delete;
    Streams& operator=(const Streams&) = delete;
    virtual ~Streams() = default;

    virtual void launch(int queue, const Call& call) = 0;
    virtual void launch(int queue, Communication& move) = 0;
    /// One of `to` and `from` is host_memory(), the other the device's.
    virtual void copy(int queue, void* to, const void* from, Bytes bytes) = 0;

    virtual void record(int queue, int event) = 0;
    /// What `queue` is given from now on begins when `event`, as it was last recorded, was reached.
    virtual void wait(int queue, int event) = 0;
    /// The host waits.
    virtual void synchronise(int event) = 0;
    /// Whether `event`, as it was last recorded, was reached. Not of what is captured.
    virtual bool reached(int event) const = 0;

    virtual void stamp(int queue, int stamp) = 0;
    /// When a stamp was reached, after an arbitrary start that is the same for all. Waits for it.
    virtual Seconds seconds(int stamp) = 0;

    /// Memory of the host that copies are fast from and to, aligned to 256 bytes; lives as long as the
    /// Streams.
    virtual std::byte* host_memory(Bytes bytes) = 0;

    /// What is given between the two calls, beginning and ending on queue 0, is not done but kept, for
    /// replay(). Only once for each `graph`, numbered from 0.
    virtual void begin_capture() = 0;
    virtual void end_capture(int graph) = 0;
    /// Gives queue 0 all that was captured.
    virtual void replay(int graph) = 0;
};

/// Those of this build; null where it computes on the host.
std::unique_ptr<Streams> make_device_streams(const StreamsConfig& config);

} // namespace trivium
