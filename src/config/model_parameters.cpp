#include "config/model_parameters.hpp"

#include "base/check.hpp"

namespace trivium {

std::vector<ModelParameter> layer_parameters(const ModelConfig& c, i64 layer)
{
    std::vector<ModelParameter> all;
    const auto norm = [&](const char* name) {
        all.push_back({str(name, ".weight"), "d"});
        if (c.norm == NormKind::layer)
            all.push_back({str(name, ".bias"), "d"});
    };
    const auto product = [&](const char* name, const char* in, const std::string& out, bool bias) {
        all.push_back({str(name, ".weight"), in + out});
        if (bias)
            all.push_back({str(name, ".bias"), out});
    };
    const bool before = c.placement != Placement::post,
               after = c.placement == Placement::post || c.placement == Placement::sandwich;
    if (before)
        norm("attn_norm");
    product("attn.q", "d", "gre", c.qkv_bias);
    product("attn.k", "d", "ge", c.qkv_bias);
    product("attn.v", "d", "ge", c.qkv_bias);
    if (c.qk_norm != QkNorm::none) {
        const bool width = c.qk_norm == QkNorm::width;
        all.push_back({"attn.q_norm.weight", width ? "gre" : "e"});
        all.push_back({"attn.k_norm.weight", width ? "ge" : "e"});
    }
    if (c.attention_sinks)
        all.push_back({"attn.sinks", "gr"});
    product("attn.o", "gre", "d", c.o_bias);
    if (after)
        norm("attn_post_norm");
    if (before)
        norm("ffn_norm");
    const auto feed_forward = [&](const std::string& of, const std::string& each, const std::string& width,
                                  bool bias) {
        const auto add = [&](const char* name, const std::string& in, const std::string& out) {
            all.push_back({str(of, ".", name, ".weight"), each + in + out});
            if (bias)
                all.push_back({str(of, ".", name, ".bias"), each + out});
        };
        if (c.gated)
            add("gate", "d", width);
        add("up", "d", width);
        add("down", width, "d");
    };
    if (c.has_experts(layer)) {
        product("ffn.router", "d", "x", c.router_bias);
        if (c.balance_bias)
            all.push_back({"ffn.router.balance", "x"});
        feed_forward("ffn.experts", "x", "h", c.ffn_bias);
        if (c.shared_dim > 0)
            feed_forward("ffn.shared", "", "w", false);
    } else
        feed_forward("ffn", "", "f", c.ffn_bias);
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
    i64 sum = elements(outer_parameters(c));
    for (i64 layer = 0; layer < c.layers; ++layer)
        sum += elements(layer_parameters(c, layer));
    return sum;
}

} // namespace trivium
