#include "config/model_parameters.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

std::vector<ModelParameter> layer_parameters(const ModelConfig& c, i64 layer)
{
    std::vector<ModelParameter> all;
    const auto norm = [&](const char* name) {
        all.push_back({str(name, ".weight"), "d"});
        if (c.norm == NormKind::layer)
            all.push_back({str(name, ".bias"), "d"});
    };
    const auto product = [&](const char* name, const std::string& in, const std::string& out, bool bias) {
        all.push_back({str(name, ".weight"), in + out, in, out});
        if (bias)
            all.push_back({str(name, ".bias"), out});
    };
    const bool before = c.placement != Placement::post,
               after = c.placement == Placement::post || c.placement == Placement::sandwich;
    if (before)
        norm("attn_norm");
    // A letter of its own only where it has an extent of its own, as rules name dimensions.
    const std::string value = value_dim(c) == c.head_dim ? "e" : "u";
    if (has_latents(c)) {
        const bool of_q = c.q_latent > 0;
        if (of_q) {
            product("attn.q_down", "d", "l", c.qkv_bias);
            all.push_back({"attn.q_latent_norm.weight", "l"});
        }
        product("attn.q", of_q ? "l" : "d", "gre", false);
        product("attn.kv_down", "d", "c", c.qkv_bias);
        product("attn.k_rope", "d", "p", c.qkv_bias);
        all.push_back({"attn.kv_latent_norm.weight", "c"});
        product("attn.k", "c", "gn", false);
        product("attn.v", "c", "g" + value, false);
    } else {
        product("attn.q", "d", "gre", c.qkv_bias);
        product("attn.k", "d", "ge", c.qkv_bias);
        product("attn.v", "d", "g" + value, c.qkv_bias);
    }
    if (c.qk_norm != QkNorm::none) {
        const bool width = c.qk_norm == QkNorm::width;
        all.push_back({"attn.q_norm.weight", width ? "gre" : "e"});
        all.push_back({"attn.k_norm.weight", width ? "ge" : "e"});
    }
    if (c.attention_sinks)
        all.push_back({"attn.sinks", "gr"});
    product("attn.o", "gr" + value, "d", c.o_bias);
    if (after)
        norm("attn_post_norm");
    if (before)
        norm("ffn_norm");
    if (c.has_experts(layer)) {
        product("ffn.router", "d", "x", c.router_bias);
        if (c.balance_bias)
            all.push_back({"ffn.router.balance", "x"});
        const auto of_experts = [&](const char* name, const char* in, const std::string& out) {
            all.push_back({str(name, ".weight"), str("x", in, out), in, out});
            if (c.ffn_bias)
                all.push_back({str(name, ".bias"), "x" + out});
        };
        if (c.gated)
            of_experts("ffn.experts.gate", "d", "h");
        of_experts("ffn.experts.up", "d", "h");
        of_experts("ffn.experts.down", "h", "d");
        if (c.shared_dim > 0) {
            if (c.gated)
                product("ffn.shared.gate", "d", "w", false);
            product("ffn.shared.up", "d", "w", false);
            product("ffn.shared.down", "w", "d", false);
        }
    } else {
        if (c.gated)
            product("ffn.gate", "d", "f", c.ffn_bias);
        product("ffn.up", "d", "f", c.ffn_bias);
        product("ffn.down", "f", "d", c.ffn_bias);
    }
    if (after)
        norm("ffn_post_norm");
    return all;
}

std::vector<ModelParameter> outer_parameters(const ModelConfig& c)
{
    std::vector<ModelParameter> all{{"embed.weight", "vd", "v", "d"}};
    if (c.positions == Positions::learned)
        all.push_back({"positions.weight", "sd", "s", "d"});
    all.push_back({"final_norm.weight", "d"});
    if (c.norm == NormKind::layer)
        all.push_back({"final_norm.bias", "d"});
    if (!c.tied_embeddings)
        all.push_back({"head.weight", "vd", "d", "v"});
    return all;
}

std::vector<ModelParameter> all_parameters(const ModelConfig& c)
{
    std::vector<ModelParameter> all = outer_parameters(c);
    for (i64 layer = 0; layer < c.layers; ++layer)
        for (ModelParameter& parameter : layer_parameters(c, layer)) {
            parameter.name = str("layers.", layer, ".", parameter.name);
            all.push_back(std::move(parameter));
        }
    return all;
}

i64 extent_of(const ModelConfig& c, char dim)
{
    switch (dim) {
    case 'd': return c.dim;
    case 'g': return c.kv_heads;
    case 'r': return c.heads / c.kv_heads;
    case 'e': return c.head_dim;
    case 'u': return value_dim(c);
    case 'l': return c.q_latent;
    case 'c': return c.kv_latent;
    case 'p': return rotary_dim(c);
    case 'n': return c.head_dim - rotary_dim(c);
    case 'f': return c.ffn_dim;
    case 'v': return c.vocab;
    case 's': return c.seq;
    case 'x': return c.experts;
    case 'h': return c.expert_dim;
    case 'w': return c.shared_dim;
    default: TRV_CHECK(false, "no dimension is called ", dim);
    }
    return 0;
}

i64 element_count(const ModelConfig& c, const ModelParameter& parameter, i64 experts)
{
    i64 product = 1;
    for (const char dim : parameter.dims)
        product *= dim == 'x' && parameter.name.find("ffn.experts.") != std::string::npos ? experts
                                                                                          : extent_of(c, dim);
    return product;
}

namespace {

/// `experts`: how many of each layer count.
i64 elements(const ModelConfig& c, const std::vector<ModelParameter>& parameters, i64 experts)
{
    i64 sum = 0;
    for (const ModelParameter& parameter : parameters)
        sum += element_count(c, parameter, experts);
    return sum;
}

i64 count_with(const ModelConfig& c, i64 experts)
{
    TRV_EXPECT(c.vocab > 0 && c.kv_heads > 0 && c.ffn_dim > 0 && c.head_dim > 0,
               "a model that is not resolved");
    const i64 dense = c.experts > 0 ? std::min(c.dense_layers, c.layers) : c.layers;
    i64 sum = elements(c, outer_parameters(c), experts);
    if (dense > 0)
        sum += dense * elements(c, layer_parameters(c, 0), experts);
    if (dense < c.layers)
        sum += (c.layers - dense) * elements(c, layer_parameters(c, dense), experts);
    return sum;
}

} // namespace

i64 parameter_count(const ModelConfig& c)
{
    return c.is_program() ? c.program.parameters : count_with(c, c.experts);
}

i64 active_parameter_count(const ModelConfig& c)
{
    return c.is_program() ? c.program.parameters : count_with(c, std::min(c.experts, c.expert_slots));
}

} // namespace trivium
