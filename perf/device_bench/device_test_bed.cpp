#include "test_bed.hpp"

#include "kernels/device/cuda_check.hpp"
#include "runtime/device.hpp"

namespace trivium {

using kernels::check_cuda;

struct TestBed::Impl {
    Computing computing{1};
    Device device;
    Stream stream{device};
    Bytes cache = 0;

    cudaStream_t native() const { return static_cast<cudaStream_t>(stream.native()); }
};

std::string TestBed::missing()
{
    const char* reason = nullptr;
    return kernels::usable_devices(&reason) > 0 ? "" : std::string("no device (") + reason + ")";
}

TestBed::TestBed() : impl_(std::make_unique<Impl>())
{
    int bytes = 0;
    check_cuda(cudaDeviceGetAttribute(&bytes, cudaDevAttrL2CacheSize, impl_->device.index()),
               "cudaDeviceGetAttribute");
    impl_->cache = bytes;
}
TestBed::~TestBed() = default;

const std::string& TestBed::name() const { return impl_->device.name(); }
kernels::Exec TestBed::exec() const { return impl_->stream.exec(); }
Bytes TestBed::cache() const { return impl_->cache; }

std::shared_ptr<void> TestBed::allocate(Bytes bytes) const
{
    void* memory = nullptr;
    check_cuda(cudaMalloc(&memory, static_cast<std::size_t>(bytes > 0 ? bytes : 1)), "cudaMalloc");
    std::shared_ptr<void> owned(memory, [](void* data) { cudaFree(data); });
    check_cuda(cudaMemsetAsync(memory, 0xff, static_cast<std::size_t>(bytes), impl_->native()),
               "cudaMemsetAsync");
    return owned;
}

void TestBed::write(void* to, const void* from, Bytes bytes) const
{
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyHostToDevice, impl_->native()),
        "cudaMemcpyAsync");
    impl_->stream.wait();
}

void TestBed::copy(void* to, const void* from, Bytes bytes) const
{
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToDevice, impl_->native()),
        "cudaMemcpyAsync");
}

void TestBed::read(void* to, const void* from, Bytes bytes) const
{
    check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDeviceToHost, impl_->native()),
        "cudaMemcpyAsync");
    impl_->stream.wait();
}

std::vector<Seconds> TestBed::time(int calls, const std::function<void(int)>& call) const
{
    std::vector<cudaEvent_t> events(static_cast<std::size_t>(calls) + 1);
    for (cudaEvent_t& event : events)
        check_cuda(cudaEventCreate(&event), "cudaEventCreate");
    check_cuda(cudaEventRecord(events[0], impl_->native()), "cudaEventRecord");
    for (int i = 0; i < calls; ++i) {
        call(i);
        check_cuda(cudaEventRecord(events[static_cast<std::size_t>(i) + 1], impl_->native()),
                   "cudaEventRecord");
    }
    impl_->stream.wait();
    std::vector<Seconds> seconds;
    for (std::size_t i = 1; i < events.size(); ++i) {
        float milliseconds = 0;
        check_cuda(cudaEventElapsedTime(&milliseconds, events[i - 1], events[i]), "cudaEventElapsedTime");
        seconds.push_back(milliseconds * 1e-3);
    }
    for (const cudaEvent_t event : events)
        cudaEventDestroy(event);
    return seconds;
}

} // namespace trivium
