// What config.json of a class cannot say of a model.
#include "base/check.hpp"
#include "io/files/config_file.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Without the keys of other kinds.
RopeScaling essence_of(const RopeScaling& s)
{
    RopeScaling e;
    e.kind = s.kind;
    if (s.kind == RopeKind::none)
        return e;
    e.factor = s.factor;
    if (s.kind != RopeKind::linear)
        e.original_seq = s.original_seq;
    if (s.kind == RopeKind::llama3) {
        e.low_freq_factor = s.low_freq_factor;
        e.high_freq_factor = s.high_freq_factor;
    }
    if (s.kind == RopeKind::yarn) {
        e = s;
        e.low_freq_factor = RopeScaling{}.low_freq_factor;
        e.high_freq_factor = RopeScaling{}.high_freq_factor;
    }
    if (s.kind == RopeKind::longrope) {
        e.attention_factor = s.attention_factor;
        e.short_factors = s.short_factors;
        e.long_factors = s.long_factors;
    }
    return e;
}

/// Without experts, their other keys have no meaning.
void set_experts_of(ModelConfig& to, const ModelConfig& from)
{
    to.expert_slots = from.expert_slots;
    to.expert_dim = from.expert_dim;
    to.shared_dim = from.shared_dim;
    to.dense_layers = from.dense_layers;
    to.router_bias = from.router_bias;
    to.router_scores = from.router_scores;
    to.router_normalised = from.router_normalised;
    to.router_scale = from.router_scale;
    to.router_groups = from.router_groups;
    to.router_top_groups = from.router_top_groups;
    to.router_group_score = from.router_group_score;
    to.balance_bias = from.balance_bias;
    to.expert_capacity = from.expert_capacity;
}

/// The model without what its other keys hide, so that two models are equal if and only if they compute the
/// same, up to rounding.
ModelConfig essence_of(ModelConfig m)
{
    resolve(m);
    m.preset.clear();
    m.family = Family::llama;
    m.rope_scaling = essence_of(m.rope_scaling);
    m.norm_rounding = {}; // a class has one, and rounding_key may name the other
    m.attention_scale = scale_of_attention(m);
    m.embedding_scale = scale_of_embeddings(m);
    if (m.experts == 0)
        set_experts_of(m, ModelConfig{});
    else if (m.dense_layers == 0)
        m.ffn_dim = m.expert_dim;
    if (m.router_groups == 1)
        m.router_group_score = {};
    m.v_head_dim = value_dim(m);
    m.rope_head_dim = has_latents(m) ? rotary_dim(m) : 0;
    m.latent_norm_eps = has_latents(m) ? latent_norm_eps(m) : 0;
    std::vector<LayerKind> kinds;
    std::vector<i64> rotations;
    for (i64 layer = 0; layer < m.layers; ++layer) {
        kinds.push_back(kind_of_layer(m, layer));
        rotations.push_back(rotates(m, layer) ? 1 : 0);
    }
    const auto has_kind = [&](LayerKind kind) {
        return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
    };
    m.window = has_kind(LayerKind::sliding) ? m.window : 0;
    m.chunk = has_kind(LayerKind::chunked) ? m.chunk : 0;
    if (m.positions == Positions::learned) {
        m.rope_theta = ModelConfig{}.rope_theta;
        m.rotary_layout = {};
    }
    const bool has_local = m.positions == Positions::rotary && has_kind(LayerKind::sliding);
    m.local_rope_theta = has_local ? local_theta(m) : 0;
    m.scale_local = has_local && m.rope_scaling.kind != RopeKind::none && m.scale_local;
    m.layer_pattern = std::move(kinds);
    m.rotary_pattern = std::move(rotations);
    return m;
}

} // namespace

ModelDifference difference_of_models(const ModelConfig& a, const ModelConfig& b)
{
    const auto values = [](const ModelConfig& of) {
        RunConfig run;
        run.model = of;
        return values_by_key(to_toml(run, {"model"}));
    };
    const auto of_a = values(essence_of(a)), of_b = values(essence_of(b));
    const bool whole_table = a.positions == Positions::learned; // with seq vectors
    for (const auto& [key, value] : of_a)
        if (const KeyKind kind = kind_of_key(key);
            of_b.at(key) != value &&
            (kind == KeyKind::forward || kind == KeyKind::shape || (whole_table && key == "model.seq")))
            return {key, values(a).at(key), values(b).at(key)};
    return {};
}

namespace {

/// What keeps config.json of `architecture` from describing the model; an empty key: nothing.
ModelDifference loss_in(const Architecture& architecture, const ModelConfig& model)
{
    if (architecture.whole_heads && model.dim % model.heads != 0)
        return {"model.heads", std::to_string(model.heads), str("a divisor of model.dim = ", model.dim)};
    try {
        const std::string text = print_hugging_face_config(model, architecture, "float32");
        return difference_of_models(model, parse_hugging_face_config(text, "config.json").model);
    } catch (const UserError& error) {
        return {"model", error.what(), "another model"};
    }
}

} // namespace

const Architecture& architecture_of(const ModelConfig& model, const Architecture* preferred)
{
    // First the class of the imported model, then that of the family; errors are about the first.
    std::vector<const Architecture*> candidates;
    for (const Architecture& architecture : architectures())
        candidates.push_back(&architecture);
    std::ranges::stable_partition(candidates,
                                  [&](const Architecture* a) { return a->family == model.family; });
    std::ranges::stable_partition(candidates, [&](const Architecture* a) { return a == preferred; });
    for (const Architecture* candidate : candidates)
        if (loss_in(*candidate, model).key.empty())
            return *candidate;
    const ModelDifference loss = loss_in(*candidates[0], model);
    throw UserError({loss.key, "is " + loss.a, str(candidates[0]->name, " computes with ", loss.b),
                     "only a model with that value can be exported"});
}

} // namespace trivium
