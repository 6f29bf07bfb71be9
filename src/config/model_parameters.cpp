#include "config/model_parameters.hpp"

#include "base/check.hpp"

namespace trivium {

std::vector<ModelParameter> layer_parameters(const ModelConfig& c)
{
    std::vector<ModelParameter> all;
    const auto norm = [&](const char* name) {
        all.push_back({str(name, ".weight"), "d"});
        if (c.norm == NormKind::layer)
            all.push_back({str(name, ".bias"), "d"});
    };
    const auto product = [&](const char* name, const std::string& in, const std::string& out, bool bias) {
        all.push_back({str(name, ".weight"), in + out});
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
        product("attn.k_rope", "d", "h", c.qkv_bias);
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
    if (c.gated)
        product("ffn.gate", "d", "f", c.ffn_bias);
    product("ffn.up", "d", "f", c.ffn_bias);
    product("ffn.down", "f", "d", c.ffn_bias);
    if (after)
        norm("ffn_post_norm");
    return all;
}

std::vector<ModelParameter> outer_parameters(const ModelConfig& c)
{
    std::vector<ModelParameter> all{{"embed.weight", "vd"}};
    if (c.positions == Positions::learned)
        all.push_back({"positions.weight", "sd"});
    all.push_back({"final_norm.weight", "d"});
    if (c.norm == NormKind::layer)
        all.push_back({"final_norm.bias", "d"});
    if (!c.tied_embeddings)
        all.push_back({"head.weight", "vd"});
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
    case 'h': return rotary_dim(c);
    case 'n': return c.head_dim - rotary_dim(c);
    case 'f': return c.ffn_dim;
    case 'v': return c.vocab;
    case 's': return c.seq;
    default: TRV_CHECK(false, "no dimension is called ", dim);
    }
    return 0;
}

i64 parameter_count(const ModelConfig& c)
{
    if (c.is_program())
        return c.program.parameters;
    TRV_EXPECT(c.vocab > 0 && c.kv_heads > 0 && c.ffn_dim > 0 && c.head_dim > 0,
               "a model that is not resolved");
    const auto elements = [&](const std::vector<ModelParameter>& parameters) {
        i64 sum = 0;
        for (const ModelParameter& parameter : parameters) {
            i64 product = 1;
            for (const char dim : parameter.dims)
                product *= extent_of(c, dim);
            sum += product;
        }
        return sum;
    };
    return elements(outer_parameters(c)) + c.layers * elements(layer_parameters(c));
}

} // namespace trivium
