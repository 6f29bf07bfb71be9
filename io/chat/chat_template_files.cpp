#include "base/check.hpp"
#include "io/chat/chat_parts.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"

#include <filesystem>

namespace trivium {

namespace {

namespace fs = std::filesystem;
using Sources = std::map<std::string, std::string>;

constexpr const char *template_file = "chat_template.jinja", *config_file = "tokenizer_config.json",
                     *old_template_file = "chat_template.json", *more_templates = "additional_chat_templates";

ChatJson json_of(const std::string& text, const std::string& path)
{
    const ChatJson json = parse_ordered_json(text, path, 64);
    if (!json.is_object())
        throw UserError({path, "is not a JSON object", "", "get the file again"});
    return json;
}

/// The special tokens of a tokenizer_config.json ("bos_token", …): texts, or objects with the text as
/// "content".
ChatJson special_tokens(const ChatJson& config)
{
    ChatJson tokens = ChatJson::object();
    for (const auto& [name, value] : config.items()) {
        const ChatJson text = value.is_object() ? value.value("content", ChatJson()) : value;
        if (name.ends_with("_token") && text.is_string())
            tokens[name] = text;
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

std::string json_text_of_file(const std::string& path)
{
    return read_file(path, "file with settings of a tokenizer", max_tokenizer_bytes);
}

/// Those of a folder that may have a template.
ChatFiles files_of_folder(const fs::path& folder)
{
    ChatFiles files;
    if (const fs::path file = folder / template_file; fs::exists(file))
        files[template_file] = text_of_file(file.string());
    if (const fs::path more = folder / more_templates; fs::is_directory(more))
        for (const auto& entry : fs::directory_iterator(more))
            if (entry.path().extension() == ".jinja")
                files[str(more_templates, "/", entry.path().filename().string())] =
                    text_of_file(entry.path().string());
    for (const char* name : {config_file, old_template_file})
        if (const std::string path = (folder / name).string(); fs::exists(path))
            files[name] = json_text_of_file(path);
    return files;
}

/// The templates, and the file that has them.
std::pair<Sources, std::string> sources_of(const ChatFiles& files, const std::string& place)
{
    if (const auto file = files.find(template_file); file != files.end()) {
        Sources sources{{"default", file->second}};
        for (const auto& [name, text] : files)
            if (name.starts_with(more_templates))
                sources[fs::path(name).stem().string()] = text;
        return {std::move(sources), place + template_file};
    }
    for (const char* name : {config_file, old_template_file})
        if (const auto file = files.find(name); file != files.end())
            if (Sources sources = stated_sources(json_of(file->second, place + name), place + name);
                !sources.empty())
                return {std::move(sources), place + name};
    return {};
}

ChatJson tokens_of(const ChatFiles& files, const std::string& place)
{
    const auto file = files.find(config_file);
    return file == files.end() ? ChatJson::object()
                               : special_tokens(json_of(file->second, place + config_file));
}

ChatJson tokens_of_folder(const fs::path& folder)
{
    const std::string path = (folder / config_file).string();
    return fs::exists(path) ? special_tokens(json_of(json_text_of_file(path), path)) : ChatJson::object();
}

} // namespace

bool has_chat_template(const ChatFiles& files)
{
    try {
        return !sources_of(files, "").first.empty();
    } catch (const UserError&) { // who needs it reports this
        return false;
    }
}

std::optional<ChatTemplate> ChatTemplate::find(const ChatFiles& files, const std::string& place)
{
    auto [sources, from] = sources_of(files, place);
    if (sources.empty())
        return std::nullopt;
    return ChatTemplate(std::make_shared<const Parts>(std::move(sources), from, tokens_of(files, place)));
}

std::optional<ChatTemplate> ChatTemplate::find(const std::string& given)
{
    const fs::path folder = fs::path(given).lexically_normal();
    return find(files_of_folder(folder), (folder / "").string());
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
    const ChatJson config = json_of(json_text_of_file(path), path);
    Sources sources = stated_sources(config, path);
    if (sources.empty())
        throw UserError({path, "has no \"chat_template\"", "", "name a file with the chat template"});
    ChatJson tokens = special_tokens(config);
    if (tokens.empty())
        tokens = tokens_of_folder(folder_of(path));
    return ChatTemplate(std::make_shared<const Parts>(std::move(sources), path, std::move(tokens)));
}

} // namespace trivium
