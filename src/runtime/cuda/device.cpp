#include "runtime/device.hpp"

#include "base/check.hpp"
#include "kernels/device/cuda_check.hpp"
#include "kernels/device/stream.hpp"
#include "mpi/device_grid.hpp"
#include "runtime/communication.hpp"

namespace trivium {

using kernels::check_cuda;

bool computes_on_device() { return true; }

int device_count() { return kernels::usable_devices(); }

Device::Device(int index) : index_(index)
{
    const char* reason = nullptr;
    const int count = kernels::usable_devices(&reason);
    if (index < 0 || index >= count)
        throw UserError({"device", str("there is no device ", index),
                         count == 0 ? std::string(reason) : str("this process sees ", count),
                         "see `nvidia-smi`, and CUDA_VISIBLE_DEVICES as the launcher sets it"});
    check_cuda(cudaSetDevice(index), "cudaSetDevice");
    cudaDeviceProp properties{};
    check_cuda(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
    name_ = properties.name;
    char bus[32] = "";
    check_cuda(cudaDeviceGetPCIBusId(bus, sizeof bus, index), "cudaDeviceGetPCIBusId");
    address_ = bus;
}

Device current_device()
{
    int index = 0;
    check_cuda(cudaGetDevice(&index), "cudaGetDevice");
    return Device(index);
}

Computing::Computing(int threads, Grid* grid)
{
    const auto choose = [&] {
        const char* reason = nullptr;
        const int devices = kernels::usable_devices(&reason);
        if (devices == 0)
            throw UserError({"device", "this build computes on NVIDIA GPUs and finds none here", reason,
                             "run it on a node with a GPU and its driver, or use a build of the preset "
                             "'default', which computes on CPUs"});
        const Device device(grid ? device_index(*grid, devices) : 0);
        device_ = device.name();
        address_ = device.address();
        runtime_ = std::make_unique<kernels::Runtime>(threads);
    };
    if (grid)
        succeed_together(grid->world(), choose);
    else
        choose();
    if (grid && grid->world().size() > 1)
        open_devices(*grid);
}

Computing::~Computing() = default;

DeviceMemory Computing::memory() const
{
    std::size_t free = 0, total = 0;
    check_cuda(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {static_cast<Bytes>(total), static_cast<Bytes>(free)};
}

struct Stream::Impl {
    struct Owned {
        cudaStream_t stream = nullptr;
        explicit Owned(StreamPriority priority)
        {
            int least = 0, greatest = 0; // a smaller number is a higher priority
            check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest),
                       "cudaDeviceGetStreamPriorityRange");
            check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
                                                    priority == StreamPriority::high ? greatest : least),
                       "cudaStreamCreate");
        }
        Owned(const Owned&) = delete;
        Owned& operator=(const Owned&) = delete;
        ~Owned() { cudaStreamDestroy(stream); }
    };
    explicit Impl(StreamPriority priority) : owned(priority) {}

    Owned owned;
    kernels::SpaceOnStream space{owned.stream}; // declared after the stream, so destroyed before it
};

Stream::Stream(const Device& device, StreamPriority priority)
{
    check_cuda(cudaSetDevice(device.index()), "cudaSetDevice");
    impl_ = std::make_unique<Impl>(priority);
}

Stream::~Stream() = default;

kernels::Exec Stream::exec() const { return {.threads = 1, .stream = impl_->space.address()}; }

void* Stream::native() const { return impl_->owned.stream; }

void Stream::wait() const { check_cuda(cudaStreamSynchronize(impl_->owned.stream), "cudaStreamSynchronize"); }

} // namespace trivium
