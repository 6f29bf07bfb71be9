// The options of each family, as published: configuration_*.py and modeling_*.py of transformers.
#include "base/check.hpp"
#include "config/model_config.hpp"

namespace trivium {

namespace {

/// Attention with latent vectors, as in DeepSeek V2 and V3.
ModelConfig deepseek(ModelConfig c)
{
    c.norm_rounding = NormRounding::before_weight;
    c.norm_eps = c.latent_norm_eps = 1e-6;
    c.q_latent = 1536;
    c.kv_latent = 512;
    c.rotary_layout = RotaryLayout::interleaved;
    c.rope_theta = 1e4;
    return c;
}

/// Order: that of Family. What a row leaves out has its default.
const std::array<ModelConfig, names_of_enum<Family>.size()>& families()
{
    using enum LayerKind;
    constexpr auto before = NormRounding::before_weight, after = NormRounding::after_weight;
    static const std::array<ModelConfig, names_of_enum<Family>.size()> rows{
        // llama; rounded as Trivium's models are, more exactly than in transformers
        ModelConfig{},
        // gpt2
        ModelConfig{.norm = NormKind::layer,
                    .qkv_bias = true,
                    .o_bias = true,
                    .ffn_bias = true,
                    .positions = Positions::learned,
                    .activation = Activation::gelu_tanh,
                    .gated = false},
        // mistral
        ModelConfig{.norm_rounding = before, .rope_theta = 1e6},
        // qwen2
        ModelConfig{.norm_rounding = before, .norm_eps = 1e-6, .qkv_bias = true, .rope_theta = 1e6},
        // qwen3
        ModelConfig{.norm_rounding = before, .norm_eps = 1e-6, .qk_norm = QkNorm::head, .rope_theta = 1e6},
        // olmo2
        ModelConfig{
            .norm_rounding = after, .norm_eps = 1e-6, .placement = Placement::post, .qk_norm = QkNorm::width},
        // olmo3
        ModelConfig{.norm_rounding = after,
                    .norm_eps = 1e-6,
                    .placement = Placement::post,
                    .qk_norm = QkNorm::width,
                    .scale_local = false,
                    .layer_pattern = {sliding, sliding, sliding, full},
                    .window = 4096},
        // gemma2
        ModelConfig{.tied_embeddings = true,
                    .norm_rounding = after,
                    .norm_offset = true,
                    .norm_eps = 1e-6,
                    .placement = Placement::sandwich,
                    .rope_theta = 1e4,
                    .layer_pattern = {sliding, full},
                    .window = 4096,
                    .attention_cap = 50,
                    .embedding_scale = 0,
                    .logit_cap = 30,
                    .activation = Activation::gelu_tanh},
        // gemma3
        ModelConfig{.tied_embeddings = true,
                    .norm_rounding = after,
                    .norm_offset = true,
                    .norm_eps = 1e-6,
                    .placement = Placement::sandwich,
                    .qk_norm = QkNorm::head,
                    .rope_theta = 1e6,
                    .local_rope_theta = 1e4,
                    .scale_local = false,
                    .layer_pattern = {sliding, sliding, sliding, sliding, sliding, full},
                    .window = 1024,
                    .embedding_scale = 0,
                    .activation = Activation::gelu_tanh},
        // phi3
        ModelConfig{.norm_rounding = before, .rope_theta = 1e4},
        // neox
        ModelConfig{.norm = NormKind::layer,
                    .placement = Placement::parallel,
                    .qkv_bias = true,
                    .o_bias = true,
                    .ffn_bias = true,
                    .rotary_part = 0.25,
                    .rope_theta = 1e4,
                    .activation = Activation::gelu,
                    .gated = false},
        // starcoder2
        ModelConfig{.norm = NormKind::layer,
                    .qkv_bias = true,
                    .o_bias = true,
                    .ffn_bias = true,
                    .rope_theta = 1e6,
                    .window = 4096,
                    .activation = Activation::gelu_tanh,
                    .gated = false},
        // granite; its multipliers differ by size, these are those of 2B
        ModelConfig{.norm_rounding = before,
                    .rope_theta = 1e4,
                    .attention_scale = 1.0 / 64,
                    .embedding_scale = 12,
                    .residual_scale = 0.22,
                    .logit_divisor = 8},
        // smollm3
        ModelConfig{.tied_embeddings = true,
                    .norm_rounding = before,
                    .norm_eps = 1e-6,
                    .rope_theta = 5e6,
                    .rotary_pattern = {1, 1, 1, 0}},
        // mixtral
        ModelConfig{.norm_rounding = before, .rope_theta = 1e6, .experts = 8, .expert_slots = 2},
        // qwen3-moe
        ModelConfig{.norm_rounding = before,
                    .norm_eps = 1e-6,
                    .qk_norm = QkNorm::head,
                    .rope_theta = 1e6,
                    .experts = 128,
                    .expert_slots = 8},
        // olmoe
        ModelConfig{.norm_rounding = before,
                    .qk_norm = QkNorm::width,
                    .rope_theta = 1e4,
                    .experts = 64,
                    .expert_slots = 8,
                    .router_normalised = false},
        // gpt-oss
        ModelConfig{
            .norm_rounding = after,
            .qkv_bias = true,
            .o_bias = true,
            .ffn_bias = true,
            .rope_theta = 150000,
            .rope_scaling = {.kind = RopeKind::yarn, .factor = 32, .original_seq = 4096, .truncate = false},
            .layer_pattern = {sliding, full},
            .window = 128,
            .attention_sinks = true,
            .activation = Activation::clipped,
            .experts = 32,
            .expert_slots = 4,
            .router_bias = true},
        // deepseek2
        deepseek({.experts = 64, .expert_slots = 6, .router_normalised = false}),
        // deepseek3
        deepseek({.experts = 256,
                  .expert_slots = 8,
                  .router_scores = RouterScores::sigmoid,
                  .router_scale = 2.5,
                  .router_groups = 8,
                  .router_top_groups = 4,
                  .router_group_score = GroupScore::top2,
                  .balance_bias = true}),
        // graph
        ModelConfig{},
    };
    return rows;
}

} // namespace

const ModelConfig& options_of(Family family) { return families()[static_cast<std::size_t>(family)]; }

void set_family(ModelConfig& config, Family family)
{
    const ModelConfig shape = config;
    config = options_of(family);
    config.family = family;
    config.preset = shape.preset;
    config.layers = shape.layers;
    config.dim = shape.dim;
    config.heads = shape.heads;
    config.kv_heads = shape.kv_heads;
    config.head_dim = shape.head_dim;
    config.ffn_dim = shape.ffn_dim;
    config.vocab = shape.vocab;
    config.seq = shape.seq;
    config.tied_embeddings = config.tied_embeddings || shape.tied_embeddings;
    if (shape.experts > 0) {
        config.experts = shape.experts;
        config.expert_slots = shape.expert_slots;
        config.expert_dim = shape.expert_dim;
        config.shared_dim = shape.shared_dim;
        config.dense_layers = shape.dense_layers;
    }
}

} // namespace trivium
