#pragma once
// [model]: the shape of a transformer.
#include "base/units.hpp"
#include "config/keys.hpp"

namespace trivium {

enum class Family { llama, gpt2 };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<Family>{"llama", "gpt2"};

/// Llama 3's frequency scaling of rotary embeddings; factor 1: no scaling.
struct RopeScaling {
    double factor = 1;
    double low_freq_factor = 1;
    double high_freq_factor = 4;
    i64 original_seq = 8192; ///< context length, in tokens, for which the frequencies were trained

    bool operator==(const RopeScaling&) const = default;
};

struct ModelConfig {
    std::string preset;
    Family family = Family::llama;
    i64 layers = 2;
    i64 dim = 64;
    i64 heads = 4;
    i64 kv_heads = 0; ///< 0: as many as heads
    i64 ffn_dim = 0;  ///< 0: 8/3 dim rounded up to 64 (llama), 4 dim (gpt2)
    i64 vocab = 0;    ///< 0: the tokenizer's
    i64 seq = 128;
    bool tied_embeddings = false;
    double rope_theta = 500000;
    RopeScaling rope_scaling;
    double norm_eps = 1e-5;
    double dropout = 0;

    i64 head_dim() const { return dim / heads; }

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("preset", self.preset, KeyKind::free, "a named shape; every other key overrides it");
        visit("family", self.family, KeyKind::forward,
              "llama (RMSNorm, RoPE, SwiGLU) or gpt2 (LayerNorm, learned positions, GELU)");
        visit("layers", self.layers, KeyKind::shape, "number of transformer blocks");
        visit("dim", self.dim, KeyKind::shape, "width of the residual stream");
        visit("heads", self.heads, KeyKind::forward, "query heads; must divide dim");
        visit("kv_heads", self.kv_heads, KeyKind::forward,
              "key-value heads (grouped-query attention); 0 = as many as heads");
        visit("ffn_dim", self.ffn_dim, KeyKind::shape,
              "hidden width of the feed-forward block; 0 = 8/3 dim rounded up to 64 (llama), 4 dim (gpt2)");
        visit("vocab", self.vocab, KeyKind::shape, "vocabulary size in tokens; 0 = that of the tokenizer");
        visit("seq", self.seq, KeyKind::training, "tokens per sequence");
        visit("tied_embeddings", self.tied_embeddings, KeyKind::forward,
              "share the token embedding with the output head");
        visit("rope_theta", self.rope_theta, KeyKind::forward, "base of the rotary frequencies (llama)");
        visit("rope_scaling", self.rope_scaling, KeyKind::forward,
              "Llama 3's frequency scaling: \"none\", \"llama3\", or [factor, low_freq_factor, "
              "high_freq_factor, original_seq]");
        visit("norm_eps", self.norm_eps, KeyKind::forward, "constant added to the variance in norms");
        visit("dropout", self.dropout, KeyKind::training,
              "in training, the probability that an element of the embeddings, or of what attention or "
              "feed-forward block add to the residual stream, is 0 (the others are divided by 1 - dropout)");
    }
};

/// Names of all presets, smallest first.
std::vector<std::string> preset_names();
/// The preset called `name`. Throws UserError with the nearest name if there is none.
ModelConfig preset(const std::string& name);

/// Replaces zeros by the values that they stand for (kv_heads, ffn_dim; not vocab).
void resolve(ModelConfig& config);
/// Throws UserError for the first key of a resolved config with an impossible value, also for vocab = 0.
void validate(const ModelConfig& config);

/// Number of trained elements; a tied embedding counts once. \pre the config is resolved, vocab > 0
i64 parameter_count(const ModelConfig& config);

} // namespace trivium
