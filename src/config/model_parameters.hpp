#pragma once
// The parameters of a model, once: counts, graphs (src/model) and their tests take them from these lists.
#include "config/model_config.hpp"

namespace trivium {

/// `dims`: a letter per dimension, as in model/model.hpp: d model width, g key-value heads, r query heads per
/// key-value head, e head size, f feed-forward width, v vocabulary size, s positions, x experts, h their
/// width, w that of shared experts.
struct ModelParameter {
    std::string name, dims;
};

/// Those of layer `layer` (from 0), as "attn.q.weight", in the order in which the layer reads them.
std::vector<ModelParameter> layer_parameters(const ModelConfig& config, i64 layer);
/// Those outside of layers, by global name.
std::vector<ModelParameter> outer_parameters(const ModelConfig& config);

/// Extent of the dimension with a letter of ModelParameter. \pre the config is resolved
i64 extent_of(const ModelConfig& config, char dim);
/// Elements of a layer with `experts` of its experts. \pre the config is resolved
i64 layer_parameter_count(const ModelConfig& config, i64 layer, i64 experts);

} // namespace trivium
