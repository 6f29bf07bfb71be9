#include "cli/text/chat_arguments.hpp"

#include "io/hugging_face/chat_files.hpp"

#include <filesystem>

namespace trivium {

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

} // namespace trivium
