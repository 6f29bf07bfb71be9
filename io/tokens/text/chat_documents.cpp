#include "io/tokens/text/chat_documents.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>

namespace trivium {

namespace {

ChatText text_of(const Conversation& conversation, const ChatRule& rule)
{
    if (rule.chat_template && (!conversation.plain || conversation.form == ChatForm::alpaca))
        return rule.chat_template->render(conversation, {.tools = {}, .now = rule.now});
    if (conversation.plain)
        return plain_text(conversation);
    throw UserError({conversation.place, "needs a chat template",
                     rule.no_template.empty() ? str("it has ", name_of(conversation.form),
                                                    ", and no template is next to the tokenizer")
                                              : rule.no_template,
                     "name the template of the model with --chat-template (a .jinja file, or a "
                     "tokenizer_config.json)"});
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

ChatDocument tokenize_chat(const Conversation& conversation, const ChatRule& rule, const Tokenizer& tokenizer)
{
    ChatDocument document;
    const ChatText text = text_of(conversation, rule);
    document.text_bytes = static_cast<Bytes>(text.text.size());
    std::vector<bool> trained;
    tokenizer.encode_chat(text.text, text.trained, document.ids, trained);
    const auto last = std::find(trained.rbegin(), trained.rend(), true);
    const auto behind = document.ids.end() - (last - trained.rbegin()) - (last == trained.rend() ? 0 : 1);
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
