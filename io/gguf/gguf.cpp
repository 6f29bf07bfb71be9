#include "io/gguf/gguf.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "io/gguf/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

namespace trivium {

namespace {

using Json = nlohmann::json;

/// Modules of Trivium (config/model_parameters.hpp) and of llama.cpp. Those that a class of transformers
/// joins are joined here, too.
constexpr std::array<std::pair<std::string_view, const char*>, 21> gguf_modules{
    {{"embed", "token_embd"},
     {"positions", "position_embd"},
     {"final_norm", "output_norm"},
     {"head", "output"},
     {"attn_norm", "attn_norm"},
     {"attn.q", "attn_q"},
     {"attn.k", "attn_k"},
     {"attn.v", "attn_v"},
     {"attn.q_norm", "attn_q_norm"},
     {"attn.k_norm", "attn_k_norm"},
     {"attn.o", "attn_output"},
     {"attn_post_norm", "post_attention_norm"},
     {"ffn_norm", "ffn_norm"},
     {"ffn.gate", "ffn_gate"},
     {"ffn.up", "ffn_up"},
     {"ffn.down", "ffn_down"},
     {"ffn.router", "ffn_gate_inp"},
     {"ffn.experts.gate", "ffn_gate_exps"},
     {"ffn.experts.up", "ffn_up_exps"},
     {"ffn.experts.down", "ffn_down_exps"},
     {"ffn_post_norm", "post_ffw_norm"}}};

/// "layers.3.attn.q.weight" has the layer 3, the module attn.q and the part ".weight".
struct ParameterName {
    std::string layer, module, part;
};

ParameterName parse_name(const std::string& name)
{
    ParameterName parsed;
    std::size_t begin = 0;
    if (constexpr std::string_view layers = "layers."; name.starts_with(layers)) {
        const std::size_t dot = name.find('.', layers.size());
        parsed.layer = name.substr(layers.size(), dot - layers.size());
        begin = dot + 1;
    }
    const std::size_t end = name.rfind('.');
    parsed.module = name.substr(begin, end - begin);
    parsed.part = name.substr(end);
    return parsed;
}

std::string gguf_name(const ParameterName& first, std::size_t joined)
{
    const auto at =
        std::ranges::find_if(gguf_modules, [&](const auto& module) { return module.first == first.module; });
    TRV_CHECK(at != gguf_modules.end(), "llama.cpp has no module like ", first.module);
    const char* const module = joined == 3 ? "attn_qkv" : joined == 2 ? "ffn_up" : at->second;
    return str(first.layer.empty() ? "" : "blk." + first.layer + ".", module, first.part);
}

GgufType stored_type(const Shape& shape, GgufType wanted)
{
    if (shape.size() < 2)
        return GgufType::f32;
    return wanted == GgufType::q8_0 && shape.back() % q8_0_block != 0 ? GgufType::f16 : wanted;
}

/// The number of `type` in general.file_type.
i64 file_type(GgufType type)
{
    switch (type) {
    case GgufType::f32: return 0;
    case GgufType::f16: return 1;
    case GgufType::q8_0: return 7;
    case GgufType::bf16: return 32;
    }
    return 0;
}

/// An imported file; an empty object if there is none.
Json settings(const TextFiles& files, const char* name)
{
    const auto at = files.find(name);
    return at == files.end() ? Json::object() : Json::parse(at->second);
}

/// The id of a special token: "bos". By the settings of the tokenizer, or of the model; -1: none.
i64 special_id(const std::string& role, const GgufVocabulary& vocabulary, const Json& tokenizer,
               const Json& model)
{
    const auto in_range = [&](i64 id) { return id < static_cast<i64>(vocabulary.tokens.size()) ? id : -1; };
    Json token = tokenizer.value(role + "_token", Json());
    if (token.is_object())
        token = token.value("content", Json());
    if (token.is_string())
        return vocabulary.find(token.get<std::string>());
    Json id = model.value(role + "_token_id", Json());
    if (id.is_array() && !id.empty())
        id = Json(id.front());
    return id.is_number_unsigned() ? in_range(id.get<i64>()) : -1;
}

std::string chat_template(const TextFiles& files)
{
    if (const auto at = files.find("chat_template.jinja"); at != files.end())
        return at->second;
    Json found = settings(files, "chat_template.json").value("chat_template", Json());
    if (found.is_null())
        found = settings(files, "tokenizer_config.json").value("chat_template", Json());
    if (found.is_array()) // several with names
        for (const Json& each : Json(found))
            if (each.is_object() && each.value("name", Json()) == "default")
                found = each.value("template", Json());
    return found.is_string() ? found.get<std::string>() : "";
}

void add_tokenizer_keys(GgufKeys& to, const GgufVocabulary& vocabulary, const ExportedFiles& files,
                        const Tokenizer& tokenizer, const RunState& state)
{
    to.add_text("tokenizer.ggml.model", vocabulary.model);
    to.add_text("tokenizer.ggml.pre", vocabulary.pre);
    to.add_texts("tokenizer.ggml.tokens", vocabulary.tokens);
    if (!vocabulary.scores.empty())
        to.add_f32s("tokenizer.ggml.scores", vocabulary.scores);
    to.add_i32s("tokenizer.ggml.token_type", vocabulary.kinds);
    if (vocabulary.model == "gpt2")
        to.add_texts("tokenizer.ggml.merges", vocabulary.merges);
    const TextFiles imported = files.imported_tokenizer ? state.imported : TextFiles();
    const Json of_tokenizer = settings(imported, "tokenizer_config.json"),
               of_model = settings(files.files, "config.json");
    const auto add_id = [&](const char* role, i64 otherwise) {
        const i64 stated = special_id(role, vocabulary, of_tokenizer, of_model),
                  id = stated >= 0 ? stated : otherwise;
        if (id >= 0)
            to.add_u32(str("tokenizer.ggml.", role, "_token_id"), id);
        return id;
    };
    const i64 bos = add_id("bos", tokenizer.bos());
    add_id("eos", tokenizer.eos());
    if (vocabulary.unknown_id >= 0)
        to.add_u32("tokenizer.ggml.unknown_token_id", vocabulary.unknown_id);
    if (const i64 pad = special_id("pad", vocabulary, of_tokenizer, of_model); pad >= 0)
        to.add_u32("tokenizer.ggml.padding_token_id", pad);
    // In training here, each document follows the token that ended the previous one, which is bos, too.
    bool begins = true;
    if (files.imported_tokenizer) {
        const bool by_settings = begins_with_bos(
            imported.contains("tokenizer_config.json") ? imported.at("tokenizer_config.json") : "");
        begins = by_settings ||
                 (vocabulary.begins_with_bos && !of_tokenizer.value("add_bos_token", Json()).is_boolean());
    }
    to.add_flag("tokenizer.ggml.add_bos_token", begins && bos >= 0);
    to.add_flag("tokenizer.ggml.add_space_prefix", vocabulary.add_space_prefix);
    if (const std::string text = chat_template(files.files); !text.empty())
        to.add_text("tokenizer.chat_template", text);
}

/// llama.cpp treats the special tokens of a model with such a name as Phi-3's, and stops if there are none.
bool is_name_of_phi3(std::string name)
{
    name = lower_case(std::move(name));
    return name.find("phi3") != std::string::npos || name.find("phi-3") != std::string::npos;
}

} // namespace

std::vector<GgufTensor> gguf_tensors(const ModelConfig& model, const GgufArchitecture& architecture,
                                     const std::vector<HuggingFaceTensor>& tensors, GgufType type)
{
    std::vector<GgufTensor> made;
    for (auto& [name, values] : frequency_factors(model))
        made.push_back({.info = {name, {static_cast<i64>(values.size())}, GgufType::f32}, .values = values});
    for (const HuggingFaceTensor& tensor : tensors) {
        const ParameterName first = parse_name(tensor.ours.at(0).name);
        if (tensor.ours[0].first > 0) { // a further expert
            made.back().sources.push_back(tensor);
            continue;
        }
        GgufTensor to{.info = {gguf_name(first, tensor.ours.size()), tensor.shape, GgufType::f32},
                      .sources = {tensor}};
        if (!first.layer.empty()) { // [out, in] in all architectures, and no heads in turn
            HuggingFaceTensor& source = to.sources[0];
            if (tensor.shape.size() == 2 && !tensor.transposed)
                std::swap(source.shape[0], source.shape[1]);
            source.transposed = tensor.shape.size() == 2;
            source.groups = 1;
            to.info.shape = source.shape;
            if (tensor.ours[0].shape.size() == 3 &&
                tensor.ours[0].count() < element_count(tensor.ours[0].shape))
                to.info.shape.insert(to.info.shape.begin(), tensor.ours[0].shape[0]);
        }
        const bool exact = first.module == "positions" || first.module == "ffn.router";
        to.info.type = exact ? GgufType::f32 : stored_type(to.info.shape, type);
        if (architecture.interleaved && (first.module == "attn.q" || first.module == "attn.k"))
            to.pairs = rotary_dim(model) / 2;
        if (model.norm_offset && first.module.ends_with("norm") && first.part == ".weight")
            to.offset = 1;
        made.push_back(to);
        if (first.module == "embed" && model.tied_embeddings && architecture.has_head) {
            made.push_back(to);
            made.back().info.name = "output.weight";
        }
    }
    return made;
}

GgufKeys gguf_keys(const ModelConfig& model, const GgufArchitecture& architecture, GgufType type,
                   const ExportedFiles& files, const Tokenizer* tokenizer, const RunState& state,
                   const std::string& name)
{
    GgufVocabulary vocabulary;
    if (tokenizer) {
        vocabulary = gguf_vocabulary(*tokenizer);
        pad_vocabulary(vocabulary, model.vocab);
    }
    const Json config = Json::parse(files.files.at("config.json"));
    const i64 positions = config.at(key_of(*files.architecture, "max_position_embeddings")).get<i64>();
    GgufKeys keys;
    add_model_keys(keys, model, architecture, positions);
    keys.add_text("general.type", "model");
    if (!is_name_of_phi3(name) || vocabulary.find("</s>") >= 0)
        keys.add_text("general.name", name);
    keys.add_u32("general.file_type", file_type(type));
    keys.add_u32("general.quantization_version", 2);
    if (tokenizer)
        add_tokenizer_keys(keys, vocabulary, files, *tokenizer, state);
    else
        keys.add_text("tokenizer.ggml.model", "no_vocab");
    return keys;
}

void write_values(const GgufTensor& tensor, const ReadParameter& from, GgufWriter& to)
{
    if (!tensor.values.empty())
        return to.write(tensor.values);
    const auto row = static_cast<std::size_t>(tensor.info.shape.size() == 2 ? tensor.info.shape[1] : 1),
               pairs = static_cast<std::size_t>(tensor.pairs), head = 2 * pairs * row;
    std::vector<float> sums, rest; // rest: the begin of a head
    const auto write = [&](std::span<const float> values) {
        if (tensor.offset != 0) {
            sums.assign(values.begin(), values.end());
            for (float& value : sums)
                value += tensor.offset;
            return to.write(sums);
        }
        if (tensor.pairs == 0)
            return to.write(values);
        rest.insert(rest.end(), values.begin(), values.end());
        const std::span<const float> all(rest);
        std::size_t done = 0;
        for (; all.size() - done >= head; done += head)
            for (std::size_t i = 0; i < pairs; ++i) {
                to.write(all.subspan(done + i * row, row));
                to.write(all.subspan(done + (i + pairs) * row, row));
            }
        rest.erase(rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(done));
    };
    for (const HuggingFaceTensor& source : tensor.sources)
        export_values(source, from, write);
}

} // namespace trivium
