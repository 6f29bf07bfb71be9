#pragma once
// Chat templates among the files that a checkpoint keeps of a Hugging Face folder.
#include "io/chat/chat_template.hpp"
#include "io/tokens/tokenizer.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// The chat template of chat_template.jinja, otherwise of tokenizer_config.json or chat_template.json, with
/// the special tokens of tokenizer_config.json; nullopt if none of these files (by name) has one. UserError
/// if it is not valid.
std::optional<ChatTemplate> chat_template_in(const std::map<std::string, std::string>& files);

/// Whether chat_template_in() finds one.
bool has_chat_template(const std::map<std::string, std::string>& files);

/// The same template, which knows the bos_token and eos_token of `tokenizer` if it knows no eos_token.
ChatTemplate with_special_tokens(ChatTemplate given, const Tokenizer& tokenizer);

/// The ids of special tokens that end the turn of an assistant; none if the template has no such token, or
/// refuses a short conversation.
std::vector<i32> turn_ends(const ChatTemplate& chat, const Tokenizer& tokenizer);

/// Adapts the files of an export: `own`, if given, becomes their chat template, and generation_config.json
/// lists turn_ends() of their template among eos_token_id. Files that say so already stay as they are.
void add_chat(std::map<std::string, std::string>& files, const std::optional<ChatTemplate>& own,
              const Tokenizer& tokenizer);

} // namespace trivium
