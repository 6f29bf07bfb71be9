#pragma once
// Shared by the tests of attention on tensor cores, emulated and on a device.
#include "support.hpp"

namespace trivium::kernels {

/// Gradients in bf16: if the gradients of rounded probabilities cancel, single elements may exceed the
/// tolerance of bf16, but the whole tensor does not.
inline void require_close_gradient(const std::vector<bf16>& got, const Doubles& want, const char* what)
{
    require_close(got, want, 2.5 * tolerance<bf16>, what);
    double error = 0, square = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        error += std::pow(static_cast<double>(static_cast<float>(got[i])) - want[i], 2);
        square += want[i] * want[i];
    }
    INFO(what << ": root mean square error " << std::sqrt(error / square));
    REQUIRE(error <= 0.004 * 0.004 * square);
}

} // namespace trivium::kernels
