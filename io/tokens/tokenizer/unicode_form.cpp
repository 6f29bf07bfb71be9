#include "io/tokens/tokenizer/unicode_form.hpp"

#include "base/check.hpp"
#include "io/tokens/tokenizer/character.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace trivium {

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20; ///< the library needs about 4 times as much memory

/// Whether the form changes none of these characters, alone and next to each other: below U+0300 in NFC,
/// below U+0080 in the others.
bool is_inert(UnicodeForm form, std::string_view text)
{
    const int first = form == UnicodeForm::nfc ? 0xcc : 0x80;
    return std::ranges::none_of(text, [&](char c) { return static_cast<unsigned char>(c) >= first; });
}

void append_form(UnicodeForm form, std::string_view text, std::string& to)
{
    if (is_inert(form, text)) {
        to += text;
        return;
    }
    const bool composed = form == UnicodeForm::nfc || form == UnicodeForm::nfkc;
    const bool compatible = form == UnicodeForm::nfkc || form == UnicodeForm::nfkd;
    utf8proc_uint8_t* mapped = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
        &mapped,
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composed ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                       (compatible ? UTF8PROC_COMPAT : 0)));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(mapped, &std::free);
    TRV_CHECK(size >= 0, "utf8proc: ", utf8proc_errmsg(size));
    to.append(reinterpret_cast<const char*>(mapped), static_cast<std::size_t>(size));
}

enum class Change { keep, drop, to_space };

template <class ChangeOf>
std::string with_changes(std::string_view text, const ChangeOf& change_of)
{
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0, length = 0; at < text.size(); at += length) {
        length = character_length(text[at]);
        const Change change = change_of(code_point(&text[at]));
        if (change == Change::keep)
            result += text.substr(at, length);
        else if (change == Change::to_space)
            result += ' ';
    }
    return result;
}

} // namespace

std::string to_form(UnicodeForm form, std::string_view text)
{
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        // A newline neither composes nor is reordered, so the text before it can be normalized separately.
        const std::size_t end =
            text.size() <= block_bytes ? std::string_view::npos : text.find('\n', block_bytes);
        append_form(form, text.substr(0, end), result);
        text.remove_prefix(std::min(end, text.size()));
    }
    return result;
}

std::string to_lower(std::string_view text)
{
    std::string result;
    result.reserve(text.size());
    for (std::size_t at = 0; at < text.size(); at += character_length(text[at])) {
        const std::uint32_t code = code_point(&text[at]);
        if (code < 0x80) {
            result += static_cast<char>(code >= 'A' && code <= 'Z' ? code | 0x20 : code);
        } else if (code == 0x130) { // the only character whose lower case is two
            result += "i\xcc\x87";
        } else {
            utf8proc_uint8_t bytes[4];
            const utf8proc_ssize_t length =
                utf8proc_encode_char(utf8proc_tolower(static_cast<utf8proc_int32_t>(code)), bytes);
            result.append(reinterpret_cast<const char*>(bytes), static_cast<std::size_t>(length));
        }
    }
    return result;
}

std::string without_marks(std::string_view text)
{
    const auto is_mark = [](std::uint32_t code) {
        const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(code));
        return category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
               category == UTF8PROC_CATEGORY_ME;
    };
    return with_changes(text,
                        [&](std::uint32_t code) { return is_mark(code) ? Change::drop : Change::keep; });
}

std::string without_controls(std::string_view text)
{
    return with_changes(text, [](std::uint32_t code) {
        const bool space = code == '\t' || code == '\n' || code == '\f' || code == '\r' || code == 0x1680 ||
                           (code >= 0x200b && code <= 0x200f) || code == 0x2028 || code == 0x2029 ||
                           code == 0x2581 || code == 0xfeff || code == 0xfffd;
        const bool control = (code > 0 && code < 0x20) || code == 0x7f || code == 0x8f || code == 0x9f;
        return space ? Change::to_space : control ? Change::drop : Change::keep;
    });
}

} // namespace trivium
