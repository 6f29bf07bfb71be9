// CUDA streams, events and captured graphs.
#include "runtime/streams.hpp"

#include "base/check.hpp"
#include "kernels/device/cuda_check.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

namespace trivium {

using kernels::check_cuda;

namespace {

cudaStream_t native(const Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// The stream of queue 0 of all Streams. Never destroyed, because the driver may be unloaded before static
/// objects.
const Stream& compute_stream()
{
    static const Stream& made = *new Stream(current_device());
    return made;
}

class CudaStreams : public Streams {
public:
    explicit CudaStreams(const StreamsConfig& config) : check_(config.check)
    {
        const Device device = current_device();
        for (int queue = 1; queue < config.queues;
             ++queue) // transfers are small, and other work waits for them
            beside_.push_back(std::make_unique<Stream>(device, StreamPriority::high));
        for (int queue = 0; queue < config.queues; ++queue)
            execs_.push_back(stream(queue).exec());
        events_.resize(static_cast<std::size_t>(config.events));
        for (cudaEvent_t& event : events_)
            check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate");
        stamps_.resize(static_cast<std::size_t>(config.stamps));
        for (cudaEvent_t& event : stamps_)
            check_cuda(cudaEventCreate(&event), "cudaEventCreate");
    }

    ~CudaStreams() override
    {
        cudaDeviceSynchronize(); // an error was thrown before, or no longer matters
        for (const cudaGraphExec_t graph : graphs_)
            cudaGraphExecDestroy(graph);
        for (const cudaEvent_t event : events_)
            cudaEventDestroy(event);
        for (const cudaEvent_t event : stamps_)
            cudaEventDestroy(event);
        for (void* memory : pinned_)
            cudaFreeHost(memory);
    }

    void launch(int queue, const Call& call) override
    {
        call(execs_[static_cast<std::size_t>(queue)]);
        check_cuda(cudaPeekAtLastError(), "a kernel's launch");
    }

    void launch(int queue, Communication& move) override
    {
        move.start(execs_[static_cast<std::size_t>(queue)]);
    }

    void copy(int queue, void* to, const void* from, Bytes bytes) override
    {
        check_cuda(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                                   native(stream(queue))),
                   "cudaMemcpyAsync");
    }

    void record(int queue, int event) override
    {
        check_cuda(cudaEventRecord(at(events_, event), native(stream(queue))), "cudaEventRecord");
    }
    void wait(int queue, int event) override
    {
        check_cuda(cudaStreamWaitEvent(native(stream(queue)), at(events_, event)), "cudaStreamWaitEvent");
    }
    void synchronise(int event) override
    {
        // Not cudaEventSynchronize: if a peer is lost, the work never ends and no error appears.
        using Clock = std::chrono::steady_clock;
        auto next_check = Clock::now();
        cudaError_t status = cudaErrorNotReady;
        while ((status = cudaEventQuery(at(events_, event))) == cudaErrorNotReady) {
            cudaGetLastError(); // cudaErrorNotReady would be reported by the next check of a launch
            if (check_ && Clock::now() > next_check) {
                check_();
                next_check = Clock::now() + std::chrono::milliseconds(100);
            }
            std::this_thread::yield();
        }
        check_cuda(status, "the device's work");
        if (check_)
            check_();
    }
    bool reached(int event) const override
    {
        const cudaError_t status = cudaEventQuery(at(events_, event));
        cudaGetLastError();
        return status != cudaErrorNotReady;
    }
    void stamp(int queue, int stamp) override
    {
        check_cuda(cudaEventRecord(at(stamps_, stamp), native(stream(queue))), "cudaEventRecord");
    }

    Seconds seconds(int stamp) override
    {
        check_cuda(cudaEventSynchronize(at(stamps_, stamp)), "the device's work");
        float milliseconds = 0; // relative to the first stamp, so that the precision of a float is sufficient
        check_cuda(cudaEventElapsedTime(&milliseconds, stamps_.front(), at(stamps_, stamp)),
                   "cudaEventElapsedTime");
        return static_cast<Seconds>(milliseconds) / 1000;
    }

    std::byte* host_memory(Bytes bytes) override
    {
        void* memory = nullptr;
        check_cuda(cudaHostAlloc(&memory, static_cast<std::size_t>(std::max<Bytes>(bytes, 256)),
                                 cudaHostAllocDefault),
                   "cudaHostAlloc");
        pinned_.push_back(memory);
        return static_cast<std::byte*>(memory);
    }

    void begin_capture() override
    {
        check_cuda(cudaStreamBeginCapture(native(stream(0)), cudaStreamCaptureModeThreadLocal),
                   "cudaStreamBeginCapture");
    }

    void end_capture(int graph) override
    {
        cudaGraph_t captured = nullptr;
        check_cuda(cudaStreamEndCapture(native(stream(0)), &captured), "cudaStreamEndCapture");
        TRV_CHECK(graph == static_cast<int>(graphs_.size()), "graphs are captured in order");
        cudaGraphExec_t ready = nullptr;
        const cudaError_t status = cudaGraphInstantiate(&ready, captured, 0);
        cudaGraphDestroy(captured);
        check_cuda(status, "cudaGraphInstantiate");
        graphs_.push_back(ready);
    }

    void replay(int graph) override
    {
        check_cuda(cudaGraphLaunch(graphs_[static_cast<std::size_t>(graph)], native(stream(0))),
                   "cudaGraphLaunch");
    }

private:
    const Stream& stream(int queue) const
    {
        return queue == 0 ? compute_stream() : *beside_[static_cast<std::size_t>(queue - 1)];
    }
    static cudaEvent_t at(const std::vector<cudaEvent_t>& events, int event)
    {
        return events[static_cast<std::size_t>(event)];
    }

    std::function<void()> check_;
    std::vector<std::unique_ptr<Stream>> beside_;
    std::vector<kernels::Exec> execs_; ///< by queue
    std::vector<cudaEvent_t> events_, stamps_;
    std::vector<cudaGraphExec_t> graphs_;
    std::vector<void*> pinned_;
};

} // namespace

std::unique_ptr<Streams> make_device_streams(const StreamsConfig& config)
{
    return std::make_unique<CudaStreams>(config);
}

} // namespace trivium
