#pragma once
// A few sets of options of blocks that together have every option, for checks and tests that train on many
// grids.
#include "config/model_config.hpp"

namespace trivium {

/// `llama` and `gpt2` are the families; `post`, `sandwich` and `parallel` are named after their norms and mix
/// the options of several families; `experts` and `groups` are mixtures of experts, the latter with groups of
/// them, `latent` has multi-head latent attention.
enum class OptionSet { llama, gpt2, post, sandwich, parallel, experts, groups, latent };
template <>
inline constexpr std::array<std::string_view, 8> names_of_enum<OptionSet>{
    "llama", "gpt2", "post", "sandwich", "parallel", "experts", "groups", "latent"};

/// Gives `config` the options. Its shape stays, except that `sandwich`, `parallel` and `latent` set head_dim,
/// and that `experts` and `groups` set the number and the widths of experts. Windows and chunks are a few
/// tokens.
void set_options(ModelConfig& config, OptionSet set);

} // namespace trivium
