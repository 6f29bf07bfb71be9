#pragma once
// Not called on spaces of the host. device/cuda and device/hip have the same function.
namespace trivium::kernels {

template <class A>
A of_lane_xor(A value, int)
{
    return value;
}

} // namespace trivium::kernels
