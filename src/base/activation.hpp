#pragma once
// The functions of feed-forward blocks.
#include "base/enum_names.hpp"

namespace trivium {

/// silu(x) = x / (1 + exp(-x)). gelu is exact, with erf; gelu_tanh (Hendrycks & Gimpel 2016) is GPT-2's
/// approximation of it. relu2 = max(x, 0)^2 (So et al. 2021, arXiv:2109.08668). clipped, of a gate x and a
/// value u together (gpt-oss): g sigmoid(1.702 g) (1 + max(-7, min(u, 7))), g = min(x, 7).
enum class Activation { silu, gelu, gelu_tanh, relu2, clipped };
template <>
inline constexpr std::array<std::string_view, 5> names_of_enum<Activation>{"silu", "gelu", "gelu-tanh",
                                                                           "relu2", "clipped"};

/// Whether the function is one of a gate and a value, not of one number.
constexpr bool only_gated(Activation f) { return f == Activation::clipped; }

} // namespace trivium
