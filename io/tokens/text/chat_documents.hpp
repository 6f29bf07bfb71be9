#pragma once
// Conversations as documents of tokens.
#include "io/chat/chat_template.hpp"
#include "io/tokens/corpus_report.hpp"
#include "io/tokens/token_store.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium {

/// How conversations become documents.
struct ChatRule {
    std::optional<ChatTemplate> chat_template{};
    std::string no_template{};        ///< why there is none; empty: no one was found
    i64 max_length = 0;               ///< tokens of a document; 0: any number
    std::optional<std::time_t> now{}; ///< for templates that print the date; by default that of each call
    bool cuts = false;                ///< longer ones lose their end; otherwise they are left out
};

struct ChatDocument {
    std::vector<i32> ids{};           ///< with its end
    std::vector<TokenSpan> trained{}; ///< ascending
    Bytes text_bytes = 0;
    bool answer = false;      ///< the template rendered it, and it has an answer to train
    bool printed = false;     ///< it has trained tokens, or had before it was cut
    bool lacks_calls = false; ///< the template does not print a tool call of the conversation
    std::optional<CorpusReport::Skipped> dropped{}; ///< why the document is left out
};

/// UserError about `place` if the conversation needs a template and there is none.
void require_template(const Conversation& conversation, const ChatRule& rule, const std::string& place);

/// The text of a conversation is rendered by the template, and encoded once, with the special tokens that it
/// spells. Prompt and completion are joined without a template, so is Alpaca's form if there is none. A token
/// is trained if a part of its text is in a trained span, so where a token has the end of a prompt and the
/// begin of an answer, it is trained. The document ends as its text does; eos follows, and is trained, only
/// if no special token ends the last trained span or is behind it: the model then has a token to end with.
/// Errors of ChatTemplate::render() and Tokenizer::encode(). \pre require_template()
ChatDocument tokenize_chat(const Conversation& conversation, const ChatRule& rule,
                           const Tokenizer& tokenizer);

} // namespace trivium
