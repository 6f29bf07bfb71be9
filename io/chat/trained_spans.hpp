#pragma once
// Where a rendered chat has the words of its assistant.
#include "io/chat/conversation.hpp"
#include "io/chat/jinja/text.hpp"

#include <functional>
#include <optional>

namespace trivium {

/// What a search needs of a rendered chat.
struct RenderedChat {
    const jinja::MarkedText& text;
    const ChatJson& messages;
    const std::vector<bool>& trained; ///< of each message
    bool states_spans = false;        ///< by `{% generation %}`
    std::string eos;                  ///< the token that ends a text; may be empty
    /// The rendering of other messages; nullopt if the template refuses them.
    std::function<std::optional<jinja::MarkedText>(const ChatJson& messages, bool add_generation_prompt)>
        render;
    std::string place; ///< for messages
};

/// The spans of the messages that are trained, as ChatTemplate::render describes. UserError if one cannot be
/// found.
std::vector<TextSpan> trained_spans(const RenderedChat& chat);

} // namespace trivium
