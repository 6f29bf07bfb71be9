#pragma once
// Chat templates as commands name them.
#include "io/chat/chat_template.hpp"
#include "io/tokens/tokenizer.hpp"

#include <optional>
#include <string>

namespace trivium {

/// The template at `path` (ChatTemplate::load()). It knows the special tokens of a tokenizer_config.json next
/// to it, otherwise the bos_token and eos_token of `tokenizer`.
ChatTemplate load_chat_template(const std::string& path, const Tokenizer& tokenizer);
/// The one in the folder of the tokenizer that `spec` names (make_tokenizer()); nullopt if there is none.
/// UserError if it is damaged.
std::optional<ChatTemplate> find_chat_template(const std::string& spec, const Tokenizer& tokenizer);

} // namespace trivium
