#include "io/tokens/tokenizer/charsmap.hpp"

#include "base/check.hpp"
#include "io/files/utf8.hpp"
#include "io/tokens/tokenizer/character.hpp"

#include <array>
#include <utf8proc.h>

namespace trivium {

namespace {

using u32 = std::uint32_t;

constexpr std::size_t longest_replacement = 1024; ///< in bytes; the rules of Unicode have up to 33

/// The bytes of a text in base 64, RFC 4648; nullopt if it is none.
std::optional<std::string> from_base64(std::string_view text)
{
    constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::array<std::uint8_t, 256> value_of{};
    value_of.fill(64);
    for (std::size_t i = 0; i < digits.size(); ++i)
        value_of[static_cast<unsigned char>(digits[i])] = static_cast<std::uint8_t>(i);
    if (text.size() % 4 != 0)
        return {};
    for (int padding = 0; padding < 2 && text.ends_with('='); ++padding)
        text.remove_suffix(1);
    std::string bytes;
    bytes.reserve(text.size() / 4 * 3 + 2);
    u32 bits = 0;
    int count = 0;
    for (const char c : text) {
        const u32 value = value_of[static_cast<unsigned char>(c)];
        if (value == 64)
            return {};
        bits = bits << 6 | value;
        count += 6;
        if (count >= 8) {
            count -= 8;
            bytes += static_cast<char>(bits >> count & 0xff);
        }
    }
    return bytes;
}

u32 number_at(std::string_view bytes, std::size_t at)
{
    u32 number = 0;
    for (std::size_t i = 4; i-- > 0;)
        number = number << 8 | static_cast<unsigned char>(bytes[at + i]);
    return number;
}

// A unit of the trie is a value, or a node: the byte that leads to it, and where its children are. Unit `at`
// has the child by byte b at `at ^ offset ^ b`, and its value, if it has one, at `at ^ offset`.
bool is_value(u32 unit) { return unit >> 31 != 0; }
bool has_value(u32 unit) { return (unit >> 8 & 1) != 0; }
std::size_t offset_of(u32 unit) { return std::size_t{unit >> 10} << ((unit >> 9 & 1) * 8); }
std::size_t number_of_value(u32 unit) { return unit & 0x7fffffff; }

/// The end of the grapheme cluster that begins at `at`.
std::size_t cluster_end(std::string_view text, std::size_t at)
{
    utf8proc_int32_t state = 0;
    for (;;) {
        const std::size_t next = at + character_length(text[at]);
        if (next >= text.size())
            return text.size();
        // Between ASCII characters, only \r\n is one cluster.
        const auto left = static_cast<unsigned char>(text[at]),
                   right = static_cast<unsigned char>(text[next]);
        const bool ends = left < 0x80 && right < 0x80
                              ? left != '\r' || right != '\n'
                              : utf8proc_grapheme_break_stateful(
                                    static_cast<utf8proc_int32_t>(code_point(&text[at])),
                                    static_cast<utf8proc_int32_t>(code_point(&text[next])), &state);
        if (ends)
            return next;
        at = next;
    }
}

} // namespace

std::shared_ptr<const Charsmap> Charsmap::parse(std::string_view base64, std::string& problem)
{
    const std::optional<std::string> bytes = from_base64(base64);
    if (!bytes) {
        problem = "it is not base 64";
        return nullptr;
    }
    const std::size_t size = bytes->size() < 4 ? 0 : number_at(*bytes, 0);
    if (size == 0 || size % 4 != 0 || size > bytes->size() - 4) {
        problem = str("it has ", bytes->size(), " bytes and states a trie of ", size);
        return nullptr;
    }
    auto map = std::make_shared<Charsmap>();
    map->units_.reserve(size / 4);
    for (std::size_t at = 4; at < 4 + size; at += 4)
        map->units_.push_back(number_at(*bytes, at));
    map->values_ = bytes->substr(4 + size);
    problem = map->why_damaged();
    return problem.empty() ? map : nullptr;
}

std::string Charsmap::why_damaged() const
{
    if (is_value(units_[0]))
        return "its trie has no root";
    if (first_invalid_utf8(values_) >= 0)
        return "its replacements are not UTF-8";
    for (std::size_t at = 0; at < units_.size(); ++at) {
        if (is_value(units_[at]))
            continue;
        const std::size_t children = at ^ offset_of(units_[at]);
        if ((children | 0xff) >= units_.size())
            return str("unit ", at, " of its trie refers to unit ", children | 0xff, " of ", units_.size());
        if (!has_value(units_[at]))
            continue;
        const std::size_t begin = number_of_value(units_[children]);
        if (begin > values_.size() || (begin < values_.size() && continues_character(values_[begin])))
            return str("its trie refers to byte ", begin, " of ", values_.size(), " bytes of replacements");
        const std::string_view rest = std::string_view(values_).substr(begin);
        if (rest.substr(0, longest_replacement + 1).find('\0') == rest.npos &&
            rest.size() > longest_replacement)
            return str("the replacement at byte ", begin, " has more than ", longest_replacement, " bytes");
    }
    return "";
}

std::optional<std::string_view> Charsmap::find(std::string_view text) const
{
    std::size_t at = offset_of(units_[0]);
    for (const char c : text) {
        const auto byte = static_cast<unsigned char>(c);
        if (byte == 0)
            break;
        at ^= byte;
        const u32 unit = units_[at];
        if (is_value(unit) || (unit & 0xff) != byte)
            break;
        at ^= offset_of(unit);
        if (has_value(unit)) {
            const std::string_view rest = std::string_view(values_).substr(number_of_value(units_[at]));
            return rest.substr(0, rest.find('\0'));
        }
    }
    return {};
}

std::string Charsmap::apply(std::string_view text) const
{
    constexpr std::size_t long_cluster = 6;
    std::string result;
    result.reserve(text.size() + text.size() / 4);
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = cluster_end(text, at);
        if (end - at < long_cluster)
            if (const auto whole = find(text.substr(at, end - at))) {
                result += *whole;
                at = end;
                continue;
            }
        while (at < end) {
            const std::string_view character = text.substr(at, character_length(text[at]));
            result += find(character).value_or(character);
            at += character.size();
        }
    }
    return result;
}

} // namespace trivium
