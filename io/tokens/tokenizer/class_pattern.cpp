#include "io/tokens/tokenizer/class_pattern.hpp"

#include "io/files/utf8.hpp"
#include "io/tokens/tokenizer/character.hpp"
#include "io/tokens/tokenizer/code_set.hpp"

#include <algorithm>
#include <bit>
#include <cctype>
#include <map>
#include <optional>
#include <string>

namespace trivium {

namespace {

constexpr std::uint32_t unlimited = ~std::uint32_t{0};
constexpr std::size_t max_classes = 32, max_alternatives = 32, max_items = 16;

} // namespace

/// Reads a pattern; any function returns false at syntax that it does not know.
struct ClassPattern::Reader {
    std::string_view rest;
    std::map<CodeSet, Mask> classes{}; ///< the bit of each class

    bool next_is(std::string_view text) const { return rest.starts_with(text); }
    bool take(std::string_view text)
    {
        if (!next_is(text))
            return false;
        rest.remove_prefix(text.size());
        return true;
    }

    bool take_number(std::uint32_t& number)
    {
        const std::string_view before = rest;
        number = 0;
        while (!rest.empty() && rest[0] >= '0' && rest[0] <= '9' && number < 1000) {
            number = 10 * number + static_cast<std::uint32_t>(rest[0] - '0');
            rest.remove_prefix(1);
        }
        return rest.size() < before.size() && number < 1000;
    }

    bool bit_of(const CodeSet& set, Mask& bit)
    {
        if (set.empty() || (classes.size() == max_classes && !classes.contains(set)))
            return false;
        bit = classes.emplace(set, Mask{1} << classes.size()).first->second;
        return true;
    }

    /// After '\'.
    bool read_escape(CodeSet& set, std::optional<std::uint32_t>& code)
    {
        if (rest.empty())
            return false;
        const char c = rest[0];
        rest.remove_prefix(1);
        if (c == 'p' || c == 'P') {
            const std::size_t close = rest.find('}');
            if (!take("{") || close == std::string_view::npos)
                return false;
            const bool negated = take("^") != (c == 'P');
            const auto found = code_class(rest.substr(0, rest.find('}')));
            rest.remove_prefix(rest.find('}') + 1);
            if (!found)
                return false;
            set = negated ? complement(*found) : *found;
            return true;
        }
        constexpr std::string_view classes_of = "sSdDwW", characters = "rntf", values = "\r\n\t\f";
        if (const std::size_t at = classes_of.find(c); at != std::string_view::npos) {
            const auto found = code_class(at < 2   ? CodeClass::space
                                          : at < 4 ? CodeClass::digit
                                                   : CodeClass::word);
            if (!found)
                return false;
            set = at % 2 == 0 ? *found : complement(*found);
            return true;
        }
        if (const std::size_t at = characters.find(c); at != std::string_view::npos)
            code = static_cast<std::uint32_t>(values[at]);
        else if (static_cast<unsigned char>(c) < 0x80 && std::ispunct(static_cast<unsigned char>(c)) != 0)
            code = static_cast<std::uint32_t>(c);
        return code.has_value();
    }

    bool read_character(std::optional<std::uint32_t>& code)
    {
        const std::size_t length = rest.empty() ? 0 : first_character(rest);
        if (length == 0)
            return false;
        code = code_point(rest.data());
        rest.remove_prefix(length);
        return true;
    }

    /// An escape or a character; `code` is set if it is a single character, otherwise `set`.
    bool read_one(CodeSet& set, std::optional<std::uint32_t>& code)
    {
        return take("\\") ? read_escape(set, code) : read_character(code);
    }

    /// After '['.
    bool read_class(CodeSet& set)
    {
        const bool negated = take("^");
        CodeSet all;
        for (bool first = true; !take("]"); first = false) {
            CodeSet part;
            std::optional<std::uint32_t> from;
            if (next_is("[") || next_is("&&") || (first && next_is("]")) || !read_one(part, from))
                return false;
            if (from && next_is("-") && !next_is("-]")) {
                rest.remove_prefix(1);
                CodeSet ignored;
                std::optional<std::uint32_t> to;
                if (next_is("[") || next_is("&&") || !read_one(ignored, to) || !to || *to < *from)
                    return false;
                part = {{*from, *to}};
            } else if (from)
                part = {{*from, *from}};
            else if (next_is("-") && !next_is("-]"))
                return false;
            all.insert(all.end(), part.begin(), part.end());
        }
        set = joined(std::move(all));
        if (negated)
            set = complement(set);
        return !set.empty();
    }

    /// One character, escape or class.
    bool read_set(CodeSet& set)
    {
        if (take("["))
            return read_class(set);
        constexpr std::string_view special = ".^$*+?()[]{}|";
        std::optional<std::uint32_t> code;
        if (rest.empty() || special.find(rest[0]) != std::string_view::npos || !read_one(set, code))
            return false;
        if (code)
            set = {{*code, *code}};
        return true;
    }

    /// Adds the other cases. Only for sets of ASCII characters.
    static bool fold(CodeSet& set)
    {
        CodeSet all = set;
        for (const auto& [from, to] : set) {
            if (to >= 0x80)
                return false;
            for (std::uint32_t code = from; code <= to; ++code) {
                if (std::isalpha(static_cast<int>(code)) == 0)
                    continue;
                all.emplace_back(code ^ 0x20, code ^ 0x20);
                if ((code | 0x20) == 's')
                    all.emplace_back(0x17f, 0x17f); // long s
                if ((code | 0x20) == 'k')
                    all.emplace_back(0x212a, 0x212a); // the Kelvin sign
            }
        }
        set = joined(std::move(all));
        return true;
    }

    /// "a|b|c)" after "(?:" or "(?i:": sequences of classes without repetition.
    bool read_words(bool any_case, std::vector<std::vector<Mask>>& words)
    {
        words.emplace_back();
        char before = 0; // a letter: some pairs of letters fold to one character ("ss", "fi")
        while (!take(")")) {
            if (take("|")) {
                words.emplace_back();
                before = 0;
                continue;
            }
            CodeSet set;
            const char here = rest.empty() ? '\0' : rest[0];
            if (!read_set(set) || (any_case && !fold(set)) || next_is("?") || next_is("*") || next_is("+") ||
                next_is("{"))
                return false;
            const bool pairs = std::string_view("fsFS").find(before) != std::string_view::npos && before != 0;
            if (any_case && pairs && std::isalpha(static_cast<unsigned char>(here)) != 0)
                return false;
            before = here;
            Mask bit = 0;
            if (!bit_of(set, bit))
                return false;
            words.back().push_back(bit);
        }
        return std::ranges::none_of(words, [](const auto& word) { return word.empty(); });
    }

    bool read_count(Item& item)
    {
        bool braces = false;
        if (take("?"))
            item.min = 0;
        else if (take("*")) {
            item.min = 0;
            item.max = unlimited;
        } else if (take("+"))
            item.max = unlimited;
        else if (take("{")) {
            braces = true;
            if (!take_number(item.min))
                return false;
            item.max = item.min;
            if (take(",") && !take_number(item.max))
                item.max = unlimited;
            if (!take("}") || item.max < item.min || item.max == 0)
                return false;
        } else
            return true;
        if (!braces && take("+"))
            item.possessive = true;
        return !next_is("?") && !next_is("+") && !next_is("*") && !next_is("{");
    }

    bool read_item(Item& item)
    {
        CodeSet set;
        if (take("(?!")) {
            item.kind = Item::Kind::not_before;
            return read_set(set) && take(")") && bit_of(set, item.bit);
        }
        const bool any_case = next_is("(?i:");
        if (take("(?i:") || take("(?:")) {
            item.kind = Item::Kind::one_of;
            if (!read_words(any_case, item.words))
                return false;
            if (take("?"))
                item.min = 0;
            return !next_is("?") && !next_is("*") && !next_is("+") && !next_is("{");
        }
        return read_set(set) && bit_of(set, item.bit) && read_count(item);
    }

    bool read(std::vector<Sequence>& alternatives)
    {
        alternatives.emplace_back();
        while (!rest.empty()) {
            if (take("|")) {
                alternatives.emplace_back();
                continue;
            }
            Item item;
            if (!read_item(item))
                return false;
            alternatives.back().push_back(std::move(item));
        }
        return alternatives.size() <= max_alternatives &&
               std::ranges::all_of(alternatives, [](const Sequence& each) {
                   // What does not repeat without end is matched in constant time.
                   const auto endless =
                       std::ranges::count_if(each, [](const Item& i) { return i.max == unlimited; });
                   return each.size() <= max_items && endless <= 2 &&
                          std::ranges::any_of(each, [](const Item& i) {
                              return i.kind != Item::Kind::not_before && i.min > 0;
                          });
               });
    }
};

std::shared_ptr<const ClassPattern> ClassPattern::parse(std::string_view pattern)
{
    Reader reader{pattern};
    auto result = std::make_shared<ClassPattern>();
    if (pattern.empty() || first_invalid_utf8(pattern) >= 0 || !reader.read(result->alternatives_))
        return nullptr;
    std::vector<Mask> masks(last_code + 1, 0);
    for (const auto& [set, bit] : reader.classes)
        for (const auto& [from, to] : set)
            for (std::uint32_t code = from; code <= to; ++code)
                masks[code] |= bit;
    std::copy_n(masks.begin(), 128, result->ascii_.begin());
    std::map<std::array<Mask, 256>, std::uint16_t> known;
    for (std::size_t begin = 0; begin <= last_code; begin += 256) {
        std::array<Mask, 256> block{};
        std::copy_n(masks.begin() + static_cast<std::ptrdiff_t>(begin), 256, block.begin());
        const auto [at, is_new] = known.emplace(block, static_cast<std::uint16_t>(result->blocks_.size()));
        if (is_new)
            result->blocks_.push_back(block);
        result->block_of_.push_back(at->second);
    }
    // A shorter repetition does not help if the next class has none of its characters.
    for (Sequence& sequence : result->alternatives_)
        for (std::size_t i = 0; i + 1 < sequence.size(); ++i) {
            const Item& next = sequence[i + 1];
            const bool fixed = next.kind == Item::Kind::repeat && next.min > 0;
            sequence[i].gives_back = !fixed || std::ranges::any_of(masks, [&](Mask mask) {
                return (mask & sequence[i].bit) != 0 && (mask & next.bit) != 0;
            });
        }
    result->prepare();
    return result;
}

void ClassPattern::prepare()
{
    const auto words_begin = [](const Item& item) {
        Mask all = 0;
        for (const auto& word : item.words)
            all |= word.front();
        return all;
    };
    for (const Sequence& sequence : alternatives_) {
        Mask first = 0;
        for (const Item& item : sequence) {
            if (item.kind == Item::Kind::not_before)
                continue;
            first |= item.kind == Item::Kind::one_of ? words_begin(item) : item.bit;
            if (item.min > 0)
                break;
        }
        first_.push_back(first);
    }
    for (std::size_t code = 0; code < ascii_.size(); ++code)
        for (std::size_t i = 0; i < first_.size(); ++i)
            if ((ascii_[code] & first_[i]) != 0)
                ascii_candidates_[code] |= std::uint32_t{1} << i;

    Mask letters = 0;
    for (char c = 'a'; c <= 'z'; ++c)
        letters |= ascii_[static_cast<std::size_t>(c)] | ascii_[static_cast<std::size_t>(c - 'a' + 'A')];
    const Mask space = ascii_[' '];
    bool touches = false, crosses = false; // matches may have letters or spaces; a letter before a space
    for (const Sequence& sequence : alternatives_) {
        bool after_letter = false; // the items so far may end with a letter
        for (const Item& item : sequence) {
            if (item.kind == Item::Kind::not_before) {
                crosses = crosses || after_letter;
                continue;
            }
            Mask all = item.bit;
            bool inside = item.max > 1 && (item.bit & letters) != 0 && (item.bit & space) != 0;
            for (const auto& word : item.words)
                for (std::size_t i = 0; i < word.size(); ++i) {
                    all |= word[i];
                    inside = inside || (i > 0 && (word[i - 1] & letters) != 0 && (word[i] & space) != 0);
                }
            touches = touches || (all & (letters | space)) != 0;
            crosses = crosses || inside || (after_letter && (all & space) != 0);
            after_letter = (after_letter && item.min == 0) || (all & letters) != 0;
        }
    }
    ignores_words_ = !touches;
    cuts_before_words_ = !crosses;
    for (char c = 'A'; c <= 'z' && cuts_before_words_; ++c) {
        if (c > 'Z' && c < 'a')
            continue;
        u64 steps = 100;
        const std::string word{' ', c};
        cuts_before_words_ = match(word, 0, steps) != std::string_view::npos && match(word, 1, steps) == 2;
    }
}

ClassPattern::Mask ClassPattern::classes_at(const char* at, const char* end, std::size_t& length) const
{
    if (at == end) {
        length = 0;
        return 0;
    }
    if (const auto lead = static_cast<unsigned char>(*at); lead < 0x80) {
        length = 1;
        return ascii_[lead];
    }
    length = character_length(*at);
    const std::uint32_t code = code_point(at);
    return blocks_[block_of_[code >> 8]][code & 0xff];
}

const char* ClassPattern::match(const Item* item, const Item* last, const char* at, const char* end,
                                u64& steps) const
{
    std::size_t length = 0;
    for (; item != last; ++item) {
        if (item->kind == Item::Kind::not_before) {
            if ((classes_at(at, end, length) & item->bit) != 0)
                return nullptr;
            continue;
        }
        if (item->kind == Item::Kind::one_of) {
            for (const std::vector<Mask>& word : item->words) {
                const char* after = at;
                const bool matches = std::ranges::all_of(word, [&](Mask bit) {
                    const bool in = (classes_at(after, end, length) & bit) != 0;
                    after += length;
                    return in;
                });
                if (const char* const found = matches ? match(item + 1, last, after, end, steps) : nullptr)
                    return found;
            }
            if (item->min > 0)
                return nullptr;
            continue;
        }
        const Mask bit = item->bit;
        std::uint32_t count = 0;
        for (; count < item->max && at != end; ++count) {
            const auto lead = static_cast<unsigned char>(*at);
            if (lead < 0x80) {
                if ((ascii_[lead] & bit) == 0)
                    break;
                ++at;
                continue;
            }
            if ((classes_at(at, end, length) & bit) == 0)
                break;
            at += length;
        }
        if (count < item->min)
            return nullptr;
        if (item + 1 == last)
            return at;
        if (item->possessive || !item->gives_back || count == item->min)
            continue;
        for (;; --count) {
            if (const char* const found = match(item + 1, last, at, end, steps))
                return found;
            if (count == item->min || steps == 0)
                return nullptr;
            --steps;
            do
                --at;
            while (continues_character(*at));
        }
    }
    return at;
}

std::size_t ClassPattern::match(std::string_view text, std::size_t at, u64& steps) const
{
    const char *const begin = text.data() + at, *const end = text.data() + text.size();
    std::uint32_t candidates = 0;
    if (const auto lead = static_cast<unsigned char>(*begin); lead < 0x80)
        candidates = ascii_candidates_[lead];
    else {
        std::size_t length = 0;
        const Mask classes = classes_at(begin, end, length);
        for (std::size_t i = 0; i < first_.size(); ++i)
            candidates |= std::uint32_t{(classes & first_[i]) != 0} << i;
    }
    for (; candidates != 0; candidates &= candidates - 1) {
        const Sequence& sequence = alternatives_[static_cast<std::size_t>(std::countr_zero(candidates))];
        if (const char* const found =
                match(sequence.data(), sequence.data() + sequence.size(), begin, end, steps))
            return static_cast<std::size_t>(found - text.data());
    }
    return std::string_view::npos;
}

} // namespace trivium
