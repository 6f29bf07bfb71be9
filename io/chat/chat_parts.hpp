#pragma once
// What copies of a chat template share.
#include "io/chat/chat_template.hpp"
#include "io/chat/jinja/template.hpp"

namespace trivium {

/// How a template wants the arguments of tool calls.
enum class ArgumentForm { any, object, text };

struct ChatProgram {
    ChatProgram(const std::string& text, const std::string& place, const ChatJson& variables);
    std::string source;
    jinja::Template program;
    bool parts; ///< can read contents of typed parts
    ArgumentForm arguments;
};

struct ChatTemplate::Parts {
    Parts(std::map<std::string, std::string> texts, std::string from, ChatJson known);
    std::map<std::string, std::string> sources;
    ChatJson variables;
    std::string place;
    std::map<std::string, ChatProgram> programs;
    /// The one for chats with or without tools. UserError if there is none.
    const ChatProgram& program(bool with_tools) const;
};

} // namespace trivium
