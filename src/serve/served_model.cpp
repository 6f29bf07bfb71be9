#include "serve/served_model.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "io/hugging_face/chat_files.hpp"
#include "io/hugging_face/files.hpp"
#include "io/tokens/sentencepiece_model.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/tokenizer/tokenizer_json.hpp"

#include <ctime>

namespace trivium {

namespace {

using Json = nlohmann::ordered_json;

/// What transformers would read of the checkpoint's export.
TextFiles files_of(const RunConfig& config, const CheckpointReader& checkpoint, const Tokenizer& tokenizer)
{
    try {
        return exported_files(config.model, "float32", &tokenizer, checkpoint.state()).files;
    } catch (const UserError&) { // no class of transformers describes the model
        return tokenizer_files(tokenizer, "", config.model.seq).files;
    }
}

Json json_file(const TextFiles& files, const char* name)
{
    const auto at = files.find(name);
    const Json json = at == files.end() ? Json() : Json::parse(at->second, nullptr, false);
    return json.is_object() ? json : Json::object();
}

struct SpecialTokens {
    std::map<std::string, i32> ids;
    i32 first = -1;
};

SpecialTokens special_tokens(const TextFiles& files, const Tokenizer& tokenizer)
{
    SpecialTokens special;
    const auto add = [&](const std::string& text, i64 id) {
        if (!text.empty() && id >= 0 && id < tokenizer.vocab_size())
            special.ids.emplace(text, static_cast<i32>(id));
    };
    if (const auto file = files.find("tokenizer.json"); file != files.end()) {
        const Json json = Json::parse(file->second);
        for (const Json& token : json.value("added_tokens", Json::array()))
            if (token.value("special", false))
                add(token.at("content").get<std::string>(), token.at("id").get<i64>());
        const std::string& own = tokenizer.model(); // which may state its end of text
        if (parse_tokenizer_json(without_eos(own) == file->second ? own : file->second, "tokenizer.json")
                .begins_with_bos)
            special.first = tokenizer.bos();
        return special;
    }
    const SentencePieceModel model = parse_sentencepiece_model(tokenizer.model(), tokenizer.name());
    for (std::size_t id = 0; id < model.pieces.size(); ++id)
        if (model.pieces[id].kind == SentencePieceModel::Kind::control)
            add(model.pieces[id].text, static_cast<i64>(id));
    return special;
}

/// The tokenizer_config.json with special tokens as texts.
Json tokenizer_info(const TextFiles& files, const Tokenizer& tokenizer, const TokenTexts& texts)
{
    Json info = json_file(files, "tokenizer_config.json");
    const auto set = [&](const char* key, i32 id) {
        Json& value = info[key];
        if (value.is_object())
            value = value.value("content", Json());
        if (!value.is_string())
            value = texts.label(id);
    };
    set("eos_token", tokenizer.eos());
    set("bos_token", tokenizer.bos());
    return info;
}

std::vector<i32> ends_of(const TextFiles& files, i64 vocab)
{
    Json value = json_file(files, "generation_config.json").value("eos_token_id", Json());
    if (value.is_number())
        value = Json::array({value});
    std::vector<i32> ends;
    for (const Json& id : value)
        if (id.is_number_integer() && id.get<i64>() >= 0 && id.get<i64>() < vocab)
            ends.push_back(id.get<i32>());
    return ends;
}

} // namespace

ServedModel served_model(const RunConfig& config, const CheckpointReader& checkpoint,
                         std::shared_ptr<const Tokenizer> tokenizer)
{
    const TextFiles files = files_of(config, checkpoint, *tokenizer);
    ServedModel model;
    model.id = checkpoint.path();
    model.step = checkpoint.state().step;
    model.created = static_cast<std::int64_t>(std::time(nullptr));
    const SpecialTokens special = special_tokens(files, *tokenizer);
    const auto texts = std::make_shared<const TokenTexts>(*tokenizer, special.ids, special.first);
    model.tokenizer_info = tokenizer_info(files, *tokenizer, *texts);
    model.ends = ends_of(files, tokenizer->vocab_size());
    try {
        model.chat = chat_template_of(config.data, checkpoint.state().imported, *tokenizer);
        if (model.chat) {
            model.chat_ends = turn_ends(*model.chat, *tokenizer);
            model.tokenizer_info["chat_template"] = model.chat->source();
        }
    } catch (const UserError& error) {
        if (!config.data.chat_template.empty())
            throw;
        log_warning(str("no chats: the model's chat template cannot be read: ", error.what()));
    }
    model.texts = texts;
    model.tokenizer = std::move(tokenizer);
    return model;
}

} // namespace trivium
