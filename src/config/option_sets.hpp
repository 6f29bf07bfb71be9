#pragma once
// A few sets of options of blocks that together have every option, for checks and tests that train on many
// grids.
#include "config/model_config.hpp"

namespace trivium {

/// `llama` and `gpt2` are the families; `post`, `sandwich` and `parallel` are named after their norms and mix
/// the options of several families, `latent` after multi-head latent attention.
enum class OptionSet { llama, gpt2, post, sandwich, parallel, latent };
template <>
inline constexpr std::array<std::string_view, 6> names_of_enum<OptionSet>{"llama",    "gpt2",     "post",
                                                                          "sandwich", "parallel", "latent"};

/// Gives `config` the options. Its shape stays, except that the last three set head_dim. Windows
/// and chunks are a few tokens.
void set_options(ModelConfig& config, OptionSet set);

} // namespace trivium
