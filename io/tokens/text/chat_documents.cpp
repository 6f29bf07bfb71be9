#include "io/tokens/text/chat_documents.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>

namespace trivium {

namespace {

bool uses_template(const Conversation& conversation, const ChatRule& rule)
{
    return !conversation.plain || (conversation.form == ChatForm::alpaca && rule.chat_template);
}

/// Whether a message that is to be trained says something.
bool has_answer(const Conversation& conversation)
{
    for (std::size_t i = 0; i < conversation.messages.size(); ++i) {
        const ChatJson content = conversation.messages[i].value("content", ChatJson());
        if (conversation.trained[i] && content.is_string() &&
            content.get_ref<const std::string&>().find_first_not_of(" \t\r\n") != std::string::npos)
            return true;
    }
    return false;
}

/// Whether the name of a called function is not in the text.
bool lacks_calls(const Conversation& conversation, const std::string& text)
{
    for (const ChatJson& message : conversation.messages)
        for (const ChatJson& call : message.value("tool_calls", ChatJson::array())) {
            const ChatJson function = call.is_object() ? call.value("function", call) : ChatJson();
            const ChatJson name = function.is_object() ? function.value("name", ChatJson()) : ChatJson();
            if (name.is_string() && text.find(name.get_ref<const std::string&>()) == std::string::npos)
                return true;
        }
    return false;
}

/// Ranges of consecutive trained tokens.
std::vector<TokenSpan> spans_of(const std::vector<bool>& trained)
{
    std::vector<TokenSpan> spans;
    for (std::size_t at = 0; at < trained.size(); ++at) {
        if (!trained[at])
            continue;
        const auto place = static_cast<i64>(at);
        if (spans.empty() || spans.back().end != place)
            spans.push_back({place, place});
        ++spans.back().end;
    }
    return spans;
}

} // namespace

void require_template(const Conversation& conversation, const ChatRule& rule, const std::string& place)
{
    if (rule.chat_template || !uses_template(conversation, rule))
        return;
    throw UserError({place, str("is a chat (", name_of(conversation.form), "), which needs a chat template"),
                     rule.no_template.empty() ? "none is next to the tokenizer" : rule.no_template,
                     "name the template of the model with --chat-template (a .jinja file, or a "
                     "tokenizer_config.json)"});
}

ChatDocument tokenize_chat(const Conversation& conversation, const ChatRule& rule, const Tokenizer& tokenizer)
{
    ChatDocument document;
    const ChatText text = uses_template(conversation, rule)
                              ? rule.chat_template->render(conversation, {.tools = {}, .now = rule.now})
                              : plain_text(conversation);
    document.text_bytes = static_cast<Bytes>(text.text.size());
    std::vector<bool> trained;
    tokenizer.encode_chat(text.text, text.trained, document.ids, trained);
    const auto last = std::find(trained.rbegin(), trained.rend(), true);
    const auto behind = document.ids.end() - (last - trained.rbegin()) - (last == trained.rend() ? 0 : 1);
    document.answer = uses_template(conversation, rule) && has_answer(conversation);
    document.printed = last != trained.rend();
    document.lacks_calls = lacks_calls(conversation, text.text);
    // Does a special token end the last trained span, or follow it?
    if (std::none_of(behind, document.ids.end(),
                     [&](i32 id) { return !tokenizer.special_text(id).empty(); })) {
        document.ids.push_back(tokenizer.eos());
        trained.push_back(last != trained.rend());
    }
    if (const auto length = static_cast<i64>(document.ids.size());
        rule.max_length > 0 && length > rule.max_length) {
        if (!rule.cuts) {
            const std::string longer = str(" of more than ", counted_in_groups(rule.max_length, "token"));
            document.dropped = {"conversation" + longer, "conversations" + longer,
                                "raise --max-length, or cut them with --overlong cut"};
            return document;
        }
        document.ids.resize(static_cast<std::size_t>(rule.max_length));
        trained.resize(document.ids.size());
    }
    document.trained = spans_of(trained);
    if (document.trained.empty())
        document.dropped = {"conversation without a trained token", "conversations without trained tokens"};
    return document;
}

} // namespace trivium
