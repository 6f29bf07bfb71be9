// Streams, events and captured graphs of a device.
#include "runtime/streams.hpp"

#include "base/check.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace trivium {

namespace {

/// The stream of queue 0 of all Streams. Never destroyed, because the driver may be unloaded before static
/// objects.
const Stream& compute_stream()
{
    static const Stream& made = *new Stream(current_device());
    return made;
}

class DeviceStreams : public Streams {
    template <class Events>
    static auto& at(Events& events, int event)
    {
        return events[static_cast<std::size_t>(event)];
    }

public:
    explicit DeviceStreams(const StreamsConfig& config) : check_(config.check)
    {
        const Device device = current_device();
        for (int queue = 1; queue < config.queues;
             ++queue) // transfers are small, and other work waits for them
            beside_.push_back(std::make_unique<Stream>(device, StreamPriority::high));
        for (int queue = 0; queue < config.queues; ++queue)
            execs_.push_back(stream(queue).exec());
        for (int event = 0; event < config.events; ++event)
            events_.emplace_back();
        for (int stamp = 0; stamp < config.stamps; ++stamp)
            stamps_.emplace_back(true);
    }

    ~DeviceStreams() override
    {
        try {
            kernels::wait_for_device();
        } catch (const IoError&) { // was thrown before, or no longer matters
        }
    }

    void launch(int queue, const Call& call) override
    {
        call(exec(queue));
        kernels::check_launches("a kernel's launch");
    }

    void launch(int queue, Communication& move) override { move.start(exec(queue)); }

    void copy(int queue, void* to, const void* from, Bytes bytes) override
    {
        if (is_pinned(from))
            kernels::copy_to_device(exec(queue), to, from, bytes);
        else
            kernels::copy_from_device(exec(queue), to, from, bytes);
    }

    void record(int queue, int event) override { at(events_, event).record(native(queue)); }
    void wait(int queue, int event) override { at(events_, event).hold(native(queue)); }
    void synchronise(int event) override
    {
        // Not wait(): if a peer is lost, the work never ends and no error appears.
        using Clock = std::chrono::steady_clock;
        auto next_check = Clock::now();
        while (!reached(event)) {
            if (check_ && Clock::now() > next_check) {
                check_();
                next_check = Clock::now() + std::chrono::milliseconds(100);
            }
            std::this_thread::yield();
        }
        if (check_)
            check_();
    }
    bool reached(int event) const override { return at(events_, event).reached(); }

    void stamp(int queue, int stamp) override { at(stamps_, stamp).record(native(queue)); }
    Seconds seconds(int stamp) override
    {
        at(stamps_, stamp).wait();
        // Relative to the first stamp, so that the precision of a float is sufficient.
        return at(stamps_, stamp).since(stamps_.front());
    }

    std::byte* host_memory(Bytes bytes) override
    {
        return pinned_.emplace_back("feeds and fetches", std::max<Bytes>(bytes, 256)).data();
    }

    void begin_capture() override { kernels::DeviceGraph::begin(native(0)); }
    void end_capture(int graph) override
    {
        TRV_CHECK(graph == static_cast<int>(graphs_.size()), "graphs are captured in order");
        graphs_.emplace_back(native(0));
    }
    void replay(int graph) override { graphs_[static_cast<std::size_t>(graph)].launch(native(0)); }

private:
    const Stream& stream(int queue) const
    {
        return queue == 0 ? compute_stream() : *beside_[static_cast<std::size_t>(queue - 1)];
    }
    void* native(int queue) const { return stream(queue).native(); }
    const kernels::Exec& exec(int queue) const { return execs_[static_cast<std::size_t>(queue)]; }
    bool is_pinned(const void* memory) const
    {
        const auto* const at = static_cast<const std::byte*>(memory);
        return std::any_of(pinned_.begin(), pinned_.end(), [&](const kernels::PinnedBlock& block) {
            return at >= block.data() && at < block.data() + block.size();
        });
    }
    std::function<void()> check_;
    std::vector<kernels::PinnedBlock> pinned_;
    std::vector<std::unique_ptr<Stream>> beside_;
    std::vector<kernels::Exec> execs_; ///< by queue
    std::vector<kernels::DeviceEvent> events_, stamps_;
    std::vector<kernels::DeviceGraph> graphs_;
};

} // namespace

std::unique_ptr<Streams> make_device_streams(const StreamsConfig& config)
{
    return std::make_unique<DeviceStreams>(config);
}

} // namespace trivium
