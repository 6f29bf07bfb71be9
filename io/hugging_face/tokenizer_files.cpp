#include "io/hugging_face/tokenizer_files.hpp"

#include "base/check.hpp"
#include "io/hugging_face/sentencepiece_json.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include <functional>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

using OrderedJson = nlohmann::ordered_json;

/// The class of transformers that uses tokenizer.json unchanged; classes named after models add rules.
constexpr const char* plain_class = "PreTrainedTokenizerFast";

/// The text of a special token by id.
using SpellId = std::function<std::string(i64)>;

SpellId spelling_of(const SentencePieceModel& model)
{
    return [&model](i64 id) { return model.pieces.at(static_cast<std::size_t>(id)).text; };
}

/// `text`: a tokenizer.json that parse_tokenizer_json accepts.
SpellId spelling_of(const std::string& text)
{
    std::map<i64, std::string> added;
    const nlohmann::json file = nlohmann::json::parse(text);
    for (const nlohmann::json& token : file.at("added_tokens"))
        added[token.at("id").get<i64>()] = token.at("content").get<std::string>();
    return [added](i64 id) { return added.at(id); };
}

std::string new_config(const Tokenizer& tokenizer, const SpellId& spell, i64 seq)
{
    OrderedJson config{{"tokenizer_class", plain_class}};
    // In training, each document follows the token that ended the previous one.
    config["bos_token"] = config["eos_token"] = spell(tokenizer.eos());
    config.update(
        {{"clean_up_tokenization_spaces", false}, {"model_max_length", seq}, {"split_special_tokens", true}});
    return config.dump(2) + "\n";
}

/// Adapts an imported tokenizer_config.json to a tokenizer.json that Trivium generated.
std::string adapted_config(const std::string& imported)
{
    OrderedJson config = OrderedJson::parse(imported);
    for (const char* key :
         {"auto_map", "legacy", "sp_model_kwargs", "add_prefix_space", "vocab_file", "tokenizer_file"})
        config.erase(key);
    config["tokenizer_class"] = plain_class;
    return config.dump(2) + "\n";
}

TokenizerFiles of_pieces(const Tokenizer& tokenizer, const SentencePieceModel& model,
                         const std::string& imported, i64 seq)
{
    const SentencePieceJson json =
        print_sentencepiece_json(model, begins_with_bos(imported) ? tokenizer.bos() : -1);
    TokenizerFiles result;
    result.problem = json.reason;
    if (!json.text.empty()) {
        result.files["tokenizer.json"] = json.text;
        result.files["tokenizer_config.json"] =
            imported.empty() ? new_config(tokenizer, spelling_of(model), seq) : adapted_config(imported);
    } else if (!imported.empty())
        result.files["tokenizer_config.json"] = imported;
    return result;
}

} // namespace

TokenizerFiles tokenizer_files(const Tokenizer& tokenizer, const std::string& imported, i64 seq)
{
    const std::string model = without_eos(tokenizer.model());
    if (model == "bytes")
        return of_pieces(tokenizer, byte_pieces(), imported, seq);
    if (looks_like_tokenizer_json(model))
        return {{{"tokenizer.json", model},
                 {"tokenizer_config.json",
                  imported.empty() ? new_config(tokenizer, spelling_of(model), seq) : imported}},
                ""};
    const SentencePieceModel pieces = parse_sentencepiece_model(model, tokenizer.name());
    TokenizerFiles result = of_pieces(tokenizer, pieces, imported, seq);
    result.files["tokenizer.model"] = model;
    return result;
}

bool begins_with_bos(const std::string& imported)
{
    if (imported.empty())
        return false;
    const OrderedJson config = OrderedJson::parse(imported);
    if (const auto flag = config.find("add_bos_token"); flag != config.end() && flag->is_boolean())
        return flag->get<bool>();
    const auto name = config.find("tokenizer_class");
    return name != config.end() && name->is_string() && name->get<std::string>().starts_with("Llama");
}

bool is_bytes_json(const std::string& text) { return text == print_sentencepiece_json(byte_pieces()).text; }

bool is_converted_json(const std::string& text, const std::string& model)
{
    const std::string converted =
        print_sentencepiece_json(parse_sentencepiece_model(model, "tokenizer.model")).text;
    nlohmann::json ours = nlohmann::json::parse(converted, nullptr, false),
                   theirs = nlohmann::json::parse(text, nullptr, false);
    if (!ours.is_object() || !theirs.is_object())
        return false;
    ours.erase("post_processor"); // depends on the imported settings
    theirs.erase("post_processor");
    return ours == theirs;
}

} // namespace trivium
