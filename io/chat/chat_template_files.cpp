#include "base/check.hpp"
#include "io/chat/chat_parts.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"

#include <array>
#include <filesystem>

namespace trivium {

namespace {

namespace fs = std::filesystem;
using Sources = std::map<std::string, std::string>;

constexpr std::array token_names{"bos_token", "eos_token", "unk_token", "sep_token",
                                 "pad_token", "cls_token", "mask_token"};

ChatJson json_of_file(const std::string& path)
{
    const ChatJson json = parse_ordered_json(
        read_file(path, "file with settings of a tokenizer", max_tokenizer_bytes), path, 64);
    if (!json.is_object())
        throw UserError({path, "is not a JSON object", "", "get the file again"});
    return json;
}

/// The special tokens of a tokenizer_config.json: texts, or objects with the text as "content".
ChatJson special_tokens(const ChatJson& config)
{
    ChatJson tokens = ChatJson::object();
    for (const char* name : token_names) {
        const ChatJson token = config.value(name, ChatJson());
        if (token.is_string())
            tokens[name] = token;
        else if (token.is_object() && token.value("content", ChatJson()).is_string())
            tokens[name] = token["content"];
    }
    return tokens;
}

/// Of a file's "chat_template": a text, or a list of named ones. Empty if it has none.
Sources stated_sources(const ChatJson& config, const std::string& path)
{
    const ChatJson stated = config.value("chat_template", ChatJson());
    const auto refuse = [&] {
        throw UserError({path, "\"chat_template\" is neither a text nor a list of {\"name\", \"template\"}",
                         "", "get the file again, or name a file with the template"});
    };
    if (stated.is_null())
        return {};
    if (stated.is_string())
        return {{"default", stated.get<std::string>()}};
    Sources sources;
    if (!stated.is_array())
        refuse();
    for (const ChatJson& one : stated) {
        if (!one.is_object() || !one.value("name", ChatJson()).is_string() ||
            !one.value("template", ChatJson()).is_string())
            refuse();
        sources[one["name"].get<std::string>()] = one["template"].get<std::string>();
    }
    return sources;
}

std::string text_of_file(const std::string& path)
{
    return read_file(path, "chat template", max_settings_bytes);
}

/// The templates of a folder, and the file that has them.
std::pair<Sources, std::string> sources_of_folder(const fs::path& given)
{
    const fs::path folder = given.lexically_normal();
    if (const fs::path file = folder / "chat_template.jinja"; fs::exists(file)) {
        Sources sources{{"default", text_of_file(file.string())}};
        if (const fs::path more = folder / "additional_chat_templates"; fs::is_directory(more))
            for (const auto& entry : fs::directory_iterator(more))
                if (entry.path().extension() == ".jinja")
                    sources[entry.path().stem().string()] = text_of_file(entry.path().string());
        return {std::move(sources), file.string()};
    }
    for (const char* name : {"tokenizer_config.json", "chat_template.json"})
        if (const std::string path = (folder / name).string(); fs::exists(path))
            if (Sources sources = stated_sources(json_of_file(path), path); !sources.empty())
                return {std::move(sources), path};
    return {};
}

ChatJson tokens_of_folder(const fs::path& folder)
{
    const std::string path = (folder / "tokenizer_config.json").string();
    return fs::exists(path) ? special_tokens(json_of_file(path)) : ChatJson::object();
}

} // namespace

std::optional<ChatTemplate> ChatTemplate::find(const std::string& folder)
{
    auto [sources, place] = sources_of_folder(folder);
    if (sources.empty())
        return std::nullopt;
    return ChatTemplate(std::make_shared<const Parts>(std::move(sources), place, tokens_of_folder(folder)));
}

ChatTemplate ChatTemplate::load(const std::string& path)
{
    if (fs::is_directory(path)) {
        if (std::optional<ChatTemplate> found = find(path))
            return *std::move(found);
        throw UserError({path, "contains no chat template",
                         "there is no chat_template.jinja, and no \"chat_template\" in tokenizer_config.json",
                         "name a file with the chat template"});
    }
    if (!path.ends_with(".json"))
        return ChatTemplate(text_of_file(path), path, tokens_of_folder(folder_of(path)));
    const ChatJson config = json_of_file(path);
    Sources sources = stated_sources(config, path);
    if (sources.empty())
        throw UserError({path, "has no \"chat_template\"", "", "name a file with the chat template"});
    ChatJson tokens = special_tokens(config);
    if (tokens.empty())
        tokens = tokens_of_folder(folder_of(path));
    return ChatTemplate(std::make_shared<const Parts>(std::move(sources), path, std::move(tokens)));
}

} // namespace trivium
