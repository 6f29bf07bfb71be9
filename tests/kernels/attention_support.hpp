#pragma once
// What the tests of attention on tensor cores share, emulated and on a device.
#include "support.hpp"

namespace trivium::kernels {

/// Gradients in bf16: where rounded probabilities' gradients cancel, single elements are off by more than the
/// tolerance of bf16; all in all they are not.
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
