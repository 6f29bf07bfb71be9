#pragma once
// Chat templates among the files that a checkpoint keeps of a Hugging Face folder.
#include "config/data_config.hpp"
#include "io/chat/chat_template.hpp"
#include "io/tokens/tokenizer.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// ChatTemplate::find() among these files; UserError if it is not valid.
std::optional<ChatTemplate> chat_template_in(const ChatFiles& files);

/// The same template, which knows the bos_token and eos_token of `tokenizer` if it knows no eos_token.
ChatTemplate with_special_tokens(ChatTemplate given, const Tokenizer& tokenizer);

/// The template at `path` (ChatTemplate::load()). It knows the special tokens of a tokenizer_config.json next
/// to it, otherwise the bos_token and eos_token of `tokenizer`.
ChatTemplate load_chat_template(const std::string& path, const Tokenizer& tokenizer);
/// The one in the folder of the tokenizer that `spec` names (make_tokenizer()); nullopt if there is none.
/// UserError if it is damaged.
std::optional<ChatTemplate> find_chat_template(const std::string& spec, const Tokenizer& tokenizer);

/// The template of a checkpoint's model: that of data.chat_template, otherwise the one in `files`, which the
/// checkpoint keeps, otherwise the one next to data.tokenizer; nullopt if there is none. UserError if it
/// cannot be read.
std::optional<ChatTemplate> chat_template_of(const DataConfig& data, const ChatFiles& files,
                                             const Tokenizer& tokenizer);

/// The ids of special tokens that end the turn of an assistant; none if the template has no such token, or
/// refuses a short conversation.
std::vector<i32> turn_ends(const ChatTemplate& chat, const Tokenizer& tokenizer);

/// Adapts the files of an export: `own`, if given, becomes their chat template, and generation_config.json
/// lists turn_ends() of their template among eos_token_id. With a template, tokenizer_config.json says no
/// split_special_tokens. Files that say so already stay as they are.
void add_chat(ChatFiles& files, const std::optional<ChatTemplate>& own, const Tokenizer& tokenizer);

} // namespace trivium
