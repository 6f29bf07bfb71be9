#include "io/chat/trained_spans.hpp"

#include "base/check.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <cctype>

namespace trivium {

namespace {

using jinja::Mark;
using jinja::MarkedText;

std::vector<TextSpan> merged(std::vector<TextSpan> spans)
{
    std::sort(spans.begin(), spans.end(),
              [](const TextSpan& a, const TextSpan& b) { return a.begin < b.begin; });
    std::vector<TextSpan> all;
    for (const TextSpan& span : spans) {
        if (!all.empty() && span.begin <= all.back().end)
            all.back().end = std::max(all.back().end, span.end);
        else
            all.push_back(span);
    }
    return all;
}

std::vector<TextSpan> marks_of(const MarkedText& text, Mark::Kind kind, i32 message)
{
    std::vector<TextSpan> spans;
    for (const Mark& mark : text.marks())
        if (mark.kind == kind && mark.message == message)
            spans.push_back({mark.begin, mark.end});
    return merged(std::move(spans));
}

bool is_within(const TextSpan& part, const TextSpan& whole)
{
    return part.begin >= whole.begin && part.end <= whole.end;
}

/// The end of the last words in front of `limit`.
std::size_t last_words_end(const MarkedText& text, std::size_t limit)
{
    std::size_t end = 0;
    for (const Mark& mark : text.marks())
        if (mark.kind == Mark::Kind::words && mark.begin < limit)
            end = std::max(end, std::min(mark.end, limit));
    return end;
}

std::size_t common_prefix(std::string_view a, std::string_view b)
{
    std::size_t length = static_cast<std::size_t>(
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                      b.begin())
            .first -
        a.begin());
    while (length > 0 && ((length < a.size() && continues_character(a[length])) ||
                          (length < b.size() && continues_character(b[length]))))
        --length;
    return length;
}

bool is_word(char c)
{
    return (c & 0x80) != 0 || std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

/// Where two texts that differ behind `length` bytes part without a word or a token such as <eos> being
/// divided.
std::size_t whole_tokens(std::string_view a, std::string_view b, std::size_t length)
{
    const std::string_view common = a.substr(0, length);
    for (const auto& [open, close] : {std::pair('<', '>'), std::pair('[', ']')})
        if (const std::size_t at = common.rfind(open);
            at != std::string_view::npos && common.find(close, at) == std::string_view::npos)
            return at;
    const auto goes_on = [&](std::string_view text) { return length < text.size() && is_word(text[length]); };
    if (goes_on(a) || goes_on(b))
        while (length > 0 && is_word(a[length - 1]))
            --length;
    return length;
}

std::size_t end_without_blanks(std::string_view text) { return jinja::stripped(text, false, true).second; }

class SpanSearch {
public:
    explicit SpanSearch(const RenderedChat& chat) : chat_(chat), text_(chat.text.text()) {}

    std::vector<TextSpan> run()
    {
        if (chat_.states_spans)
            return stated();
        std::vector<TextSpan> spans;
        for (std::size_t i = 0; i < chat_.trained.size(); ++i)
            if (chat_.trained[i])
                find(static_cast<i32>(i), spans);
        return merged(std::move(spans));
    }

private:
    [[noreturn]] void fail(i32 message, const std::string& reason) const
    {
        throw UserError(
            {chat_.place,
             str("the text of message ", message + 1,
                 " cannot be told from the others in what the template prints"),
             reason,
             "enclose what the assistant says in {% generation %} … {% endgeneration %} in the template"});
    }

    // ---- with {% generation %} ----

    std::vector<TextSpan> stated() const
    {
        std::vector<TextSpan> spans;
        const bool all = every_assistant_is_trained();
        for (const Mark& mark : chat_.text.marks()) {
            if (mark.kind != Mark::Kind::generation)
                continue;
            const TextSpan span{mark.begin, mark.end};
            if (all || is_trained(span))
                spans.push_back(span);
        }
        return merged(std::move(spans));
    }

    bool every_assistant_is_trained() const
    {
        for (std::size_t i = 0; i < chat_.trained.size(); ++i)
            if (!chat_.trained[i] && chat_.messages[i].value("role", "") == "assistant")
                return false;
        return true;
    }

    /// Of the message whose turn or words this span has.
    bool is_trained(const TextSpan& span) const
    {
        for (const Mark::Kind kind : {Mark::Kind::turn, Mark::Kind::words})
            for (const Mark& mark : chat_.text.marks())
                if (mark.kind == kind && mark.begin < span.end && span.begin < mark.end &&
                    (kind == Mark::Kind::words || is_within(span, {mark.begin, mark.end})))
                    return chat_.trained[static_cast<std::size_t>(mark.message)];
        throw UserError({chat_.place, "a {% generation %} of the template cannot be assigned to a message",
                         "only some of the assistant's messages of this chat are trained",
                         "print each message within a loop over the messages"});
    }

    // ---- from turns and words ----

    void find(i32 message, std::vector<TextSpan>& spans)
    {
        const std::vector<TextSpan> words = marks_of(chat_.text, Mark::Kind::words, message);
        std::vector<TextSpan> pieces = marks_of(chat_.text, Mark::Kind::turn, message);
        const auto has_words = [&](const TextSpan& piece) {
            return std::any_of(words.begin(), words.end(),
                               [&](const TextSpan& part) { return is_within(part, piece); });
        };
        if (std::any_of(pieces.begin(), pieces.end(), has_words))
            std::erase_if(pieces, [&](const TextSpan& piece) { return !has_words(piece); });
        else if (!words.empty())
            return find_by_prefixes(message, words, spans);
        else if (pieces.size() > 1)
            pieces.erase(pieces.begin(), pieces.end() - 1);
        if (pieces.empty())
            return; // the template drops this message
        bool first = true;
        for (TextSpan span : pieces) {
            const std::size_t first_words = first_within(words, span);
            if (std::exchange(first, false)) {
                const std::optional<std::size_t> begin = begin_of_answer(message, span, first_words);
                if (!begin)
                    return find_by_prefixes(message, words, spans);
                span.begin = *begin;
            }
            span.end = end_of_turn(span, words);
            require_alone(message, span);
            if (span.begin < span.end)
                spans.push_back(span);
        }
    }

    ChatJson first_messages(i32 count) const
    {
        ChatJson first = ChatJson::array();
        for (i32 i = 0; i < count; ++i)
            first.push_back(chat_.messages[static_cast<std::size_t>(i)]);
        return first;
    }

    static std::size_t first_within(const std::vector<TextSpan>& words, const TextSpan& piece)
    {
        for (const TextSpan& part : words)
            if (is_within(part, piece))
                return part.begin;
        return piece.end;
    }

    /// Where the prompt of the messages before ends, within the turn.
    std::optional<std::size_t> begin_of_answer(i32 message, const TextSpan& turn,
                                               std::size_t first_words) const
    {
        const ChatJson prefix = first_messages(message);
        const std::size_t from = last_words_end(chat_.text, turn.begin);
        if (message > 0) {
            if (const auto prompt = chat_.render(prefix, true)) {
                const std::string_view after =
                    std::string_view(prompt->text()).substr(last_words_end(*prompt, prompt->size()));
                const std::string_view rest = std::string_view(text_).substr(from);
                std::size_t common = common_prefix(after, rest);
                if (common < after.size())
                    common = whole_tokens(after, rest, common);
                const std::size_t end = from + common;
                if (end > turn.begin || common >= end_without_blanks(after))
                    return std::clamp(end, turn.begin, first_words);
                if (const auto header = end_of_header(after, turn, first_words))
                    return header;
            }
        }
        // The template does not render the messages before alone: the header follows any message of a user.
        const ChatJson stand_in{{"role", "user"}, {"content", "x"}};
        const auto prompt = chat_.render(ChatJson::array({stand_in}), true);
        if (!prompt)
            return std::nullopt;
        return end_of_header(std::string_view(prompt->text()).substr(last_words_end(*prompt, prompt->size())),
                             turn, first_words);
    }

    /// Behind the longest end of `prompt` that the turn contains in front of its words.
    std::optional<std::size_t> end_of_header(std::string_view prompt, const TextSpan& turn,
                                             std::size_t first_words) const
    {
        const std::string_view header = std::string_view(text_).substr(turn.begin, first_words - turn.begin);
        for (std::size_t at = 0; at < prompt.size(); ++at) {
            if (continues_character(prompt[at]) || whole_tokens(prompt, prompt, at) != at)
                continue;
            const std::string_view end = prompt.substr(at);
            if (end_without_blanks(end) == 0)
                break;
            if (const std::size_t found = header.find(end); found != std::string_view::npos)
                return turn.begin + found + end.size();
        }
        return std::nullopt;
    }

    /// Behind the last text of the turn that is not blank, and the token that ends a text.
    std::size_t end_of_turn(const TextSpan& turn, const std::vector<TextSpan>& words) const
    {
        std::size_t last_words = turn.begin;
        for (const TextSpan& part : words)
            if (is_within(part, turn))
                last_words = std::max(last_words, part.end);
        const std::size_t end =
            turn.begin +
            end_without_blanks(std::string_view(text_).substr(turn.begin, turn.end - turn.begin));
        if (end > last_words)
            return end;
        const bool eos_follows =
            !chat_.eos.empty() && text_.compare(turn.end, chat_.eos.size(), chat_.eos) == 0;
        return eos_follows ? turn.end + chat_.eos.size() : last_words;
    }

    void require_alone(i32 message, const TextSpan& span) const
    {
        for (const Mark& mark : chat_.text.marks())
            if (mark.kind == Mark::Kind::words && mark.message != message && mark.begin < span.end &&
                span.begin < mark.end)
                fail(message, str("its turn contains text of message ", mark.message + 1));
    }

    /// For templates that print a message outside a loop over the messages.
    void find_by_prefixes(i32 message, const std::vector<TextSpan>& words, std::vector<TextSpan>& spans) const
    {
        const auto prompt = chat_.render(first_messages(message), true);
        const auto answer = chat_.render(first_messages(message + 1), false);
        if (!prompt || !answer)
            fail(message,
                 "it is not printed within a loop over the messages, and the template does not render the "
                 "messages before it alone");
        const TextSpan span{prompt->size(), end_without_blanks(answer->text())};
        if (!text_.starts_with(prompt->text()) ||
            text_.compare(0, span.end, answer->text(), 0, span.end) != 0)
            fail(
                message,
                "it is not printed within a loop over the messages, and the chat does not begin like that of "
                "the messages before it");
        for (const TextSpan& part : words)
            if (!is_within(part, {span.begin, std::max(span.end, answer->size())}))
                fail(message, "parts of it are printed elsewhere");
        require_alone(message, span);
        if (span.begin < span.end)
            spans.push_back(span);
    }

    const RenderedChat& chat_;
    const std::string& text_;
};

} // namespace

std::vector<TextSpan> trained_spans(const RenderedChat& chat) { return SpanSearch(chat).run(); }

} // namespace trivium
