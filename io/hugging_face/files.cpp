#include "io/hugging_face/files.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/folders.hpp"
#include "io/files/strict_json.hpp"
#include "io/files/utf8.hpp"
#include "io/hugging_face/hugging_face.hpp"

#include <algorithm>

namespace trivium {

namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr const char *config_name = "config.json", *generation_name = "generation_config.json",
                     *tokenizer_config_name = "tokenizer_config.json";
/// Files that belong to the tokenizer and are exported unchanged.
constexpr std::array with_tokenizer{"special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
                                    "chat_template.json"};

constexpr Bytes max_kept_bytes = Bytes{8} << 20; ///< in each checkpoint
constexpr int max_depth = 64;

void check_content(const std::string& path, const std::string& name, const std::string& text)
{
    const auto refuse = [&](const std::string& problem) {
        throw UserError({path, problem, "the checkpoint keeps this file for an export",
                         "get it again from where it came from, or remove it"});
    };
    if (name.ends_with(".json") && !parse_strict_json(text, path, max_depth).is_object())
        refuse("is not a JSON object");
    if (first_invalid_utf8(text) >= 0)
        refuse("is not UTF-8");
}

std::string file_of(const TextFiles& files, const char* name)
{
    const auto at = files.find(name);
    return at == files.end() ? "" : at->second;
}

/// The imported config.json, adapted to this model; "" if it describes another model.
std::string adapted_config(const std::string& imported, const HuggingFaceConfig& theirs,
                           const ModelConfig& model, const std::string& type, bool same_tokenizer, i64 eos)
{
    if (theirs.is_part || !difference_of_models(model, theirs.model).key.empty())
        return "";
    OrderedJson json = OrderedJson::parse(imported);
    const RopeKind scaling = theirs.model.rope_scaling.kind; // of these, the length is a parameter
    if (scaling != RopeKind::dynamic && scaling != RopeKind::longrope && scaling != RopeKind::yarn)
        json[key_of(*theirs.architecture, "max_position_embeddings")] = std::max(model.seq, theirs.model.seq);
    json.erase("auto_map"); // refers to Python files that are not exported
    json.erase("quantization_config");
    json[json.contains("dtype") ? "dtype" : "torch_dtype"] = type;
    if (!same_tokenizer) {
        json["bos_token_id"] = json["eos_token_id"] = eos < 0 ? OrderedJson() : OrderedJson(eos);
        json["pad_token_id"] = nullptr; // a class may have a default
    }
    return json.dump(2) + "\n";
}

void copy_special_tokens(const std::string& imported, OrderedJson& to)
{
    if (imported.empty())
        return;
    const OrderedJson from = OrderedJson::parse(imported);
    for (const char* key : {"bos_token_id", "eos_token_id", "pad_token_id"})
        if (from.contains(key))
            to[key] = from[key];
}

std::string new_generation_config(i64 eos)
{
    return OrderedJson{{"_from_model_config", true}, {"bos_token_id", eos}, {"eos_token_id", eos}}.dump(2) +
           "\n";
}

} // namespace

TextFiles read_imported_files(const std::string& folder)
{
    TextFiles files;
    Bytes kept = 0;
    std::vector<std::string> names{config_name, generation_name, tokenizer_config_name};
    names.insert(names.end(), with_tokenizer.begin(), with_tokenizer.end());
    for (const std::string& name : names) {
        const std::string path = file_in_folder(folder, name);
        if (path.empty())
            continue;
        std::string text = read_file(path, "settings file", max_settings_bytes);
        check_content(path, name, text);
        kept += static_cast<Bytes>(text.size());
        files[name] = std::move(text);
    }
    if (kept > max_kept_bytes)
        throw UserError({folder, str("has ", format_bytes(kept), " of settings and templates"),
                         str("each checkpoint keeps them, at most ", format_bytes(max_kept_bytes)),
                         "remove those that an export does not need"});
    return files;
}

ExportedFiles exported_files(const ModelConfig& model, const std::string& type, const Tokenizer* tokenizer,
                             const RunState& state)
{
    const TextFiles& imported = state.imported;
    // If either is unknown, assume that the text was tokenized with the model's tokenizer.
    const bool same_tokenizer =
        !imported.empty() && (state.imported_tokenizer.empty() || state.tokenizer.empty() ||
                              state.imported_tokenizer == state.tokenizer);
    const i64 eos = tokenizer ? tokenizer->eos() : -1;
    ExportedFiles result;
    result.imported_tokenizer = same_tokenizer;
    std::string config;
    if (const std::string before = file_of(imported, config_name); !before.empty()) {
        const HuggingFaceConfig theirs =
            parse_hugging_face_config(before, std::string(config_name) + " of the imported model");
        result.architecture = theirs.architecture;
        config = adapted_config(before, theirs, model, type, same_tokenizer, eos);
    }
    if (config.empty()) {
        result.architecture = &architecture_of(model, result.architecture);
        OrderedJson json =
            OrderedJson::parse(print_hugging_face_config(model, *result.architecture, type, eos));
        if (same_tokenizer)
            copy_special_tokens(file_of(imported, config_name), json);
        config = json.dump(2) + "\n";
    }
    result.files[config_name] = config;

    if (tokenizer) {
        TokenizerFiles theirs = tokenizer_files(
            *tokenizer, same_tokenizer ? file_of(imported, tokenizer_config_name) : "", model.seq);
        result.files.merge(theirs.files);
        result.no_tokenizer_json = theirs.problem;
    }
    if (same_tokenizer) {
        result.files.insert(imported.begin(), imported.end()); // does not replace the files above
    } else if (tokenizer)
        result.files[generation_name] = new_generation_config(eos);
    return result;
}

} // namespace trivium
