#include "io/gguf/architectures.hpp"

#include "base/check.hpp"
#include "kernels/rope_table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace trivium {

namespace {

constexpr std::array gguf_architectures{
    GgufArchitecture{.hugging_face = {"LlamaForCausalLM", "MistralForCausalLM", "MixtralForCausalLM"},
                     .name = "llama",
                     .interleaved = true,
                     .free_heads = true,
                     .frequency_factors = true},
    GgufArchitecture{.hugging_face = {"Qwen2ForCausalLM"}, .name = "qwen2"},
    GgufArchitecture{.hugging_face = {"Qwen3ForCausalLM"},
                     .name = "qwen3",
                     .biases = GgufArchitecture::Biases::none,
                     .free_heads = true},
    GgufArchitecture{.hugging_face = {"Olmo2ForCausalLM", "Olmo3ForCausalLM"},
                     .name = "olmo2",
                     .biases = GgufArchitecture::Biases::none,
                     .has_head = true,
                     .period = 4},
    GgufArchitecture{.hugging_face = {"Gemma2ForCausalLM"},
                     .name = "gemma2",
                     .biases = GgufArchitecture::Biases::none,
                     .free_heads = true,
                     .gelu = true,
                     .period = 2,
                     .gemma = true,
                     .layers_of_27b = 46},
    GgufArchitecture{.hugging_face = {"Gemma3ForCausalLM"},
                     .name = "gemma3",
                     .biases = GgufArchitecture::Biases::none,
                     .free_heads = true,
                     .gelu = true,
                     .period = 6,
                     .gemma = true,
                     .layers_of_27b = 62},
    GgufArchitecture{.hugging_face = {"Phi3ForCausalLM"}, .name = "phi3", .frequency_factors = true},
    GgufArchitecture{.hugging_face = {"GPTNeoXForCausalLM"},
                     .name = "gptneox",
                     .biases = GgufArchitecture::Biases::all,
                     .gelu = true,
                     .has_head = true},
    GgufArchitecture{.hugging_face = {"Starcoder2ForCausalLM"},
                     .name = "starcoder2",
                     .biases = GgufArchitecture::Biases::all,
                     .gelu = true},
    GgufArchitecture{.hugging_face = {"GraniteForCausalLM"},
                     .name = "granite",
                     .interleaved = true,
                     .free_heads = true,
                     .frequency_factors = true,
                     .multipliers = true},
    GgufArchitecture{.hugging_face = {"SmolLM3ForCausalLM"},
                     .name = "smollm3",
                     .biases = GgufArchitecture::Biases::none,
                     .interleaved = true,
                     .free_heads = true},
    GgufArchitecture{.hugging_face = {"Qwen3MoeForCausalLM"},
                     .name = "qwen3moe",
                     .biases = GgufArchitecture::Biases::none,
                     .free_heads = true,
                     .dense = false},
    GgufArchitecture{.hugging_face = {"OlmoeForCausalLM"},
                     .name = "olmoe",
                     .biases = GgufArchitecture::Biases::none,
                     .has_head = true,
                     .dense = false,
                     .normalised = false,
                     .own_keys = true},
    GgufArchitecture{.hugging_face = {"GPT2LMHeadModel"}, .name = "gpt2", .gelu = true},
};

constexpr i64 smollm3_interval = 4; ///< each so many layers, the last one does not rotate

bool slides(const ModelConfig& model, i64 layer) { return kind_of_layer(model, layer) == LayerKind::sliding; }

bool any_slides(const ModelConfig& model)
{
    for (i64 layer = 0; layer < model.layers; ++layer)
        if (slides(model, layer))
            return true;
    return false;
}

/// The number of layers after which their kinds repeat, with the last one full and the others sliding:
/// `usual` if possible; 0 if there is none.
i64 period_of_layers(const ModelConfig& model, i64 usual)
{
    const auto follows = [&](i64 period) {
        for (i64 layer = 0; layer < model.layers; ++layer)
            if (slides(model, layer) != (layer % period < period - 1))
                return false;
        return true;
    };
    if (follows(usual))
        return usual;
    for (i64 period = 2; period <= model.layers + 1; ++period)
        if (follows(period))
            return period;
    return 0;
}

double usual_scale(i64 head_dim) { return 1 / std::sqrt(static_cast<double>(head_dim)); }

/// What llama.cpp has to multiply cos and sin with, in addition to YaRN's usual factor.
double attention_factor_of(const ModelConfig& model)
{
    const double whole =
        kernels::rope_frequencies({model.rope_theta, model.rope_scaling}, rotary_dim(model) / 2, model.seq)
            .attention_factor;
    return model.rope_scaling.kind == RopeKind::yarn ? whole / (0.1 * std::log(model.rope_scaling.factor) + 1)
                                                     : whole;
}

/// Throws for options that the architecture does not have.
struct Requirements {
    const ModelConfig& model;
    const GgufArchitecture& architecture;

    template <class Value>
    void need(bool holds, const char* key, const Value& value, const std::string& reason) const
    {
        if (!holds)
            throw UserError({str("model.", key), str("is ", value),
                             str("llama.cpp's architecture ", architecture.name, " ", reason),
                             "export a folder for transformers (a name without .gguf) instead"});
    }

    void of_blocks() const
    {
        using Biases = GgufArchitecture::Biases;
        const ModelConfig& m = model;
        const GgufArchitecture& a = architecture;
        for (const auto& [key, value] : {std::pair{"qkv_bias", m.qkv_bias}, std::pair{"o_bias", m.o_bias},
                                         std::pair{"ffn_bias", m.ffn_bias}})
            need(a.biases == Biases::any || value == (a.biases == Biases::all), key, value ? "true" : "false",
                 value ? "has no such biases" : "always has biases");
        need(a.free_heads || m.heads * m.head_dim == m.dim, "head_dim", m.head_dim,
             str("computes with dim / heads = ", m.dim / m.heads));
        const bool gelu = m.activation == Activation::gelu || m.activation == Activation::gelu_tanh;
        need(a.gelu ? gelu : m.activation == Activation::silu, "activation", name_of(m.activation),
             a.gelu ? "computes with gelu" : "computes with silu");
        const i64 scaled_dim = m.layers == a.layers_of_27b ? m.dim / m.heads : m.head_dim;
        const double scale = m.attention_scale > 0 ? m.attention_scale : usual_scale(m.head_dim);
        need(a.multipliers || std::abs(scale / usual_scale(scaled_dim) - 1) < 1e-6, "attention_scale", scale,
             str("computes with 1 / sqrt(", scaled_dim, ")"));
        const bool has_caps = std::string_view(a.name) == "gemma2";
        need(has_caps == (m.attention_cap > 0), "attention_cap", m.attention_cap,
             has_caps ? "always has a cap" : "has no cap");
        need(has_caps == (m.logit_cap > 0), "logit_cap", m.logit_cap,
             has_caps ? "always has a cap" : "has no cap");
        need(!a.gemma || m.tied_embeddings, "tied_embeddings", "false", "has no head of its own");
    }

    void of_experts() const
    {
        const ModelConfig& m = model;
        const GgufArchitecture& a = architecture;
        need(!a.own_keys || m.kv_heads == m.heads, "kv_heads", m.kv_heads, "has as many as heads");
        need(a.dense || m.experts > 0, "experts", m.experts, "always has experts");
        if (m.experts == 0)
            return;
        need(m.dense_layers == 0, "dense_layers", m.dense_layers, "has experts in all layers");
        need(m.router_normalised == a.normalised, "router_normalised", m.router_normalised ? "true" : "false",
             a.normalised ? "divides the weights of experts by their sum"
                          : "does not divide the weights of experts");
    }

    void of_layers() const
    {
        const ModelConfig& m = model;
        const GgufArchitecture& a = architecture;
        if (std::string_view(a.name) == "smollm3")
            for (i64 layer = 0; layer < m.layers; ++layer)
                need(rotates(m, layer) == ((layer + 1) % smollm3_interval != 0), "rotary_pattern",
                     str(rotates(m, layer) ? "1" : "0", " in layer ", layer),
                     "rotates queries and keys in three layers of four");
        if (!any_slides(m))
            return need(!a.gemma, "window", m.window, "always has sliding layers");
        if (a.period == 0) // the window may be as long as the sequences: then all layers are full
            return need(m.window >= m.seq, "window", m.window,
                        str("has no sliding layers, and model.seq is ", m.seq));
        need(period_of_layers(m, a.period) > 0, "layer_pattern", "in another order",
             "repeats sliding layers and then one full layer");
    }

    void of_rotation(bool per_kind) const
    {
        const ModelConfig& m = model;
        const GgufArchitecture& a = architecture;
        const RopeScaling& s = m.rope_scaling;
        const bool local = per_kind && any_slides(m);
        need(!local || m.local_rope_theta == 0 || m.local_rope_theta == m.rope_theta ||
                 std::string_view(a.name) == "gemma3",
             "local_rope_theta", m.local_rope_theta, "has one rope_theta for all layers");
        if (s.kind == RopeKind::none)
            return;
        const auto of_scaling = [&](bool holds, const char* part, const std::string& reason) {
            need(holds, "rope_scaling", str("of kind \"", name_of(s.kind), "\"", part), reason);
        };
        of_scaling(s.kind != RopeKind::dynamic, "", "has no such scaling");
        of_scaling(a.frequency_factors || s.kind == RopeKind::linear || s.kind == RopeKind::yarn, "",
                   "reads no factors of frequencies");
        of_scaling(s.kind != RopeKind::yarn || s.truncate, ", without truncate", "truncates");
        need(!local || !m.scale_local, "scale_local", "true", "scales the frequencies of full layers only");
        of_scaling(!local || std::abs(attention_factor_of(m) - 1) < 1e-6, " and an attention_factor",
                   "would apply it in sliding layers, too");
    }
};

} // namespace

const GgufArchitecture& gguf_architecture_of(const ModelConfig& model, const Architecture& of)
{
    const auto at = std::ranges::find_if(gguf_architectures, [&](const GgufArchitecture& each) {
        return std::ranges::find(each.hugging_face, of.name) != each.hugging_face.end();
    });
    if (at == gguf_architectures.end())
        throw UserError({"model.family", str("is ", name_of(model.family)),
                         str("llama.cpp's architecture of ", of.name, " is not supported"),
                         "export a folder for transformers (a name without .gguf) instead"});
    const Requirements requirements{model, *at};
    requirements.of_blocks();
    requirements.of_experts();
    requirements.of_layers();
    if (model.positions == Positions::rotary)
        requirements.of_rotation(of.per_kind);
    return *at;
}

void add_model_keys(GgufKeys& to, const ModelConfig& m, const GgufArchitecture& a, i64 positions)
{
    const auto key = [&](const char* name) { return str(a.name, ".", name); };
    const bool slides_here = any_slides(m) && a.period > 0;
    if (any_slides(m) && !slides_here)
        positions = std::min(positions, m.window); // beyond, llama.cpp would compute something else
    to.add_text("general.architecture", a.name);
    to.add_u32(key("vocab_size"), m.vocab);
    to.add_u32(key("context_length"), positions);
    to.add_u32(key("embedding_length"), m.dim);
    to.add_u32(key("block_count"), m.layers);
    to.add_u32(key("feed_forward_length"), m.experts > 0 && m.dense_layers == 0 ? m.expert_dim : m.ffn_dim);
    if (m.experts > 0) {
        to.add_u32(key("expert_count"), m.experts);
        to.add_u32(key("expert_used_count"), m.expert_slots);
        to.add_u32(key("expert_feed_forward_length"), m.expert_dim);
    }
    to.add_u32(key("attention.head_count"), m.heads);
    to.add_u32(key("attention.head_count_kv"), m.kv_heads);
    to.add_u32(key("attention.key_length"), m.head_dim);
    to.add_u32(key("attention.value_length"), m.head_dim);
    to.add_f32(
        key(m.norm == NormKind::rms ? "attention.layer_norm_rms_epsilon" : "attention.layer_norm_epsilon"),
        m.norm_eps);
    if (std::string_view(a.name) == "gptneox")
        to.add_flag(key("use_parallel_residual"), m.placement == Placement::parallel);
    if (m.attention_cap > 0)
        to.add_f32(key("attn_logit_softcapping"), m.attention_cap);
    if (m.logit_cap > 0)
        to.add_f32(key("final_logit_softcapping"), m.logit_cap);
    if (a.multipliers) {
        to.add_f32(key("attention.scale"),
                   m.attention_scale > 0 ? m.attention_scale : usual_scale(m.head_dim));
        to.add_f32(key("embedding_scale"),
                   m.embedding_scale > 0 ? m.embedding_scale : std::sqrt(static_cast<double>(m.dim)));
        to.add_f32(key("residual_scale"), m.residual_scale);
        to.add_f32(key("logit_scale"), m.logit_divisor);
    }
    if (slides_here) {
        to.add_u32(key("attention.sliding_window"), m.window);
        to.add_u32(key("attention.sliding_window_pattern"), period_of_layers(m, a.period));
    }
    if (m.positions != Positions::rotary)
        return;
    to.add_u32(key("rope.dimension_count"), rotary_dim(m));
    to.add_f32(key("rope.freq_base"), m.rope_theta);
    if (slides_here)
        to.add_f32(key("rope.freq_base_swa"), m.local_rope_theta > 0 ? m.local_rope_theta : m.rope_theta);
    const RopeScaling& s = m.rope_scaling;
    if (s.kind == RopeKind::none || s.kind == RopeKind::llama3)
        return; // llama3: frequency_factors() has all of it
    to.add_text(key("rope.scaling.type"), name_of(s.kind));
    if (s.kind != RopeKind::longrope)
        to.add_f32(key("rope.scaling.factor"), s.factor);
    if (s.kind == RopeKind::linear)
        return;
    to.add_u32(key("rope.scaling.original_context_length"), s.original_seq);
    to.add_f32(key("rope.scaling.attn_factor"), attention_factor_of(m));
    if (s.kind == RopeKind::yarn) {
        to.add_f32(key("rope.scaling.yarn_beta_fast"), s.beta_fast);
        to.add_f32(key("rope.scaling.yarn_beta_slow"), s.beta_slow);
    }
}

std::vector<std::pair<std::string, std::vector<float>>> frequency_factors(const ModelConfig& model)
{
    const RopeScaling& s = model.rope_scaling;
    if (model.positions != Positions::rotary)
        return {};
    if (s.kind == RopeKind::longrope)
        return {{"rope_factors_long.weight", {s.long_factors.begin(), s.long_factors.end()}},
                {"rope_factors_short.weight", {s.short_factors.begin(), s.short_factors.end()}}};
    if (s.kind != RopeKind::llama3)
        return {};
    RopeAngles angles{model.rope_theta, s};
    const i64 pairs = rotary_dim(model) / 2;
    const std::vector<double> scaled = kernels::rope_frequencies(angles, pairs, model.seq).frequencies;
    angles.scaling = {};
    const std::vector<double> plain = kernels::rope_frequencies(angles, pairs, model.seq).frequencies;
    std::vector<float> factors;
    for (std::size_t i = 0; i < plain.size(); ++i)
        factors.push_back(static_cast<float>(plain[i] / scaled[i]));
    return {{"rope_freqs.weight", factors}};
}

} // namespace trivium
