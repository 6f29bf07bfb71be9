// config.json of Hugging Face <-> [model].
#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <algorithm>

namespace trivium {

using Json = nlohmann::json;

namespace {

/// A key of config.json without an equivalent in [model], and the values that are supported.
struct Fixed {
    Family family;
    const char* key;
    std::vector<Json> allowed; ///< the first one is transformers' default
    bool exported = true;      ///< written to config.json; otherwise only read
};

const std::vector<Fixed>& fixed_values()
{
    static const std::vector<Fixed> values{
        {Family::llama, "hidden_act", {"silu", "swish"}},
        {Family::llama, "attention_bias", {false}},
        {Family::llama, "mlp_bias", {false}},
        {Family::llama, "partial_rotary_factor", {1.0}, false},
        {Family::gpt2, "activation_function", {"gelu_new", "gelu_pytorch_tanh"}},
        {Family::gpt2, "scale_attn_weights", {true}},
        {Family::gpt2, "scale_attn_by_inverse_layer_idx", {false}},
        {Family::gpt2, "add_cross_attention", {false}},
    };
    return values;
}

/// Reads the keys of an object in config.json. null counts as a missing key.
struct Keys {
    const Json& json;
    const std::string& place;

    [[noreturn]] void refuse(const std::string& problem, const std::string& reason = "") const
    {
        throw UserError({place, problem, reason, "get the file again from where it came from"});
    }
    /// Throws: `what` is valid, but no model that Trivium can train has it.
    [[noreturn]] void unsupported(const std::string& what, const std::string& reason) const
    {
        throw UserError({place, "this model cannot be imported: " + what, reason,
                         "docs/hugging-face.md lists what can be"});
    }

    const Json* find(const char* key) const
    {
        const auto at = json.find(key);
        return at == json.end() || at->is_null() ? nullptr : &*at;
    }
    i64 whole(const char* key, i64 otherwise) const
    {
        const Json* value = find(key);
        if (!value)
            return otherwise;
        if (!value->is_number_integer() || *value < 0 || *value > (i64{1} << 31) - 1)
            refuse(str("has ", key, " = ", shown(*value)), "it must be a whole number below 2^31");
        return value->get<i64>();
    }
    i64 whole(const char* key) const
    {
        if (!find(key))
            refuse(str("has no ", key));
        return whole(key, 0);
    }
    double number(const char* key, double otherwise) const
    {
        const Json* value = find(key);
        if (value && !value->is_number())
            refuse(str("has ", key, " = ", shown(*value)), "it must be a number");
        return value ? value->get<double>() : otherwise;
    }
    bool flag(const char* key, bool otherwise) const
    {
        const Json* value = find(key);
        if (value && !value->is_boolean())
            refuse(str("has ", key, " = ", shown(*value)), "it must be true or false");
        return value ? value->get<bool>() : otherwise;
    }
    std::string text(const char* key) const
    {
        const Json* value = find(key);
        if (value && !value->is_string())
            refuse(str("has ", key, " = ", shown(*value)), "it must be text");
        return value ? value->get<std::string>() : "";
    }
    Keys object(const char* key) const
    {
        const Json* value = find(key);
        static const Json empty = Json::object();
        if (value && !value->is_object())
            refuse(str("has ", key, " = ", shown(*value)), "it must be an object");
        return {value ? *value : empty, place};
    }
};

/// `"silu", "swish"`.
std::string list_of(const std::vector<Json>& values)
{
    std::string list;
    for (const Json& value : values)
        list += (list.empty() ? "" : ", ") + shown(value);
    return list;
}

/// The supported architectures. Mistral is a Llama that may have an attention window.
enum class Architecture { llama, mistral, gpt2 };

Architecture kind_of(const Keys& keys)
{
    std::string name = keys.text("model_type");
    if (const Json* architectures = keys.find("architectures")) {
        if (!architectures->is_array() || architectures->size() != 1 || !(*architectures)[0].is_string())
            keys.refuse("has architectures = " + shown(*architectures), "it must be a list of one name");
        name = (*architectures)[0].get<std::string>();
    }
    if (name == "LlamaForCausalLM" || name == "llama")
        return Architecture::llama;
    if (name == "MistralForCausalLM" || name == "mistral")
        return Architecture::mistral;
    if (name == "GPT2LMHeadModel" || name == "gpt2")
        return Architecture::gpt2;
    keys.unsupported(str("its architecture is ", in_quotes(name)),
                     "supported: LlamaForCausalLM, MistralForCausalLM, GPT2LMHeadModel");
}

/// Reads "rope_parameters" (transformers 5) or "rope_theta" and "rope_scaling" (before).
void read_rope(const Keys& keys, ModelConfig& model)
{
    const Keys rope = keys.object(keys.find("rope_parameters") ? "rope_parameters" : "rope_scaling");
    model.rope_theta = rope.number("rope_theta", keys.number("rope_theta", 10000));
    if (rope.number("partial_rotary_factor", 1) != 1)
        rope.unsupported("its partial_rotary_factor is not 1", "");
    std::string type = rope.text("rope_type");
    if (type.empty())
        type = rope.text("type");
    if (type == "llama3") {
        for (const char* key :
             {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
            if (!rope.find(key))
                rope.refuse(str("has no ", key), "rotary scaling of type llama3 needs it");
        model.rope_scaling = llama3_scaling(rope.number("factor", 0), rope.number("low_freq_factor", 0),
                                            rope.number("high_freq_factor", 0),
                                            rope.whole("original_max_position_embeddings"));
    } else if (!type.empty() && type != "default") {
        rope.unsupported("its rotary embeddings are scaled by the type " + in_quotes(type),
                         "supported: default, llama3");
    }
}

/// transformers' defaults for keys that config.json may lack.
struct LlamaDefaults {
    i64 kv_heads; ///< 0: as many as heads
    i64 seq;
};

void read_llama(const Keys& keys, ModelConfig& model, const LlamaDefaults& otherwise)
{
    model.layers = keys.whole("num_hidden_layers");
    model.dim = keys.whole("hidden_size");
    model.heads = keys.whole("num_attention_heads");
    model.kv_heads =
        keys.whole("num_key_value_heads", otherwise.kv_heads > 0 ? otherwise.kv_heads : model.heads);
    model.ffn_dim = keys.whole("intermediate_size");
    model.seq = keys.whole("max_position_embeddings", otherwise.seq);
    model.norm_eps = keys.number("rms_norm_eps", 1e-6);
    model.tied_embeddings = keys.flag("tie_word_embeddings", false);
    read_rope(keys, model);
}

void read_gpt2(const Keys& keys, ModelConfig& model)
{
    model.layers = keys.whole("n_layer");
    model.dim = keys.whole("n_embd");
    model.heads = keys.whole("n_head");
    model.kv_heads = model.heads;
    model.ffn_dim = keys.whole("n_inner", 4 * model.dim);
    model.seq = keys.whole("n_positions", 1024);
    model.norm_eps = keys.number("layer_norm_epsilon", 1e-5);
    model.tied_embeddings = keys.flag("tie_word_embeddings", true);
}

} // namespace

HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& place)
{
    const Json json = parse_strict_json(text, place);
    const Keys keys{json, place};
    if (!json.is_object())
        keys.refuse("is not a JSON object");
    HuggingFaceConfig result;
    ModelConfig& model = result.model;
    const Architecture kind = kind_of(keys);
    set_family(model, kind == Architecture::gpt2 ? Family::gpt2 : Family::llama);
    if (keys.find("quantization_config"))
        keys.unsupported("its weights are quantised", "quantization_config is there");
    for (const Fixed& fixed : fixed_values())
        if (const Json* value = fixed.family == model.family ? keys.find(fixed.key) : nullptr)
            if (std::find(fixed.allowed.begin(), fixed.allowed.end(), *value) == fixed.allowed.end())
                keys.unsupported(str("its ", fixed.key, " is ", shown(*value)),
                                 "supported: " + list_of(fixed.allowed));
    model.vocab = keys.whole("vocab_size");
    if (kind == Architecture::gpt2)
        read_gpt2(keys, model);
    else
        read_llama(keys, model,
                   kind == Architecture::mistral ? LlamaDefaults{8, 131072} : LlamaDefaults{0, 2048});
    if (kind == Architecture::mistral) {
        result.window =
            json.contains("sliding_window") ? keys.whole("sliding_window", 0) : 4096; // null: none
        if (result.window == 0 && keys.find("sliding_window"))
            keys.refuse("has sliding_window = 0");
    }
    try {
        if (model.kv_heads == 0 || model.ffn_dim == 0) // in [model], 0 means a default
            keys.refuse("has a size of 0");
        resolve(model);
        validate(model);
    } catch (const UserError& error) {
        throw UserError({place, "does not describe a model that can be trained", error.what(),
                         "docs/hugging-face.md lists what can be imported"});
    }
    if (const i64 head_dim = keys.whole("head_dim", model.head_dim); head_dim != model.head_dim)
        keys.unsupported(str("its head_dim is ", head_dim),
                         str("hidden_size / num_attention_heads is ", model.head_dim));
    return result;
}

std::string print_hugging_face_config(const ModelConfig& m, const std::string& type, i64 eos)
{
    nlohmann::ordered_json json;
    const bool is_llama = m.family == Family::llama;
    json["architectures"] = {is_llama ? "LlamaForCausalLM" : "GPT2LMHeadModel"};
    json["model_type"] = is_llama ? "llama" : "gpt2";
    json["vocab_size"] = m.vocab;
    if (is_llama) {
        json.update({{"hidden_size", m.dim},
                     {"intermediate_size", m.ffn_dim},
                     {"num_hidden_layers", m.layers},
                     {"num_attention_heads", m.heads},
                     {"num_key_value_heads", m.kv_heads},
                     {"head_dim", m.head_dim},
                     {"max_position_embeddings", m.seq},
                     {"rms_norm_eps", m.norm_eps},
                     {"rope_theta", m.rope_theta}});
        json["rope_scaling"] = nullptr;
        if (const RopeScaling& s = m.rope_scaling; s.factor != 1)
            json["rope_scaling"] = {{"rope_type", "llama3"},
                                    {"factor", s.factor},
                                    {"low_freq_factor", s.low_freq_factor},
                                    {"high_freq_factor", s.high_freq_factor},
                                    {"original_max_position_embeddings", s.original_seq}};
    } else {
        json.update({{"n_embd", m.dim},
                     {"n_inner", m.ffn_dim},
                     {"n_layer", m.layers},
                     {"n_head", m.heads},
                     {"n_positions", m.seq},
                     {"layer_norm_epsilon", m.norm_eps},
                     {"resid_pdrop", 0.0},
                     {"embd_pdrop", 0.0},
                     {"attn_pdrop", 0.0}});
    }
    for (const Fixed& fixed : fixed_values())
        if (fixed.family == m.family && fixed.exported)
            json[fixed.key] = fixed.allowed[0];
    json["tie_word_embeddings"] = m.tied_embeddings;
    // Without these keys, transformers uses its defaults, which are ids of another tokenizer.
    json["bos_token_id"] = json["eos_token_id"] = eos < 0 ? Json() : Json(eos);
    json["torch_dtype"] = type;
    return json.dump(2) + "\n";
}

} // namespace trivium
