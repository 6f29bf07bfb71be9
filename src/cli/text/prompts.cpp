#include "cli/text/prompts.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"

#include <cerrno>
#include <unistd.h>

namespace trivium {

Prompt prompt_of(const std::string& text, const Tokenizer& tokenizer)
{
    Prompt prompt{text, {tokenizer.eos()}};
    const std::vector<i32> ids = tokenizer.encode(text);
    prompt.tokens.insert(prompt.tokens.end(), ids.begin(), ids.end());
    return prompt;
}

std::string read_stdin()
{
    std::string text;
    char part[1 << 16];
    while (true) {
        const ssize_t got = ::read(0, part, sizeof part);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            throw_errno("stdin", "cannot read");
        if (got == 0)
            return text;
        text.append(part, static_cast<std::size_t>(got));
    }
}

std::vector<std::pair<i64, std::string_view>> lines_of(std::string_view text)
{
    std::vector<std::pair<i64, std::string_view>> lines;
    if (text.starts_with("\xef\xbb\xbf")) // byte order mark
        text.remove_prefix(3);
    for (i64 number = 1; !text.empty(); ++number) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        std::string_view line = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (line.ends_with('\r'))
            line.remove_suffix(1);
        if (line.find_first_not_of(" \t") != std::string_view::npos)
            lines.emplace_back(number, line);
    }
    return lines;
}

std::vector<i32> tokens_of_key(const ChatJson& object, const char* key, const std::string& place,
                               const Tokenizer& tokenizer)
{
    const auto found = object.find(key);
    if (found != object.end() && found->is_string())
        return tokenizer.encode(found->get_ref<const std::string&>());
    const std::string wanted = str("a text or a list of ids below ", tokenizer.vocab_size());
    if (found == object.end())
        throw UserError({place, str("has no `", key, "`"), "", "give " + wanted});
    std::vector<i32> ids;
    if (found->is_array())
        for (const ChatJson& id : *found)
            if (id.is_number_integer() && id >= 0 && id < tokenizer.vocab_size())
                ids.push_back(id.get<i32>());
    if (!found->is_array() || ids.size() != found->size())
        throw UserError({place, str("`", key, "` is ", shown(*found)), "", "give " + wanted});
    return ids;
}

namespace {

/// "messages" or "prompt" if that is a list of messages, otherwise null.
const char* key_of_messages(const ChatJson& object)
{
    if (object.contains("messages"))
        return "messages";
    const ChatJson prompt = object.value("prompt", ChatJson());
    return prompt.is_array() && !prompt.empty() && prompt[0].is_object() ? "prompt" : nullptr;
}

} // namespace

std::vector<Prompt> parse_prompts(std::string_view text, const std::string& place, const Tokenizer& tokenizer,
                                  bool chats)
{
    std::vector<Prompt> prompts;
    const auto lines = lines_of(text);
    const bool is_json =
        !lines.empty() && lines[0].second.find_first_not_of(" \t") == lines[0].second.find('{');
    for (const auto& [number, line] : lines) {
        const std::string here = str(place, ":", number);
        if (!is_json) {
            prompts.push_back(prompt_of(std::string(line), tokenizer));
            continue;
        }
        const ChatJson object = parse_ordered_json(line, here, 64, "correct this line");
        if (!object.is_object())
            throw UserError({here, str("is ", shown(object)), "the first line is a JSON object",
                             "give an object with `prompt` on each line"});
        const char* const messages = chats ? key_of_messages(object) : nullptr;
        if (messages != nullptr) {
            ChatJson record = object;
            record["messages"] = object[messages];
            prompts.push_back({object[messages], {}, {}, std::move(record)});
            continue;
        }
        const std::vector<i32> tokens = tokens_of_key(object, "prompt", here, tokenizer);
        if (object["prompt"].is_string())
            prompts.push_back(prompt_of(object["prompt"], tokenizer));
        else if (!tokens.empty())
            prompts.push_back({object["prompt"], tokens});
        else
            throw UserError({here, "`prompt` is an empty list", "the model needs a token to begin with",
                             str("begin with the token that separates documents: [", tokenizer.eos(), "]")});
    }
    for (std::size_t i = 0; i < prompts.size(); ++i)
        prompts[i].place = str(place, ":", lines[i].first);
    if (prompts.empty())
        throw UserError({place, "has no prompts", "", "write one on each line"});
    return prompts;
}

} // namespace trivium
