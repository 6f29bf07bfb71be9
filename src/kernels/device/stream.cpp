#include "stream.hpp"

#include "kernels/device/kokkos/space.hpp"
#include "native_space.hpp"

namespace trivium::kernels {

namespace {

struct Nothing {
    KOKKOS_FUNCTION void operator()(const Kokkos::TeamPolicy<DeviceSpace>::member_type&) const {}
};

} // namespace

void* stream_of(const Exec& exec) { return stream_under(space_of(exec)); }

struct SpaceOnStream::Impl {
    DeviceSpace space;
};

SpaceOnStream::SpaceOnStream(void* stream) : impl_(std::make_unique<Impl>(Impl{space_on(stream)}))
{
    // Kokkos allocates scratch for teams at each launch as long as an instance has none, which is not allowed
    // during graph capture.
    Kokkos::TeamPolicy<DeviceSpace> policy(impl_->space, 1, 64);
    policy.set_scratch_size(1, Kokkos::PerTeam(64));
    Kokkos::parallel_for("first_launch", policy, Nothing());
    impl_->space.fence("the first launch");
}
SpaceOnStream::~SpaceOnStream()
{
    if (device_failed())
        static_cast<void>(impl_.release()); // Kokkos would wait for it, and end the process
}

Exec SpaceOnStream::exec() const { return {.threads = 1, .stream = &impl_->space}; }

} // namespace trivium::kernels
