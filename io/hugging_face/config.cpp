// config.json of Hugging Face <-> [model].
#include "base/check.hpp"
#include "io/files/strict_json.hpp"
#include "io/hugging_face/config_parts.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

namespace trivium {

using Json = nlohmann::json;

namespace {

/// Trivium's own key of config.json, which transformers keeps and ignores.
constexpr const char* rounding_key = "trivium_norm_rounding";

/// A key of config.json, by its name in LlamaConfig, and a key of [model].
struct Field {
    const char* key;
    std::function<void(const ConfigKeys&, const std::string& key, ModelConfig&)> read; ///< `key`: its name
    std::function<Json(const ModelConfig&, const Json& usual)> write; ///< `usual`: the class's default
    bool required = false; ///< all classes have it, and none may leave it out
};

template <class T>
Field plain(const char* key, T ModelConfig::*member, bool required = false)
{
    return {key,
            [member](const ConfigKeys& keys, const std::string& name, ModelConfig& m) {
                if constexpr (std::is_same_v<T, bool>)
                    m.*member = keys.flag(name);
                else if constexpr (std::is_same_v<T, double>)
                    m.*member = keys.positive(name);
                else
                    m.*member = keys.whole(name);
            },
            [member](const ModelConfig& m, const Json&) { return Json(m.*member); }, required};
}

/// A size that has the value 0 in [model] if it is null.
Field size_or_null(const char* key, i64 ModelConfig::*member)
{
    return {key,
            [member](const ConfigKeys& keys, const std::string& name, ModelConfig& m) {
                m.*member = keys.whole(name, 0);
                if (keys.find(name) && m.*member == 0)
                    keys.refuse(str("has ", name, " = 0"));
            },
            [member](const ModelConfig& m, const Json&) { return m.*member > 0 ? Json(m.*member) : Json(); }};
}

/// null: none, 0 in [model].
Field cap(const char* key, double ModelConfig::*member)
{
    return {key,
            [member](const ConfigKeys& keys, const std::string& name, ModelConfig& m) {
                m.*member = keys.positive(name, 0);
            },
            [member](const ModelConfig& m, const Json&) { return m.*member > 0 ? Json(m.*member) : Json(); }};
}

Field biases(const char* key, std::vector<bool ModelConfig::*> members)
{
    return {key,
            [members](const ConfigKeys& keys, const std::string& name, ModelConfig& m) {
                for (bool ModelConfig::*const member : members)
                    m.*member = keys.flag(name);
            },
            [member = members[0]](const ModelConfig& m, const Json&) { return Json(m.*member); }};
}

/// transformers' names of activations; the first of a kind is preferred.
constexpr std::array<std::pair<const char*, Activation>, 7> activations{
    {{"silu", Activation::silu},
     {"swish", Activation::silu},
     {"gelu", Activation::gelu},
     {"gelu_pytorch_tanh", Activation::gelu_tanh},
     {"gelu_new", Activation::gelu_tanh},
     {"gelu_fast", Activation::gelu_tanh},
     {"relu2", Activation::relu2}}};

void read_activation(const ConfigKeys& keys, const std::string& name, ModelConfig& m)
{
    const std::string text = keys.text(name);
    std::string supported;
    for (const auto& [theirs, ours] : activations) {
        if (text == theirs) {
            m.activation = ours;
            return;
        }
        supported += str(supported.empty() ? "\"" : ", \"", theirs, "\"");
    }
    keys.unsupported(str("its ", name, " is ", in_quotes(text)), "supported: " + supported);
}

Json write_activation(const ModelConfig& m, const Json& usual)
{
    Json preferred;
    for (const auto& [theirs, ours] : activations)
        if (ours == m.activation && (preferred.is_null() || usual == theirs))
            preferred = theirs;
    return preferred.is_null() ? Json(name_of(m.activation)) : preferred; // no class has it
}

const std::vector<Field>& fields()
{
    using M = ModelConfig;
    static const std::vector<Field> all{
        plain("vocab_size", &M::vocab, true),
        plain("hidden_size", &M::dim, true),
        {"intermediate_size",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.ffn_dim =
                 keys.whole(name, keys.defaults.contains(name) ? std::optional<i64>(0) : std::nullopt);
             if (keys.find(name) && m.ffn_dim == 0)
                 keys.refuse(str("has ", name, " = 0"));
         },
         [](const M& m, const Json&) { return Json(m.ffn_dim); }, true},
        plain("num_hidden_layers", &M::layers, true),
        plain("num_attention_heads", &M::heads, true),
        size_or_null("num_key_value_heads", &M::kv_heads),
        size_or_null("head_dim", &M::head_dim),
        {"max_position_embeddings",
         [](const ConfigKeys& keys, const std::string& name, M& m) { m.seq = keys.whole(name); },
         [](const M& m, const Json&) { return Json(max_positions(m)); }},
        plain("rms_norm_eps", &M::norm_eps),
        plain("tie_word_embeddings", &M::tied_embeddings),
        {"hidden_act", read_activation, write_activation},
        biases("attention_bias", {&M::qkv_bias, &M::o_bias}),
        biases("mlp_bias", {&M::ffn_bias}),
        biases("use_bias", {&M::qkv_bias, &M::o_bias, &M::ffn_bias}),
        {"use_parallel_residual",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.placement = keys.flag(name) ? Placement::parallel : Placement::pre;
         },
         [](const M& m, const Json&) { return Json(m.placement == Placement::parallel); }},
        {"query_pre_attn_scalar",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.attention_scale = 1 / std::sqrt(keys.positive(name));
         },
         [](const M& m, const Json&) {
             const double scalar = 1 / (scale_of_attention(m) * scale_of_attention(m));
             return scalar < 0x1p31 ? Json(std::llround(scalar)) : Json(scalar);
         }},
        size_or_null("q_lora_rank", &M::q_latent),
        plain("kv_lora_rank", &M::kv_latent),
        plain("qk_rope_head_dim", &M::rope_head_dim),
        {"qk_nope_head_dim",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.head_dim = m.rope_head_dim + keys.whole(name);
         },
         [](const M& m, const Json&) { return Json(m.head_dim - m.rope_head_dim); }},
        plain("v_head_dim", &M::v_head_dim),
        {"rope_interleave",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.rotary_layout = keys.flag(name) ? RotaryLayout::interleaved : RotaryLayout::half;
         },
         [](const M& m, const Json&) { return Json(m.rotary_layout == RotaryLayout::interleaved); }},
        {"scale_attn_weights",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.attention_scale = keys.flag(name) ? 0 : 1;
         },
         [](const M& m, const Json&) { return Json(m.attention_scale != 1); }},
        {"attention_multiplier",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.attention_scale = keys.positive(name);
         },
         [](const M& m, const Json&) { return Json(scale_of_attention(m)); }},
        {"embedding_multiplier",
         [](const ConfigKeys& keys, const std::string& name, M& m) {
             m.embedding_scale = keys.positive(name);
         },
         [](const M& m, const Json&) { return Json(scale_of_embeddings(m)); }},
        plain("residual_multiplier", &M::residual_scale),
        plain("logits_scaling", &M::logit_divisor),
        cap("attn_logit_softcapping", &M::attention_cap),
        cap("final_logit_softcapping", &M::logit_cap),
    };
    return all;
}

/// Keys that do not change the logits of a model in evaluation: token ids, dropout and initial values,
/// generation, outputs, other tasks, versions.
constexpr std::string_view harmless =
    "_attn_implementation _commit_hash _from_model_config _name_or_path _remove_final_layer_norm "
    "architectures "
    "attention_dropout attn_implementation attn_pdrop auto_map bad_words_ids begin_suppress_tokens "
    "bos_token_id "
    "cache_implementation chunk_size_feed_forward cross_attention_hidden_size custom_pipelines "
    "decoder_start_token_id diversity_penalty do_sample dtype early_stopping embd_pdrop embedding_dropout "
    "encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty finetuning_task "
    "forced_bos_token_id forced_eos_token_id hidden_dropout id2label initializer_range is_decoder label2id "
    "language length_penalty max_length max_new_tokens min_length model_type no_repeat_ngram_size "
    "num_beam_groups num_beams num_labels num_return_sequences output_attentions output_hidden_states "
    "output_router_logits output_scores pad_token_id prefix problem_type remove_invalid_values "
    "repetition_penalty resid_pdrop residual_dropout return_dict return_dict_in_generate "
    "router_aux_loss_coef "
    "router_jitter_noise sep_token_id "
    "suppress_tokens task_specific_params temperature tf_legacy_loss tie_encoder_decoder "
    "tie_last_hidden_states tokenizer_class top_k top_p torch_dtype torchscript transformers_version "
    "typical_p "
    "unsloth_fixed unsloth_version use_bfloat16 use_cache";

/// Keys of published files that the class does not read, with the value that they have there.
const std::vector<std::pair<const char*, Json>>& harmless_values()
{
    static const std::vector<std::pair<const char*, Json>> values{{"pruned_heads", Json::object()},
                                                                  {"mlp_type", "default"},
                                                                  {"norm_type", "layer_norm"},
                                                                  {"full_attn_mod", 1},
                                                                  {"interpolate_factor", 1}};
    return values;
}

bool has_word(std::string_view words, const std::string& word)
{
    std::istringstream all{std::string(words)};
    for (std::string next; all >> next;)
        if (next == word)
            return true;
    return false;
}

/// Throws for a key that may change the logits, and that nothing reads.
void require_known(const ConfigKeys& keys, const ClassKeys& of)
{
    const auto is_known = [&](const std::string& key, const Json& value) {
        const bool is_off = value.is_null() || value == false, is_rotary = of.has("rope_theta");
        return is_off || key == rounding_key || is_experts_key(of, key) || key == "quantization_config" ||
               of.defaults.contains(key) || has_word(harmless, key) ||
               has_word(of.architecture.ignored, key) ||
               std::ranges::any_of(fields(),
                                   [&](const Field& f) { return f.required && of.name(f.key) == key; }) ||
               (is_rotary && has_word("rope_theta rope_scaling rope_parameters partial_rotary_factor "
                                      "original_max_position_embeddings",
                                      key)) ||
               std::ranges::any_of(harmless_values(), [&](const auto& harmless_value) {
                   return harmless_value.first == key && harmless_value.second == value;
               });
    };
    const Json fixed = Json::parse(of.architecture.fixed);
    for (const auto& [key, value] : keys.json.items())
        if (const auto at = fixed.find(key); at != fixed.end() && !value.is_null() && value != *at)
            keys.unsupported(str("its ", in_quotes(key), " is ", shown(value)),
                             str("supported: ", shown(*at)));
        else if (at == fixed.end() && !is_known(key, value))
            keys.unsupported(str("its ", in_quotes(key), " is ", shown(value)),
                             str("Trivium does not know this key of ", of.architecture.name));
}

/// Of quantised weights, only gpt-oss' experts are read (mxfp4.hpp).
void require_read_weights(const ConfigKeys& keys, const Architecture& architecture)
{
    const Json& quantised = keys.object("quantization_config");
    if (quantised.empty() ||
        (architecture.names == TensorNames::gpt_oss && quantised.value("quant_method", Json()) == "mxfp4"))
        return;
    throw UserError({keys.place,
                     str("this model cannot be imported: its weights are quantised, quantization_config = ",
                         shown(quantised)),
                     "only f32, f16 and bf16 are read, and MXFP4 of gpt-oss",
                     "get a version whose weights are not quantised"});
}

/// How norms round, if the file is of a model that rounds otherwise than its class.
NormRounding rounding_in(const ConfigKeys& keys, NormRounding of_class)
{
    const std::string name = keys.text(rounding_key);
    const auto named = value_named<NormRounding>(name);
    if (!name.empty() && !named)
        keys.wrong(rounding_key, *keys.find(rounding_key), "before-weight or after-weight");
    return named.value_or(of_class);
}

/// The name of the class, or else of its model_type.
std::string class_in(const ConfigKeys& keys)
{
    const Json* listed = keys.find("architectures");
    if (!listed)
        return keys.text("model_type");
    if (!listed->is_array() || listed->size() != 1 || !(*listed)[0].is_string())
        keys.refuse("has architectures = " + shown(*listed), "it must be a list of one name");
    return (*listed)[0].get<std::string>();
}

/// Gemma 3 with images: config.json of its text model, which may leave out sizes.
Json text_of_gemma3(const ConfigKeys& keys)
{
    Json text{{"vocab_size", 262208},
              {"hidden_size", 2304},
              {"intermediate_size", 9216},
              {"num_hidden_layers", 26},
              {"num_attention_heads", 8}};
    text.update(keys.object("text_config"));
    text["architectures"] = {"Gemma3ForCausalLM"};
    if (const Json* tied = keys.find("tie_word_embeddings"))
        text["tie_word_embeddings"] = *tied;
    return text;
}

const Architecture& architecture_in(const ConfigKeys& keys)
{
    std::string supported;
    const std::string name = class_in(keys);
    for (const Architecture& architecture : architectures()) {
        if (name == architecture.name || name == architecture.type)
            return architecture;
        supported += str(supported.empty() ? "" : ", ", architecture.name);
    }
    keys.unsupported(str("its architecture is ", in_quotes(name)), "supported: " + supported);
}

} // namespace

ClassKeys::ClassKeys(const Architecture& of) : architecture(of)
{
    const Json by_our_name = Json::parse(of.keys);
    for (const auto& [key, value] : by_our_name.items())
        defaults[key_of(of, key.c_str())] = value;
}

HuggingFaceConfig parse_hugging_face_config(const std::string& text, const std::string& place)
{
    const Json json = parse_strict_json(text, place), none = Json::object();
    const ConfigKeys any{json, none, place};
    if (!json.is_object())
        any.refuse("is not a JSON object");
    if (class_in(any) == "Gemma3ForConditionalGeneration") {
        HuggingFaceConfig of_text = parse_hugging_face_config(text_of_gemma3(any).dump(), place);
        of_text.is_part = true;
        return of_text;
    }
    const Architecture& architecture = architecture_in(any);
    require_read_weights(any, architecture);
    const ClassKeys of(architecture);
    const ConfigKeys keys{json, of.defaults, place};
    ModelConfig model = fixed_options(architecture);
    for (const Field& field : fields())
        if (field.required || of.has(field.key))
            field.read(keys, of.name(field.key), model);
    if (has_latents(model) && model.kv_heads != model.heads && model.kv_heads > 0)
        keys.unsupported(str("its num_key_value_heads are ", model.kv_heads),
                         str("each of the ", model.heads, " heads of its class has its own"));
    model.norm_rounding = rounding_in(keys, model.norm_rounding);
    read_layers(keys, of, model);
    read_rope(keys, of, model);
    read_experts(keys, of, model);
    require_known(keys, of);
    try {
        resolve(model);
        validate(model);
    } catch (const UserError& error) {
        throw UserError({place, "does not describe a model that can be trained", error.what(),
                         "docs/hugging-face.md lists what can be imported"});
    }
    return {model, &architecture, false, balance_loss_in(keys, model)};
}

std::string print_hugging_face_config(const ModelConfig& of_run, const Architecture& architecture,
                                      const std::string& type, i64 eos)
{
    const ClassKeys of(architecture);
    ModelConfig model = of_run;
    model.v_head_dim = value_dim(model);
    model.rope_head_dim = rotary_dim(model);
    nlohmann::ordered_json json;
    json["architectures"] = {architecture.name};
    json["model_type"] = architecture.type;
    for (const Field& field : fields())
        if (field.required || of.has(field.key)) {
            const std::string name = of.name(field.key);
            json[name] = field.write(model, of.defaults.value(name, Json()));
        }
    write_layers(model, of, json);
    write_rope(model, of, json);
    write_experts(model, of, json);
    if (model.norm == NormKind::rms && model.norm_rounding != fixed_options(architecture).norm_rounding)
        json[rounding_key] = name_of(model.norm_rounding);
    for (const char* constants : {architecture.written, architecture.fixed})
        json.update(nlohmann::ordered_json::parse(constants));
    // Without these keys, transformers uses its defaults, which are ids of another tokenizer.
    json["bos_token_id"] = json["eos_token_id"] = eos < 0 ? Json() : Json(eos);
    json["pad_token_id"] = nullptr;
    json["torch_dtype"] = type;
    return json.dump(2) + "\n";
}

} // namespace trivium
