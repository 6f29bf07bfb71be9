#include "io/chat/jinja/marked_text.hpp"

#include "io/chat/jinja/limits.hpp"

#include <algorithm>

namespace trivium::jinja {

void MarkedText::append(std::string_view text)
{
    spend_on_text(text_.size(), text.size());
    text_ += text;
}

void MarkedText::append(const MarkedText& text)
{
    const std::size_t at = text_.size();
    append(std::string_view(text.text_));
    spend(text.marks_.size());
    for (const Mark& mark : text.marks_)
        this->mark(at + mark.begin, at + mark.end, mark.kind, mark.message);
}

MarkedText MarkedText::part(std::size_t begin, std::size_t end) const
{
    MarkedText part;
    if (begin >= end)
        return part;
    part.append(std::string_view(text_).substr(begin, end - begin));
    spend(marks_.size());
    for (const Mark& mark : marks_) {
        const std::size_t from = std::max(mark.begin, begin), to = std::min(mark.end, end);
        if (from < to)
            part.marks_.push_back({from - begin, to - begin, mark.kind, mark.message});
    }
    return part;
}

void MarkedText::mark(std::size_t begin, std::size_t end, Mark::Kind kind, i32 message)
{
    if (begin >= end)
        return;
    // Words of neighbouring parts are those of one.
    if (kind == Mark::Kind::words && !marks_.empty()) {
        Mark& last = marks_.back();
        if (last.kind == kind && last.message == message && last.end == begin) {
            last.end = end;
            return;
        }
    }
    marks_.push_back({begin, end, kind, message});
}

MarkedText MarkedText::with_text(std::string text) const
{
    MarkedText result(std::move(text));
    if (result.size() == size())
        result.marks_ = marks_;
    return result;
}

} // namespace trivium::jinja
