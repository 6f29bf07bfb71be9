#pragma once
// Internal: the Kokkos execution space of an Exec.
#include "base/check.hpp"
#include "kernels/device/vendor.hpp"
#include "kernels/exec.hpp"

#include <Kokkos_Core.hpp>
#include <exception>
#include <type_traits>

namespace trivium::kernels {
inline namespace on_teams {

using DeviceSpace = Kokkos::DefaultExecutionSpace;

/// Whether DeviceSpace is a device; in tests it is a host space.
inline constexpr bool space_is_device = !std::is_same_v<DeviceSpace, Kokkos::DefaultHostExecutionSpace>;

inline DeviceSpace space_of(const Exec& exec)
{
    return exec.stream ? *static_cast<const DeviceSpace*>(exec.stream) : DeviceSpace();
}

/// The policy of a kernel whose functor is an argument of its launch. Otherwise Kokkos sends functors of more
/// than 512 bytes by a copy that waits for the device, which is not allowed during graph capture.
template <class Policy>
auto sent_with_launch(const Policy& policy)
{
    return Kokkos::Experimental::require(policy, Kokkos::Experimental::WorkItemProperty::HintLightWeight);
}

/// Maximum bytes of such a functor: the arguments of a launch are 4 KB, Kokkos' own included.
inline constexpr std::size_t largest_functor = 3840;

/// Calls f(), which enqueues `label`. \throws IoError if that fails or the device has failed before
template <class F>
void launched(const char* label, const F& f)
{
    if constexpr (space_is_device)
        forget_error();
    try {
        f();
    } catch (const std::exception& error) {
        throw IoError({label, "Kokkos cannot enqueue this work", error.what(),
                       "see whether the device is in order and who uses it"});
    }
    if constexpr (space_is_device)
        check_launches(label);
}

} // namespace on_teams
} // namespace trivium::kernels
