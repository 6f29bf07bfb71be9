#include "config/option_sets.hpp"

namespace trivium {

namespace {

/// Norms of results and over all heads, windows and full layers, YaRN in full layers, sinks; weights and
/// rates that scale with the width and the depth.
void set_post(ModelConfig& c)
{
    set_family(c, Family::olmo3);
    c.norm_rounding = NormRounding::before_weight;
    c.layer_pattern = {LayerKind::sliding, LayerKind::full};
    c.window = 3;
    c.rope_scaling = {.kind = RopeKind::yarn, .factor = 4, .original_seq = 16};
    c.attention_sinks = true;
    c.residual_scale = 0.5;
    c.base_dim = 12;
    c.base_layers = 4;
}

/// Norms around both parts and of each head, caps, factors of embeddings and logits, two rotary tables.
void set_sandwich(ModelConfig& c)
{
    const bool tied = c.tied_embeddings;
    set_family(c, Family::gemma3);
    c.tied_embeddings = tied;
    c.head_dim = 4;
    c.layer_pattern = {LayerKind::full, LayerKind::sliding};
    c.window = 4;
    c.rope_theta = 1000;
    c.local_rope_theta = 100;
    c.rope_scaling = {.kind = RopeKind::linear, .factor = 8};
    c.attention_scale = 0.3;
    c.attention_cap = 5;
    c.logit_divisor = 2;
    c.logit_cap = 10;
}

/// LayerNorms before parallel parts, biases, chunks, heads that rotate in part and layers that do not.
void set_parallel(ModelConfig& c)
{
    set_family(c, Family::neox);
    c.head_dim = 8;
    c.rotary_part = 0.5;
    c.rotary_layout = RotaryLayout::interleaved;
    c.rotary_pattern = {1, 1, 0};
    c.layer_pattern = {LayerKind::chunked, LayerKind::full};
    c.chunk = 3;
    c.activation = Activation::relu2;
}

/// Experts with biases and a shared one, each with the width of a dense block.
void set_experts(ModelConfig& c)
{
    set_family(c, Family::mistral);
    c.ffn_bias = true;
    c.experts = 6;
    c.expert_slots = 2;
    c.expert_dim = 0;
    c.shared_dim = 13;
    c.router_bias = true;
}

/// Sigmoids in groups, a bias that balances, a capacity, a first layer without experts, and gates.
void set_groups(ModelConfig& c)
{
    set_family(c, Family::olmo2);
    c.experts = 8;
    c.expert_slots = 3;
    c.expert_dim = 17;
    c.dense_layers = 1;
    c.router_scores = RouterScores::sigmoid;
    c.router_normalised = false;
    c.router_scale = 1.5;
    c.router_groups = 4;
    c.router_top_groups = 2;
    c.router_group_score = GroupScore::top2;
    c.balance_bias = true;
    c.expert_capacity = 1.25;
}

/// Latent vectors with biases, an own width of values, a scale that YaRN sets, windows and full layers.
void set_latent(ModelConfig& c)
{
    set_family(c, Family::mistral);
    c.rotary_layout = RotaryLayout::interleaved;
    c.q_latent = 6;
    c.kv_latent = 5;
    c.head_dim = 6;
    c.rope_head_dim = 2;
    c.v_head_dim = 3;
    c.latent_norm_eps = 0.2;
    c.qkv_bias = c.o_bias = true;
    c.layer_pattern = {LayerKind::full, LayerKind::sliding};
    c.window = 4;
    c.rope_scaling = {
        .kind = RopeKind::yarn, .factor = 4, .original_seq = 16, .mscale = 0.7, .mscale_all_dim = 1.1};
}

} // namespace

void set_options(ModelConfig& c, OptionSet set)
{
    switch (set) {
    case OptionSet::llama: return set_family(c, Family::llama);
    case OptionSet::gpt2: return set_family(c, Family::gpt2);
    case OptionSet::post: set_post(c); break;
    case OptionSet::sandwich: set_sandwich(c); break;
    case OptionSet::parallel: set_parallel(c); break;
    case OptionSet::experts: set_experts(c); break;
    case OptionSet::groups: set_groups(c); break;
    case OptionSet::latent: set_latent(c); break;
    }
    c.norm_eps = 0.1; // tiny models have rows near 0, whose norms would amplify rounding errors
}

} // namespace trivium
