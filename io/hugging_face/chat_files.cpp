#include "io/hugging_face/chat_files.hpp"

#include "base/check.hpp"
#include "config/about_key.hpp"
#include "io/files/strict_json.hpp"

#include <algorithm>
#include <filesystem>

namespace trivium {

namespace {

constexpr int max_chat_depth = 64;

/// The ids in "eos_token_id", a number or a list.
std::vector<i64> ends_in(const ChatJson& file)
{
    std::vector<i64> ids;
    const ChatJson ends = file.value("eos_token_id", ChatJson());
    for (const ChatJson& id : ends.is_array() ? ends : ChatJson::array({ends}))
        if (id.is_number_integer())
            ids.push_back(id.get<i64>());
    return ids;
}

} // namespace

std::optional<ChatTemplate> chat_template_in(const ChatFiles& files)
{
    return ChatTemplate::find(files, "the checkpoint's ");
}

ChatTemplate with_special_tokens(ChatTemplate given, const Tokenizer& tokenizer)
{
    if (given.variables().contains("eos_token") || given.sources().size() > 1)
        return given;
    ChatJson variables = given.variables();
    const auto set = [&](const char* name, i32 id) {
        if (const std::string text = tokenizer.special_text(id); !text.empty())
            variables[name] = text;
    };
    set("eos_token", tokenizer.eos());
    if (tokenizer.bos() != tokenizer.eos())
        set("bos_token", tokenizer.bos());
    return ChatTemplate(given.source(), given.place(), variables);
}

ChatTemplate load_chat_template(const std::string& path, const Tokenizer& tokenizer)
{
    return with_special_tokens(ChatTemplate::load(path), tokenizer);
}

std::optional<ChatTemplate> find_chat_template(const std::string& spec, const Tokenizer& tokenizer)
{
    if (spec.empty() || spec == "bytes")
        return {};
    std::optional<ChatTemplate> found =
        ChatTemplate::find((std::filesystem::path(spec).parent_path() / ".").string());
    return found ? with_special_tokens(*found, tokenizer) : found;
}

std::optional<ChatTemplate> chat_template_of(const DataConfig& data, const ChatFiles& files,
                                             const Tokenizer& tokenizer)
{
    if (!data.chat_template.empty())
        return about_key("data.chat_template",
                         [&] { return load_chat_template(data.chat_template, tokenizer); });
    if (const std::optional<ChatTemplate> kept = chat_template_in(files))
        return with_special_tokens(*kept, tokenizer);
    return find_chat_template(data.tokenizer, tokenizer);
}

std::vector<i32> turn_ends(const ChatTemplate& chat, const Tokenizer& tokenizer)
{
    try {
        const ChatText text = chat.render(conversation_of_json(
            {{"messages", {{{"role", "user"}, {"content", "a"}}, {{"role", "assistant"}, {"content", "b"}}}}},
            chat.place()));
        std::vector<i32> ids;
        std::vector<bool> trained;
        tokenizer.encode_chat(text.text, text.trained, ids, trained);
        const auto is_special = [&](i32 id) { return !tokenizer.special_text(id).empty(); };
        const auto last =
            static_cast<std::size_t>(std::find(trained.rbegin(), trained.rend(), true) - trained.rbegin());
        if (last == trained.size())
            return {};
        const auto behind =
            std::find_if(ids.end() - static_cast<std::ptrdiff_t>(last) - 1, ids.end(), is_special);
        return behind == ids.end() ? std::vector<i32>{} : std::vector<i32>{*behind};
    } catch (const UserError&) { // it needs other messages
        return {};
    }
}

void add_chat(ChatFiles& files, const std::optional<ChatTemplate>& own, const Tokenizer& tokenizer)
{
    const auto parsed = [&](const char* name) {
        const auto file = files.find(name);
        return file == files.end() ? ChatJson::object()
                                   : parse_ordered_json(file->second, name, max_chat_depth);
    };
    if (own) {
        files["chat_template.jinja"] = own->source();
        files.erase("chat_template.json");
        if (ChatJson config = parsed("tokenizer_config.json"); config.contains("chat_template")) {
            config.erase("chat_template"); // older readers would take it
            files["tokenizer_config.json"] = config.dump(2) + "\n";
        }
    }
    const std::optional<ChatTemplate> chat = own ? own : chat_template_in(files);
    if (!chat)
        return;
    if (ChatJson config = parsed("tokenizer_config.json"); config.erase("split_special_tokens") > 0)
        files["tokenizer_config.json"] = config.dump(2) + "\n"; // the template's tokens would be split
    ChatJson generation = parsed("generation_config.json");
    std::vector<i64> ends = ends_in(generation);
    if (ends.empty())
        ends = ends_in(parsed("config.json"));
    const std::size_t known = ends.size();
    for (const i32 id : turn_ends(with_special_tokens(*chat, tokenizer), tokenizer))
        if (std::ranges::find(ends, id) == ends.end())
            ends.push_back(id);
    if (ends.size() == known)
        return;
    generation["eos_token_id"] = ends.size() == 1 ? ChatJson(ends[0]) : ChatJson(ends);
    files["generation_config.json"] = generation.dump(2) + "\n";
}

} // namespace trivium
