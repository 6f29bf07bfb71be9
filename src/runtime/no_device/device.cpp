// A build without devices.
#include "runtime/device.hpp"

#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/counted.hpp"
#include "runtime/streams.hpp"

namespace trivium {

bool computes_on_device() { return false; }

int device_count() { return 0; }

Device::Device(int index) : index_(index)
{
    throw UserError({"device", str("there is no device ", index), "this build computes on CPUs",
                     "build with the preset 'cuda' (docs/cuda.md) or 'hip' (docs/amd.md)"});
}

Device current_device() { return Device(0); }

Computing::Computing(int threads, Grid*)
{
    const Bytes stack = Bytes{8} << 20;
    require_address_space(threads * stack + room_for_libraries,
                          counted(threads, "thread") + " and libraries"); // OpenMP would end the process
    runtime_ = std::make_unique<kernels::Runtime>(threads);
}
Computing::~Computing() = default;

DeviceMemory Computing::memory() const { return {}; }

struct Stream::Impl {};

Stream::Stream(const Device&, StreamPriority) {}
Stream::~Stream() = default;

kernels::Exec Stream::exec() const { return {}; }

void* Stream::native() const { return nullptr; }

void Stream::wait() const {}

std::unique_ptr<Streams> make_device_streams(const StreamsConfig&) { return nullptr; }

} // namespace trivium
