#include "runtime/device.hpp"

#include "base/check.hpp"
#include "kernels/device/stream.hpp"
#include "kernels/device/vendor.hpp"
#include "mpi/device_grid.hpp"
#include "runtime/communication.hpp"

namespace trivium {

bool computes_on_device() { return true; }

int device_count() { return kernels::usable_devices(); }

Device::Device(int index) : index_(index)
{
    const char* reason = nullptr;
    const int count = kernels::usable_devices(&reason);
    if (index < 0 || index >= count)
        throw UserError({"device", str("there is no device ", index),
                         count == 0 ? std::string(reason) : str("this process sees ", count),
                         str("see `", kernels::device_command(), "`, and ", kernels::device_variable(),
                             " as the launcher sets it")});
    kernels::make_current(index);
    const kernels::DeviceFacts facts = kernels::facts_of(index);
    name_ = facts.name;
    address_ = facts.address;
}

Device current_device() { return Device(kernels::current_index()); }

Computing::Computing(int threads, Grid* grid)
{
    const auto choose = [&] {
        const char* reason = nullptr;
        const int devices = kernels::usable_devices(&reason);
        if (devices == 0)
            throw UserError({"device",
                             str("this build computes on ", kernels::device_kind(), "s and finds none here"),
                             reason,
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
    const kernels::MemoryState state = kernels::memory_state();
    return {state.total, state.free};
}

struct Stream::Impl {
    explicit Impl(StreamPriority priority) : native(priority == StreamPriority::high), space(native.handle())
    {
    }

    kernels::NativeStream native;
    kernels::SpaceOnStream space; // declared after the stream, so destroyed before it
};

Stream::Stream(const Device& device, StreamPriority priority)
{
    kernels::make_current(device.index());
    impl_ = std::make_unique<Impl>(priority);
}

Stream::~Stream() = default;

kernels::Exec Stream::exec() const { return impl_->space.exec(); }

void* Stream::native() const { return impl_->native.handle(); }

void Stream::wait() const { impl_->native.wait(); }

} // namespace trivium
