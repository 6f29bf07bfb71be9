#include "io/hugging_face/config_parts.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

using Json = nlohmann::json;

namespace {

constexpr const char *parameters_key = "rope_parameters", *scaling_key = "rope_scaling",
                     *original_key = "original_max_position_embeddings", *part_key = "partial_rotary_factor",
                     *full_key = "full_attention", *sliding_key = "sliding_attention";

/// Keys of rope_parameters and rope_scaling. Those of another type than rope_type are not read.
constexpr std::array rope_keys{"rope_theta",       "rope_type",    "type",           part_key,
                               "factor",           original_key,   "beta_fast",      "beta_slow",
                               "attention_factor", "short_factor", "long_factor",    "low_freq_factor",
                               "high_freq_factor", "mscale",       "mscale_all_dim", "truncate"};

const Json& no_defaults()
{
    static const Json empty = Json::object();
    return empty;
}

RopeKind kind_called(const ConfigKeys& rope, const ClassKeys& of)
{
    std::string type = rope.text("rope_type");
    if (type.empty())
        type = rope.text("type");
    if (type.empty() || type == "default")
        return RopeKind::none;
    const bool is_phi3 = of.has(original_key);
    if (is_phi3 && (type == "su" || type == "yarn")) // as it was called at first
        type = "longrope";
    std::vector<std::string> supported{"default"};
    for (std::size_t i = 1; i < names_of_enum<RopeKind>.size(); ++i) {
        const auto kind = static_cast<RopeKind>(i);
        if (is_phi3 && kind != RopeKind::longrope)
            continue;
        if (type == name_of(kind))
            return kind;
        supported.emplace_back(name_of(kind));
    }
    rope.unsupported("its rotary embeddings are scaled by the type " + in_quotes(type),
                     "supported: " + one_of(supported));
}

/// `keys`: of the whole file. `rope`: of rope_parameters, of one of its kinds of layers, or of rope_scaling.
RopeScaling read_scaling(const ConfigKeys& keys, const ConfigKeys& rope, const ClassKeys& of, i64 seq)
{
    for (const auto& [key, value] : rope.json.items())
        if (std::find(rope_keys.begin(), rope_keys.end(), key) == rope_keys.end() && !value.is_null())
            rope.unsupported(str("its rotary embeddings have the key ", in_quotes(key), " = ", shown(value)),
                             "Trivium does not know it");
    RopeScaling s;
    s.kind = kind_called(rope, of);
    if (s.kind == RopeKind::none)
        return s;
    const auto required = [&](const char* key) {
        if (!rope.find(key))
            rope.refuse(str("has no ", key), str("rotary scaling of type ", name_of(s.kind), " needs it"));
        return rope.positive(key);
    };
    const bool whole_factor = s.kind == RopeKind::yarn || s.kind == RopeKind::longrope;
    const bool scales_latents = of.has("kv_lora_rank"); // mscale_all_dim, by scale_of_attention()
    if (s.kind == RopeKind::dynamic) {
        s.original_seq = seq;
    } else if (s.kind != RopeKind::linear) {
        s.original_seq = keys.whole(original_key, rope.whole(original_key, seq));
        if (s.original_seq == 0)
            keys.refuse(str("has ", original_key, " = 0"));
    }
    if (whole_factor && !rope.find("factor"))
        s.factor = std::max(1.0, static_cast<double>(seq) / static_cast<double>(s.original_seq));
    else
        s.factor = required("factor");
    if (s.kind == RopeKind::llama3) {
        s.low_freq_factor = required("low_freq_factor");
        s.high_freq_factor = required("high_freq_factor");
    }
    if (whole_factor)
        s.attention_factor = rope.positive("attention_factor", 0);
    if (s.kind == RopeKind::yarn) {
        s.beta_fast = rope.positive("beta_fast", s.beta_fast);
        s.beta_slow = rope.positive("beta_slow", s.beta_slow);
        s.truncate = rope.flag("truncate", true);
        if (of.architecture.per_kind && !s.truncate)
            rope.unsupported("its rotary embeddings have truncate = false",
                             "transformers does not read it in this class");
        const double mscale = rope.number("mscale", 0), all_dim = rope.number("mscale_all_dim", 0);
        const bool both = mscale != 0 && all_dim != 0; // transformers reads both or none
        if (both)
            s.mscale = rope.positive("mscale");
        if (both || (all_dim != 0 && scales_latents)) // but not for this scale
            s.mscale_all_dim = rope.positive("mscale_all_dim");
    } else if (scales_latents && rope.number("mscale_all_dim", 0) != 0) {
        rope.unsupported(str("its rotary embeddings have mscale_all_dim = ", rope.number("mscale_all_dim")),
                         str("Trivium knows it with the type yarn, here it is ", name_of(s.kind)));
    }
    if (s.kind == RopeKind::longrope) {
        s.short_factors = rope.numbers("short_factor");
        s.long_factors = rope.numbers("long_factor");
    }
    return s;
}

/// Some versions of transformers 4 wrote both names of GPT-NeoX.
double read_part(const ConfigKeys& keys, const ConfigKeys& rope, const ClassKeys& of)
{
    const std::string name = of.name(part_key);
    const double part = rope.number(part_key, keys.number(name, 1));
    const double other = name == part_key && of.has(part_key) ? part : keys.number(part_key, part);
    if (part != other || (part != 1 && !of.has(part_key)))
        rope.unsupported(str("its ", part_key, " is ", part != 1 ? part : other),
                         of.has(part_key) ? str(name, " is ", part) : "whole heads rotate in its class");
    return part;
}

/// Rotary embeddings that are the same in all layers.
void read_flat(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model)
{
    const ConfigKeys stated{keys.json, no_defaults(), keys.place};
    const Json* object = &stated.object(scaling_key);
    if (object->empty())
        object = &stated.object(parameters_key);
    if (object->empty() && !keys.json.contains(scaling_key))
        object = &keys.object(scaling_key); // the class's
    const ConfigKeys rope{*object, no_defaults(), keys.place};
    const std::string theta = of.name("rope_theta");
    model.rope_theta = rope.number("rope_theta", keys.number(theta));
    if (theta != "rope_theta" && keys.number("rope_theta", model.rope_theta) != model.rope_theta)
        keys.refuse(str("has rope_theta = ", keys.number("rope_theta")),
                    str(theta, " is ", model.rope_theta));
    model.rotary_part = read_part(keys, rope, of);
    model.rope_scaling = read_scaling(keys, rope, of, model.seq);
    model.local_rope_theta = 0;
    model.scale_local = true;
}

/// Those of full and of sliding layers. transformers 4 scales those of full layers alone.
void read_per_kind(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model)
{
    const ConfigKeys both{keys.object(parameters_key), no_defaults(), keys.place};
    for (const auto& [key, value] : both.json.items())
        if (key != full_key && key != sliding_key)
            keys.unsupported(str("its ", parameters_key, " have the key ", in_quotes(key)),
                             str("supported: \"", full_key, "\", \"", sliding_key, "\""));
    Json of_full = both.object(full_key);
    of_full.update(keys.object(scaling_key));
    const ConfigKeys full{of_full, no_defaults(), keys.place},
        sliding{both.object(sliding_key), no_defaults(), keys.place};
    const double theta = keys.number("rope_theta");
    model.rope_theta = full.number("rope_theta", theta);
    model.local_rope_theta = sliding.number(
        "rope_theta", of.has("rope_local_base_freq") ? keys.number("rope_local_base_freq") : theta);
    if (model.local_rope_theta == model.rope_theta)
        model.local_rope_theta = 0;
    model.rotary_part = read_part(keys, full, of);
    (void)read_part(keys, sliding, of);
    model.rope_scaling = read_scaling(keys, full, of, model.seq);
    const RopeScaling local = read_scaling(keys, sliding, of, model.seq);
    model.scale_local = local.kind != RopeKind::none;
    if (model.scale_local && local != model.rope_scaling)
        keys.unsupported(str("its ", sliding_key, " layers scale rotary embeddings differently"),
                         "supported: as in the other layers, or not at all");
}

/// rope_scaling of transformers 4.
Json scaling_json(const ModelConfig& m, const ClassKeys& of)
{
    const RopeScaling& s = m.rope_scaling;
    if (s.kind == RopeKind::none)
        return {};
    // Phi-3 has an own key for the original length, and in transformers 4 nothing but two lists here.
    const bool is_phi3 = of.has(original_key), is_longrope = s.kind == RopeKind::longrope;
    Json to{{is_phi3 ? "type" : "rope_type", name_of(s.kind)}};
    const double quotient = static_cast<double>(max_positions(m)) / static_cast<double>(s.original_seq);
    if (!is_phi3 || !is_longrope || s.factor != quotient)
        to["factor"] = s.factor;
    if (!is_phi3 && s.kind != RopeKind::linear && s.kind != RopeKind::dynamic)
        to[original_key] = s.original_seq;
    if (s.kind == RopeKind::llama3)
        to.update({{"low_freq_factor", s.low_freq_factor}, {"high_freq_factor", s.high_freq_factor}});
    if (s.attention_factor != 0)
        to["attention_factor"] = s.attention_factor;
    if (s.kind == RopeKind::yarn) {
        to.update({{"beta_fast", s.beta_fast}, {"beta_slow", s.beta_slow}});
        for (const auto& [key, value] :
             {std::pair{"mscale", s.mscale}, std::pair{"mscale_all_dim", s.mscale_all_dim}})
            if (value != 0)
                to[key] = value;
        if (!s.truncate)
            to["truncate"] = false;
    }
    if (is_longrope)
        to.update({{"short_factor", s.short_factors}, {"long_factor", s.long_factors}});
    return to;
}

} // namespace

i64 max_positions(const ModelConfig& m)
{
    const RopeScaling& s = m.rope_scaling;
    if (s.kind == RopeKind::dynamic)
        return s.original_seq;
    const double scaled = s.factor * static_cast<double>(s.original_seq);
    if (s.kind == RopeKind::longrope && scaled == std::floor(scaled) && scaled < 0x1p31)
        return static_cast<i64>(scaled);
    return m.seq;
}

void read_rope(const ConfigKeys& keys, const ClassKeys& of, ModelConfig& model)
{
    if (of.has("rope_theta"))
        of.architecture.per_kind ? read_per_kind(keys, of, model) : read_flat(keys, of, model);
}

void write_rope(const ModelConfig& m, const ClassKeys& of, nlohmann::ordered_json& to)
{
    if (!of.has("rope_theta"))
        return;
    const Json scaling = scaling_json(m, of);
    to[of.name("rope_theta")] = m.rope_theta;
    to[scaling_key] = scaling;
    if (of.has(part_key))
        to[of.name(part_key)] = m.rotary_part;
    if (of.has(original_key))
        to[original_key] = m.rope_scaling.kind == RopeKind::none ? m.seq : m.rope_scaling.original_seq;
    if (scaling.is_null() && of.has(scaling_key)) // transformers 5 would scale by the default
        to[parameters_key] = {{"rope_type", "default"}, {"rope_theta", m.rope_theta}};
    if (!of.architecture.per_kind)
        return;
    const double local = local_theta(m);
    if (of.has("rope_local_base_freq"))
        to["rope_local_base_freq"] = local;
    Json full = scaling.is_null() ? Json{{"rope_type", "default"}} : scaling,
         sliding = m.scale_local ? full : Json{{"rope_type", "default"}};
    full["rope_theta"] = m.rope_theta;
    sliding["rope_theta"] = local;
    to[parameters_key] = {{full_key, full}, {sliding_key, sliding}};
}

} // namespace trivium
