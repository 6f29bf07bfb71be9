#include "io/chat/jinja/text.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/value.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace trivium::jinja {

namespace {
thread_local i64 work_left = default_work;
thread_local i64 most_work = INT64_MAX;
/// A step pays for so many bytes: what a rendering makes never exceeds some 200 MB.
constexpr std::size_t bytes_of_step = 8;
} // namespace

WorkLimit::WorkLimit(i64 steps) : before_(work_left) { work_left = std::min(steps, most_work); }
WorkLimit::~WorkLimit() { work_left = before_; }

WorkCap::WorkCap(i64 steps) : before_(most_work) { most_work = std::min(steps, most_work); }
WorkCap::~WorkCap() { most_work = before_; }

void spend(std::size_t steps)
{
    work_left -= static_cast<i64>(steps);
    if (work_left < 0)
        throw Failure{"takes too many steps (an endless loop, or a very long chat)"};
}

void spend_on_items(std::size_t items) { spend(items * (sizeof(Value) / bytes_of_step)); }

void spend_on_text(std::size_t size, std::size_t more)
{
    if (more > max_text || size + more > max_text)
        throw Failure{str("makes a text of more than ", max_text >> 20, " MiB")};
    spend(1 + more / bytes_of_step);
}

void MarkedText::append(std::string_view text)
{
    spend_on_text(text_.size(), text.size());
    text_ += text;
}

void MarkedText::append(const MarkedText& text)
{
    const std::size_t at = text_.size();
    append(std::string_view(text.text_));
    spend(text.marks_.size() * (sizeof(Mark) / bytes_of_step));
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

char32_t next_character(std::string_view text, std::size_t& at)
{
    utf8proc_int32_t character = 0;
    const utf8proc_ssize_t length =
        utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + at,
                         static_cast<utf8proc_ssize_t>(text.size() - at), &character);
    at += length <= 0 ? 1 : static_cast<std::size_t>(length);
    return length <= 0 ? 0xfffd : static_cast<char32_t>(character);
}

void append_character(std::string& text, char32_t character)
{
    utf8proc_uint8_t bytes[4];
    const utf8proc_ssize_t length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
    if (length <= 0)
        text += replacement_character;
    else
        text.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
}

i64 count_characters(std::string_view text)
{
    return static_cast<i64>(text.size()) - std::count_if(text.begin(), text.end(), continues_character);
}

std::size_t offset_of_character(std::string_view text, i64 index)
{
    std::size_t at = 0;
    for (; index > 0 && at < text.size(); --index)
        at = character_begin(text, at + 1);
    return at;
}

namespace {

utf8proc_category_t category_of(char32_t character)
{
    return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

char32_t lower_of(char32_t c)
{
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

constexpr char32_t sharp_s = 0xdf; // the one letter in use that becomes two

} // namespace

bool is_space(char32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

bool is_printable(char32_t c)
{
    const utf8proc_category_t kind = category_of(c);
    return c == ' ' || (kind != UTF8PROC_CATEGORY_CN && kind < UTF8PROC_CATEGORY_ZS);
}

bool is_cased(char32_t c)
{
    const utf8proc_category_t kind = category_of(c);
    return kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_LT;
}

std::string to_upper(std::string_view text)
{
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = next_character(text, at);
        if (c == sharp_s)
            result += "SS";
        else
            append_character(result,
                             static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
    }
    return result;
}

std::string to_lower(std::string_view text)
{
    std::string result;
    for (std::size_t at = 0; at < text.size();)
        append_character(result, lower_of(next_character(text, at)));
    return result;
}

std::string with_capitals(std::string_view text, bool (*begins)(char32_t before))
{
    std::string result;
    char32_t before = 0;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = next_character(text, at);
        if (!begins(before))
            append_character(result, lower_of(c));
        else if (c == sharp_s)
            result += "Ss";
        else
            append_character(result,
                             static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
        before = c;
    }
    return result;
}

std::pair<std::size_t, std::size_t> stripped(std::string_view text, bool left, bool right,
                                             const std::optional<std::string>& characters)
{
    const auto goes = [&](std::string_view character) {
        if (characters)
            return characters->find(character) != std::string::npos;
        std::size_t at = 0;
        return is_space(next_character(character, at));
    };
    std::size_t begin = 0, end = text.size();
    while (left && begin < end) {
        const std::size_t next = std::min(end, character_begin(text, begin + 1));
        if (!goes(text.substr(begin, next - begin)))
            break;
        begin = next;
    }
    while (right && begin < end) {
        std::size_t last = end - 1;
        while (last > begin && continues_character(text[last]))
            --last;
        if (!goes(text.substr(last, end - last)))
            break;
        end = last;
    }
    return {begin, end};
}

} // namespace trivium::jinja
