#include "config/model_config.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

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

bool is_finite_from(double value, double least) { return value >= least && std::isfinite(value); }

void require_from_zero(double value, const char* key, const std::string& remedy)
{
    require_model(is_finite_from(value, 0), key, str("must be finite and at least 0, is ", value), remedy);
}

void require_positive(double value, const char* key, const std::string& remedy)
{
    require_model(value > 0 && std::isfinite(value), key, str("must be finite and positive, is ", value),
                  remedy);
}

void validate_sizes(const ModelConfig& c)
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
    require_model(c.head_dim > 0 || c.dim % c.heads == 0, "heads",
                  str(c.heads, " heads do not divide dim = ", c.dim),
                  "choose heads that divide model.dim, or set model.head_dim");
    positive("head_dim", c.head_dim, max_dim);
    require_model(c.heads * c.head_dim <= max_extent, "head_dim",
                  str("is too large: ", c.heads, " heads have ", c.heads * c.head_dim, " dimensions"),
                  str("set at most ", max_extent / c.heads));
    require_model(c.heads % c.kv_heads == 0, "kv_heads",
                  str(c.kv_heads, " key-value heads do not divide heads = ", c.heads),
                  "choose kv_heads that divide model.heads");
    require_model(c.v_head_dim >= 0 && c.v_head_dim <= max_extent / c.heads, "v_head_dim",
                  str("must be from 0 to ", max_extent / c.heads, ", is ", c.v_head_dim), "0 = head_dim");
}

void validate_latents(const ModelConfig& c)
{
    for (const auto& [key, width] : {std::pair{"q_latent", c.q_latent}, std::pair{"kv_latent", c.kv_latent}})
        require_model(width >= 0 && width <= max_dim, key, str("must be from 0 to ", max_dim, ", is ", width),
                      "0 is none");
    require_from_zero(c.latent_norm_eps, "latent_norm_eps", "0 stands for norm_eps");
    for (const auto& [key, set] :
         {std::pair{"q_latent", c.q_latent > 0}, std::pair{"rope_head_dim", c.rope_head_dim != 0}})
        require_model(has_latents(c) || !set, key, "is set, but kv_latent is 0",
                      "remove it, or set model.kv_latent");
    if (!has_latents(c))
        return;
    require_model(c.rope_head_dim >= 0 && c.rope_head_dim % 2 == 0, "rope_head_dim",
                  str("must be an even number of dimensions, is ", c.rope_head_dim),
                  "0 = a third of head_dim");
    const i64 rotary = rotary_dim(c);
    const bool in_part = rotary > 0 && rotary < c.head_dim;
    require_model(in_part, c.rope_head_dim != 0 ? "rope_head_dim" : "head_dim",
                  str("of a head of ", c.head_dim, " ", counted(rotary, "dimension"),
                      " would rotate, but some must and some must not"),
                  "set rope_head_dim to an even number below head_dim");
    require_model(c.rotary_part == 1, "rotary_part", "is set, but kv_latent is not 0",
                  "set rope_head_dim instead");
    require_model(c.qk_norm == QkNorm::none, "qk_norm", "is set, but kv_latent is not 0",
                  "set it to \"none\": the norms of latent vectors take its place");
}

void validate_scaling(const ModelConfig& c)
{
    const RopeScaling& s = c.rope_scaling;
    const auto require = [](bool holds, const std::string& problem, const std::string& remedy) {
        require_model(holds, "rope_scaling", problem, remedy);
    };
    require(is_finite_from(s.factor, 1), str("factor must be finite and at least 1, is ", s.factor),
            "Llama 3.1 uses 8");
    require(s.high_freq_factor > s.low_freq_factor && s.low_freq_factor > 0 &&
                std::isfinite(s.high_freq_factor),
            "high_freq_factor must be above low_freq_factor, and both positive", "Llama 3.1 uses 1 and 4");
    require(s.original_seq > 0 && s.original_seq <= max_vocab,
            str("original_seq must be from 1 to ", max_vocab, ", is ", s.original_seq),
            "Llama 3.1 uses 8192");
    require(s.beta_fast > s.beta_slow && s.beta_slow > 0 && std::isfinite(s.beta_fast),
            "beta_fast must be above beta_slow, and both positive", "32 and 1 are usual");
    require(is_finite_from(s.attention_factor, 0),
            str("attention_factor must be finite and at least 0, is ", s.attention_factor),
            "0 stands for the formula of the kind");
    require(is_finite_from(s.mscale, 0) && is_finite_from(s.mscale_all_dim, 0),
            "mscale and mscale_all_dim must be finite and at least 0", "0 leaves them out");
    const bool yarn = s.kind == RopeKind::yarn, longrope = s.kind == RopeKind::longrope;
    require(yarn || (s.mscale == 0 && s.mscale_all_dim == 0),
            str("mscale and mscale_all_dim are of kind \"yarn\", the kind is \"", name_of(s.kind), "\""),
            "remove them");
    require(
        yarn || longrope || s.attention_factor == 0,
        str("attention_factor is of kinds \"yarn\" and \"longrope\", the kind is \"", name_of(s.kind), "\""),
        "remove it");
    require(s.kind != RopeKind::dynamic || rotary_dim(c) > 2,
            "kind \"dynamic\" needs more than two dimensions that rotate", "raise head_dim or rotary_part");
    for (const auto& [name, factors] :
         {std::pair<const char*, const std::vector<double>*>{"short_factors", &s.short_factors},
          {"long_factors", &s.long_factors}}) {
        const auto count = static_cast<i64>(factors->size());
        require(longrope || count == 0,
                str(name, " is of kind \"longrope\", the kind is \"", name_of(s.kind), "\""), "remove it");
        require(!longrope || count == rotary_dim(c) / 2,
                str(name, " has ", counted(count, "number"), ", but ", rotary_dim(c) / 2,
                    " frequencies rotate (head_dim * rotary_part / 2)"),
                "write one number per frequency");
        for (const double factor : *factors)
            require(factor > 0 && std::isfinite(factor),
                    str("the numbers in ", name, " must be finite and positive, one is ", factor),
                    "they divide the frequencies");
    }
}

void validate_positions(const ModelConfig& c)
{
    if (c.positions == Positions::learned) {
        const auto rotary_only = [](bool unset, const char* key, const char* remedy) {
            require_model(unset, key, "is for rotary embeddings, the model has learned positions", remedy);
        };
        const char* const remove = "remove the key or set model.positions = \"rotary\"";
        rotary_only(c.rope_scaling == RopeScaling{}, "rope_scaling", remove);
        rotary_only(c.rotary_part == 1, "rotary_part", remove);
        rotary_only(c.rotary_pattern.empty(), "rotary_pattern", remove);
        rotary_only(c.local_rope_theta == 0, "local_rope_theta", remove);
        return;
    }
    require_model(c.rotary_part > 0 && c.rotary_part <= 1, "rotary_part",
                  str("must be above 0 and at most 1, is ", c.rotary_part), "1 rotates whole heads");
    const i64 rotary = rotary_dim(c); // of latents validate_latents() has checked it
    require_model(rotary > 0 && rotary % 2 == 0, c.rotary_part == 1 ? "heads" : "rotary_part",
                  str("rotary embeddings need an even number of dimensions, of a head of ", c.head_dim, " ",
                      rotary, rotary == 1 ? " rotates" : " rotate"),
                  c.rotary_part == 1 ? "choose model.heads so that dim / heads is even, or set model.head_dim"
                                     : "choose it so that head_dim * rotary_part is even");
    require_model(c.rope_theta > 1 && std::isfinite(c.rope_theta), "rope_theta",
                  str("must be finite and above 1, is ", c.rope_theta), "10000 or 500000 are usual");
    require_model(c.local_rope_theta == 0 || (c.local_rope_theta > 1 && std::isfinite(c.local_rope_theta)),
                  "local_rope_theta", str("must be 0 or finite and above 1, is ", c.local_rope_theta),
                  "0 stands for rope_theta");
    for (const i64 rotates : c.rotary_pattern)
        require_model(rotates == 0 || rotates == 1, "rotary_pattern",
                      str("has the number ", rotates, "; 1 is a layer with rotary embeddings, 0 one without"),
                      "write 0 or 1 for each layer");
    validate_scaling(c);
}

void validate_experts(const ModelConfig& c)
{
    const auto require_from = [](const char* key, i64 value, i64 least, i64 most, const std::string& remedy) {
        require_model(value >= least && value <= most, key,
                      str("must be from ", least, " to ", most, ", is ", value), remedy);
    };
    require_from("experts", c.experts, 0, max_dim, "0 makes the feed-forward blocks dense");
    if (c.experts == 0)
        return;
    require_from("expert_slots", c.expert_slots, 1, c.experts,
                 str("choose how many of the ", counted(c.experts, "expert"), " each token goes to"));
    require_from(
        "expert_dim", c.expert_dim, 1, max_extent / c.experts,
        str("the ", counted(c.experts, "expert"), " of a layer are at most ", max_extent, " wide together"));
    require_from("shared_dim", c.shared_dim, 0, max_extent, "0 is no shared expert");
    require_from("dense_layers", c.dense_layers, 0, c.layers - 1,
                 str("at least one of the ", counted(c.layers, "layer"),
                     " must have experts; set model.experts to 0 for none"));
    require_model(c.router_groups >= 1 && c.experts % c.router_groups == 0, "router_groups",
                  str(c.router_groups, " groups do not divide ", counted(c.experts, "expert")),
                  "choose a divisor of model.experts");
    require_from("router_top_groups", c.router_top_groups, 1, c.router_groups,
                 "choose how many of the model.router_groups a token chooses from");
    const i64 of_group = c.experts / c.router_groups, choice = c.router_top_groups * of_group;
    require_model(c.expert_slots <= choice, "expert_slots",
                  str("is ", c.expert_slots, ", but ", counted(c.router_top_groups, "group"), " of ",
                      counted(of_group, "expert"), " have ", choice),
                  "lower it, or raise model.router_top_groups");
    require_model(c.router_group_score == GroupScore::max || c.router_groups == 1 || of_group > 1,
                  "router_group_score", "adds the two largest scores of groups of one expert",
                  "set it to \"max\", or lower model.router_groups");
    require_positive(c.router_scale, "router_scale", "1 changes nothing, DeepSeek V3 uses 2.5");
    require_from_zero(c.expert_capacity, "expert_capacity", "0 drops nothing, 1.25 is usual otherwise");
}

void validate_attention(const ModelConfig& c)
{
    const auto check_extent = [&](const char* key, i64 extent, LayerKind kind) {
        require_model(extent >= 0 && extent <= max_extent, key,
                      str("must be from 0 to ", max_extent, ", is ", extent), "0 is none");
        const auto& pattern = c.layer_pattern;
        const bool used = pattern.empty() ? kind_of_layer(c, 0) == kind
                                          : std::find(pattern.begin(), pattern.end(), kind) != pattern.end();
        require_model(extent == 0 || used, key,
                      str("is ", extent, ", but no layer is ", name_of(kind),
                          pattern.empty() ? ": without model.layer_pattern all are sliding"
                                          : " in model.layer_pattern"),
                      str("set it to 0, or add \"", name_of(kind), "\" to model.layer_pattern"));
        require_model(extent > 0 || !used, "layer_pattern",
                      str("has ", name_of(kind), " layers, but model.", key, " is 0"),
                      str("set model.", key, " to a number of tokens"));
    };
    check_extent("window", c.window, LayerKind::sliding);
    check_extent("chunk", c.chunk, LayerKind::chunked);
    require_from_zero(c.attention_scale, "attention_scale", "0 stands for 1 / sqrt(head_dim) in most models");
    require_from_zero(c.attention_cap, "attention_cap", "0 is no cap, Gemma 2 uses 50");
}

} // namespace

void resolve(ModelConfig& c)
{
    if (c.is_program()) {
        c.seq = 1; // what is counted is samples
        return;
    }
    if (c.kv_heads == 0)
        c.kv_heads = c.heads;
    if (c.head_dim == 0 && c.heads > 0 && c.dim % c.heads == 0) // otherwise validate refuses heads
        c.head_dim = c.dim / c.heads;
    if (c.ffn_dim == 0 && c.dim > 0 && c.dim <= max_dim) // otherwise validate refuses dim
        c.ffn_dim = c.gated ? round_up(ceil_div(8 * c.dim, 3), 64) : 4 * c.dim;
    if (c.experts > 0 && c.expert_dim == 0)
        c.expert_dim = c.ffn_dim;
    const RopeKind kind = c.rope_scaling.kind;
    if (c.rope_scaling.factor == 1 && (kind == RopeKind::linear || kind == RopeKind::llama3))
        c.rope_scaling = {};
}

void validate(const ModelConfig& c)
{
    require_model(c.is_program() || c.file.empty(), "file",
                  str("is for model.family = \"graph\", the family is \"", name_of(c.family), "\""),
                  "remove it, or set model.family");
    require_model(c.is_program() || c.sizes.list.empty(), "sizes",
                  str("are for model.family = \"graph\", the family is \"", name_of(c.family), "\""),
                  "remove them, or set model.family");
    if (c.is_program()) {
        require_model(!c.file.empty(), "file", "is not set, but model.family is \"graph\"",
                      "name the file of the program");
        TRV_CHECK(c.program.blocks > 0, "the program of the model was not read");
        return;
    }
    validate_sizes(c);
    require_model(c.gated || !only_gated(c.activation), "activation",
                  str("is \"", name_of(c.activation), "\", a function of a gate and a value"),
                  "set model.gated = true, or another activation");
    require_positive(c.norm_eps, "norm_eps", "1e-5 is usual");
    require_model(!c.norm_offset || c.norm == NormKind::rms, "norm_offset",
                  "is for model.norm = \"rms\", the norm is \"layer\"", "set one of the two");
    validate_latents(c);
    validate_positions(c);
    validate_attention(c);
    validate_experts(c);
    require_from_zero(c.embedding_scale, "embedding_scale", "0 stands for sqrt(dim)");
    require_positive(c.residual_scale, "residual_scale", "1 changes nothing");
    require_positive(c.logit_divisor, "logit_divisor", "1 changes nothing");
    for (const auto& [key, base] : {std::pair{"base_dim", c.base_dim}, {"base_layers", c.base_layers}})
        require_model(base >= 0, key, str("must be at least 0, is ", base), "0 turns it off");
    require_from_zero(c.logit_cap, "logit_cap", "0 is no cap, Gemma 2 uses 30");
    require_model(c.dropout >= 0 && c.dropout < 1, "dropout",
                  str("must be from 0 to below 1, is ", c.dropout), "0.1 is usual, 0 turns it off");
}

LayerKind kind_of_layer(const ModelConfig& c, i64 layer)
{
    if (!c.layer_pattern.empty())
        return c.layer_pattern[static_cast<std::size_t>(layer) % c.layer_pattern.size()];
    return c.window > 0 ? LayerKind::sliding : c.chunk > 0 ? LayerKind::chunked : LayerKind::full;
}

bool rotates(const ModelConfig& c, i64 layer)
{
    const auto at = static_cast<std::size_t>(layer);
    return c.positions == Positions::rotary &&
           (c.rotary_pattern.empty() || c.rotary_pattern[at % c.rotary_pattern.size()] == 1);
}

i64 rotary_dim(const ModelConfig& c)
{
    if (has_latents(c))
        return c.rope_head_dim > 0 ? c.rope_head_dim : std::max<i64>(2, c.head_dim / 6 * 2);
    return static_cast<i64>(static_cast<double>(c.head_dim) * c.rotary_part);
}

i64 value_dim(const ModelConfig& c)
{
    return c.v_head_dim > 0 ? c.v_head_dim : has_latents(c) ? c.head_dim - rotary_dim(c) : c.head_dim;
}

double latent_norm_eps(const ModelConfig& c)
{
    return c.latent_norm_eps > 0 ? c.latent_norm_eps : c.norm_eps;
}

double local_theta(const ModelConfig& c)
{
    return c.local_rope_theta > 0 ? c.local_rope_theta : c.rope_theta;
}

double scale_of_attention(const ModelConfig& c)
{
    if (c.attention_scale > 0)
        return c.attention_scale;
    const RopeScaling& s = c.rope_scaling;
    const double scale = 1 / std::sqrt(static_cast<double>(c.head_dim));
    if (!has_latents(c) || s.kind != RopeKind::yarn || s.factor <= 1)
        return scale;
    const double longer = 0.1 * s.mscale_all_dim * std::log(s.factor) + 1; // DeepSeek V2: of all dimensions
    return scale * longer * longer;
}

double width_factor(const ModelConfig& c)
{
    return c.base_dim > 0 ? static_cast<double>(c.dim) / static_cast<double>(c.base_dim) : 1;
}

double depth_factor(const ModelConfig& c)
{
    return c.base_layers > 0 ? static_cast<double>(c.layers) / static_cast<double>(c.base_layers) : 1;
}

ModelConfig without_base(ModelConfig c)
{
    c.residual_scale /= depth_factor(c);
    c.logit_divisor *= width_factor(c);
    c.base_dim = c.base_layers = 0;
    return c;
}

double scale_of_embeddings(const ModelConfig& c)
{
    return c.embedding_scale > 0 ? c.embedding_scale : std::sqrt(static_cast<double>(c.dim));
}

} // namespace trivium
