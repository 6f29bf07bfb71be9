#include "config/model_config.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

// Within these, products of sizes fit into 64 bits.
constexpr i64 max_layers = 4096, max_dim = i64{1} << 20, max_extent = i64{1} << 24, max_vocab = i64{1} << 28;

void require_model(bool holds, const char* key, const std::string& problem, const std::string& remedy)
{
    if (!holds)
        throw UserError({str("model.", key), problem, "", remedy});
}

} // namespace

std::string one_of(const std::vector<std::string>& words)
{
    std::string text;
    for (std::size_t i = 0; i < words.size(); ++i)
        text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
    return text;
}

void resolve(ModelConfig& config)
{
    if (config.kv_heads == 0)
        config.kv_heads = config.heads;
    if (config.ffn_dim == 0 && config.dim > 0 && config.dim <= max_dim) // otherwise validate refuses dim
        config.ffn_dim =
            config.family == Family::gpt2 ? 4 * config.dim : round_up(ceil_div(8 * config.dim, 3), 64);
}

void validate(const ModelConfig& c)
{
    const auto positive = [](const char* key, i64 value, i64 most) {
        require_model(value > 0, key, str("must be positive, is ", value), "set a positive integer");
        require_model(value <= most, key, str("is too large: ", value), str("set at most ", most));
    };
    positive("layers", c.layers, max_layers);
    positive("dim", c.dim, max_dim);
    positive("heads", c.heads, max_dim);
    positive("kv_heads", c.kv_heads, max_dim);
    positive("ffn_dim", c.ffn_dim, max_extent);
    positive("vocab", c.vocab, max_vocab);
    positive("seq", c.seq, max_extent);
    require_model(c.dim % c.heads == 0, "heads", str(c.heads, " heads do not divide dim = ", c.dim),
                  "choose heads that divide model.dim");
    require_model(c.heads % c.kv_heads == 0, "kv_heads",
                  str(c.kv_heads, " key-value heads do not divide heads = ", c.heads),
                  "choose kv_heads that divide model.heads");
    require_model(c.norm_eps > 0 && std::isfinite(c.norm_eps), "norm_eps",
                  str("must be positive and finite, is ", c.norm_eps), "1e-5 is usual");
    require_model(c.dropout >= 0 && c.dropout < 1, "dropout",
                  str("must be from 0 to below 1, is ", c.dropout), "0.1 is usual, 0 turns it off");
    if (c.family == Family::llama) {
        require_model(c.head_dim() % 2 == 0, "heads",
                      str("rotary embeddings need an even head size, dim / heads is ", c.head_dim()),
                      "choose model.heads so that dim / heads is even");
        require_model(c.rope_theta > 1 && std::isfinite(c.rope_theta), "rope_theta",
                      str("must be finite and above 1, is ", c.rope_theta), "10000 or 500000 are usual");
        const RopeScaling& s = c.rope_scaling;
        require_model(s.factor >= 1 && std::isfinite(s.factor), "rope_scaling",
                      str("factor must be finite and at least 1, is ", s.factor), "Llama 3.1 uses 8");
        require_model(s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0 &&
                          std::isfinite(s.high_freq_factor),
                      "rope_scaling", "high_freq_factor must be above low_freq_factor, and both positive",
                      "Llama 3.1 uses 1 and 4");
        require_model(s.original_seq > 0 && s.original_seq <= max_vocab, "rope_scaling",
                      str("original_seq must be from 1 to ", max_vocab, ", is ", s.original_seq),
                      "Llama 3.1 uses 8192");
    } else {
        require_model(c.rope_scaling == RopeScaling{}, "rope_scaling",
                      "gpt2 has learned positions, not rotary embeddings",
                      "remove the key or set model.family = \"llama\"");
    }
}

i64 parameter_count(const ModelConfig& c)
{
    TRV_EXPECT(c.vocab > 0 && c.kv_heads > 0 && c.ffn_dim > 0, "a model that is not resolved");
    const i64 kv_dim = c.kv_heads * c.head_dim();
    const i64 attention = 2 * c.dim * c.dim + 2 * c.dim * kv_dim;
    const i64 tables = (c.tied_embeddings ? 1 : 2) * c.vocab * c.dim;
    if (c.family == Family::llama)
        return c.layers * (attention + 3 * c.dim * c.ffn_dim + 2 * c.dim) + c.dim + tables;
    const i64 biases = c.dim + 2 * kv_dim + c.dim + c.ffn_dim + c.dim;
    return c.layers * (attention + 2 * c.dim * c.ffn_dim + biases + 4 * c.dim) + 2 * c.dim + c.seq * c.dim +
           tables;
}

} // namespace trivium
