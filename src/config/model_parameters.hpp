#pragma once
// The parameters of a model, once: counts, graphs (src/model) and their tests take them from these lists.
#include "config/model_config.hpp"

namespace trivium {

/// `dims`: a letter per dimension, as in model/model.hpp: d model width, g key-value heads, r query heads per
/// key-value head, e head size, u value head size, f feed-forward width, v vocabulary size, s positions; x
/// experts, h their width, w that of shared experts; with latents: l and c the widths of the vectors of
/// queries and of keys and values, p the dimensions of a head that rotate, n the others.
struct ModelParameter {
    std::string name, dims;
    /// Of a matrix: the dimensions of what it multiplies (or looks up), and those of the result. `dims` has
    /// them in one of the two orders, after x if there is one per expert.
    std::string in{}, out{};

    bool is_matrix() const { return !in.empty(); }
    bool has_experts() const { return is_matrix() && dims[0] == 'x'; }
};

/// Those of layer `layer` (from 0), as "attn.q.weight", in the order in which the layer reads them.
std::vector<ModelParameter> layer_parameters(const ModelConfig& config, i64 layer);
/// Those outside of layers, by global name.
std::vector<ModelParameter> outer_parameters(const ModelConfig& config);

/// All of them by global name.
std::vector<ModelParameter> all_parameters(const ModelConfig& config);

/// Extent of the dimension with a letter of ModelParameter. \pre the config is resolved
i64 extent_of(const ModelConfig& config, char dim);
/// Elements, with `experts` of the experts of a layer. \pre the config is resolved
i64 element_count(const ModelConfig& config, const ModelParameter& parameter, i64 experts);

} // namespace trivium
