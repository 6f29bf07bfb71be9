#pragma once
// The functions of feed-forward blocks.
#include "base/enum_names.hpp"

namespace trivium {

/// silu(x) = x / (1 + exp(-x)). gelu is exact, with erf; gelu_tanh (Hendrycks & Gimpel 2016) is GPT-2's
/// approximation of it. relu2 = max(x, 0)^2 (So et al. 2021, arXiv:2109.08668).
enum class Activation { silu, gelu, gelu_tanh, relu2 };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<Activation>{"silu", "gelu", "gelu-tanh",
                                                                           "relu2"};

} // namespace trivium
