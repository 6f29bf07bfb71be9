#pragma once
// The prompts of `generate`.
#include "io/chat/conversation.hpp"
#include "io/tokens/tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

struct Prompt {
    ChatJson given;          ///< a text, a list of ids or, in chats, of messages
    std::vector<i32> tokens; ///< what the model reads
    std::vector<i32> ends{}; ///< ids that end a sample, with the tokenizer's eos
    ChatJson record{};       ///< of a chat that is given as messages: conversation_of_json(); otherwise null
    std::string place{};     ///< "FILE:LINE"; may be empty
};

/// A text as the beginning of a document: after the token that separates documents.
Prompt prompt_of(const std::string& text, const Tokenizer& tokenizer);

/// All of stdin, as text. IoError.
std::string read_stdin();

/// The lines of a text: without line ends, and without those that are empty but for white space; each with
/// its number, counted from 1.
std::vector<std::pair<i64, std::string_view>> lines_of(std::string_view text);

/// A text or a list of ids of a JSON object, as tokens; `place`: of the object. UserError if it is neither,
/// or an id is not below `vocab`.
std::vector<i32> tokens_of_key(const ChatJson& object, const char* key, const std::string& place,
                               const Tokenizer& tokenizer);

/// The prompts of a text: lines of JSON objects, `prompt` being a text or a list of ids, if the first line
/// begins with `{`; otherwise each line is a prompt. `chats`: objects may have a list of messages instead, as
/// `prompt` or `messages`; their tokens are not known yet. `place`: the file. UserError if there are none, or
/// a line is no such object.
std::vector<Prompt> parse_prompts(std::string_view text, const std::string& place, const Tokenizer& tokenizer,
                                  bool chats);

} // namespace trivium
