// libFuzzer: any bytes as a chat template, and what follows a first 0 byte as a record of a chat. An accepted
// template renders the record and a chat of its own; spans lie within the text.
#include "base/check.hpp"
#include "io/chat/jinja/template.hpp"
#include "io/chat/trained_spans.hpp"

#include <cstdlib>

using namespace trivium;

namespace {

void render(const jinja::Template& program, const ChatJson& messages)
{
    constexpr i64 steps = 200'000; // sanitizers make each slow
    jinja::Variables variables;
    try {
        std::vector<jinja::Value> values;
        for (const ChatJson& message : messages) {
            std::vector<std::pair<jinja::Value, jinja::Value>> items;
            const auto index = static_cast<i32>(values.size());
            for (const auto& [key, value] : message.items())
                items.emplace_back(jinja::Value(key), jinja::value_of(value, index));
            values.push_back(jinja::make_dict(std::move(items), index));
        }
        variables.emplace_back("messages", jinja::make_list(std::move(values)));
    } catch (const jinja::Failure&) {
        return;
    }
    const jinja::MarkedText text = program.render(variables, 0, steps);
    for (const jinja::Mark& mark : text.marks())
        if (mark.begin >= mark.end || mark.end > text.size())
            std::abort();
    const std::vector<bool> trained(messages.size(), true);
    const auto again = [&](const ChatJson&, bool) { return std::optional(text); };
    for (const bool stated : {true, false}) {
        std::size_t end = 0;
        for (const TextSpan& span :
             trained_spans({text, messages, trained, stated, "</s>", again, "input"})) {
            if (span.begin < end || span.begin >= span.end || span.end > text.size())
                std::abort();
            end = span.end;
        }
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
    const std::string text(reinterpret_cast<const char*>(data), size);
    const std::size_t end = std::min(text.find('\0'), size);
    ChatJson messages = ChatJson::array();
    messages.push_back({{"role", "user"}, {"content", "a \xc3\xa9"}});
    messages.push_back({{"role", "assistant"}, {"content", "b"}});
    try {
        if (end < size) {
            const Conversation conversation = conversation_of_record(text.substr(end + 1), "input");
            if (conversation.trained.size() != conversation.messages.size())
                std::abort();
            if (!conversation.messages.empty())
                messages = conversation.messages;
        }
    } catch (const UserError&) {
        return 0;
    }
    try {
        const jinja::Template program(text.substr(0, end), "input");
        render(program, messages);
    } catch (const UserError&) {
    } catch (const jinja::Failure&) {
    }
    return 0;
}
