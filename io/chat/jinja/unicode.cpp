#include "io/chat/jinja/unicode.hpp"

#include "io/files/utf8.hpp"

#include <algorithm>
#include <utf8proc.h>

namespace trivium::jinja {

char32_t next_character(std::string_view text, std::size_t& at)
{
    const auto lead = static_cast<unsigned char>(text[at]);
    if (lead < 0x80) {
        ++at;
        return lead;
    }
    const std::size_t length = first_character(text.substr(at));
    if (length == 0) {
        ++at;
        return 0xfffd;
    }
    char32_t character = lead & (0xffu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i)
        character = character << 6 | (static_cast<unsigned char>(text[at + i]) & 0x3fu);
    at += length;
    return character;
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

char32_t upper_of(char32_t c)
{
    return static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c)));
}
char32_t lower_of(char32_t c)
{
    return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}
char32_t title_of(char32_t c)
{
    return static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c)));
}

/// `change(character)` of each.
template <class Change>
std::string changed(std::string_view text, const Change& change)
{
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0; at < text.size();) {
        const char32_t character = next_character(text, at);
        append_character(result, change(character));
    }
    return result;
}

} // namespace

bool is_space(char32_t c)
{
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 32) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
           c == 0x3000;
}

bool is_printable(char32_t c)
{
    if (c == ' ')
        return true;
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP: return false;
    default: return true;
    }
}

bool is_letter(char32_t c)
{
    switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
    }
}

bool is_upper(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LL; }
bool is_title(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_LT; }
bool is_decimal(char32_t c) { return category_of(c) == UTF8PROC_CATEGORY_ND; }
bool is_digit(char32_t c)
{
    return is_decimal(c) || c == 0xb2 || c == 0xb3 || c == 0xb9 || c == 0x2070 ||
           (c >= 0x2074 && c <= 0x2079) || (c >= 0x2080 && c <= 0x2089) || (c >= 0x2460 && c <= 0x2468);
}
bool is_numeric(char32_t c)
{
    const utf8proc_category_t category = category_of(c);
    return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
           category == UTF8PROC_CATEGORY_NO;
}

std::string to_upper(std::string_view text)
{
    std::string result;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t character = next_character(text, at);
        if (character == 0xdf) // the one letter in use that becomes two
            result += "SS";
        else
            append_character(result, upper_of(character));
    }
    return result;
}

std::string to_lower(std::string_view text) { return changed(text, lower_of); }

std::string to_capitalized(std::string_view text)
{
    bool first = true;
    return changed(text, [&](char32_t c) {
        const bool begins = first;
        first = false;
        return begins ? title_of(c) : lower_of(c);
    });
}

std::string to_title(std::string_view text)
{
    bool in_word = false;
    return changed(text, [&](char32_t c) {
        const char32_t shown = in_word ? lower_of(c) : title_of(c);
        in_word = is_upper(c) || is_lower(c) || is_title(c);
        return shown;
    });
}

std::string swapped_case(std::string_view text)
{
    return changed(text, [](char32_t c) {
        return is_upper(c) ? lower_of(c) : is_lower(c) ? upper_of(c) : c;
    });
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
