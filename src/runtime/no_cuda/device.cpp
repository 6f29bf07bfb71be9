// A build without devices: there is none, so nothing can be asked of one.
#include "runtime/device.hpp"

#include "base/check.hpp"

namespace trivium {

int device_count() { return 0; }

Device::Device(int index) : index_(index)
{
    throw UserError({"device", str("there is no device ", index), "this build computes on CPUs",
                     "build with the preset 'cuda': docs/cuda.md"});
}

struct Stream::Impl {};

Stream::Stream(const Device&) {}
Stream::~Stream() = default;

kernels::Exec Stream::exec() const { return {}; }

void* Stream::native() const { return nullptr; }

void Stream::wait() const {}

} // namespace trivium
