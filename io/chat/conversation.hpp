#pragma once
// Records of chats in the forms found in the wild, as messages.
#include "base/units.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// Keeps the order of keys, which templates print.
using ChatJson = nlohmann::ordered_json;

enum class ChatForm {
    messages,        ///< {"messages": [{"role", "content"}, …]}
    prompt_messages, ///< {"prompt": [messages], "completion": [messages]}
    prompt_text,     ///< {"prompt": "…", "completion": "…"}
    sharegpt,        ///< {"conversations": [{"from", "value"}, …]}
    alpaca,          ///< {"instruction", "input", "output"}
    text,            ///< {"text": "…"}
};

/// The fields of a record that conversation_of_record() reads.
inline constexpr std::array chat_fields{
    "messages",    "conversations", "conversation", "prompt",    "completion",
    "instruction", "input",         "output",       "system",    "history",
    "text",        "tools",         "functions",    "documents", "chat_template_kwargs"};

/// "messages", "prompt and completion of messages", "prompt and completion", "ShareGPT", "Alpaca", "text".
const char* name_of(ChatForm form);

/// Bytes [begin, end) of a text.
struct TextSpan {
    std::size_t begin = 0, end = 0;
    bool operator==(const TextSpan&) const = default;
};

/// A text, and its parts that are trained: ascending, disjoint, not empty.
struct ChatText {
    std::string text; ///< UTF-8
    std::vector<TextSpan> trained;
};

/// A record's content. All forms but `text` have messages. Forms that need no template (`plain`: prompt_text,
/// alpaca and text) have texts, too; those of prompt_text and text are meant to be read as they are, those of
/// Alpaca are what is usual where a model has no template.
struct Conversation {
    ChatForm form = ChatForm::messages;
    std::string place; ///< "FILE:LINE", for messages of errors
    /// A list of objects with "role" and "content" (text, or a list of typed parts); those of assistants may
    /// have "reasoning_content" or "thinking", and "tool_calls", whose "arguments" are objects or JSON in a
    /// string.
    ChatJson messages = ChatJson::array();
    std::vector<bool> trained; ///< of each message: by default those of the assistant
    ChatJson tools;            ///< a list of JSON schemas of functions, or null
    ChatJson variables =
        ChatJson::object(); ///< for the template: "documents", and those of "chat_template_kwargs"
    bool plain = false;
    std::string prompt, completion; ///< of plain forms; the completion is trained
};

/// Recognises the form of one record, a JSON object. `place`: "FILE:LINE". UserError if it is not valid JSON,
/// has none of the forms (the error lists the record's keys and the forms), or if a field of its form has a
/// wrong type. Flags of 0 or 1 on a message ("weight", "train") say whether it is trained; a 1 on a message
/// that is not the assistant's is refused.
Conversation conversation_of_record(std::string_view record, const std::string& place);
/// As above, of parsed JSON.
Conversation conversation_of_json(const ChatJson& record, const std::string& place);

/// prompt + completion, of which the completion is trained. `end`: a text that ends the completion, also
/// trained; may be empty. \pre plain
ChatText plain_text(const Conversation& conversation, const std::string& end = "");

} // namespace trivium
