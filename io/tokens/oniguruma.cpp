#include "io/tokens/oniguruma.hpp"

#include "base/check.hpp"
#include "io/files/strict_json.hpp"

#include <algorithm>
#include <array>

namespace trivium {

namespace {

// Inside of a class. The last of each is a range or a property, so that a hyphen behind it stays a hyphen.
// PCRE2's own \s has U+180E besides, its \w neither marks nor all numbers.
constexpr std::string_view spaces =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{2000}-\x{200a})";
constexpr std::string_view no_spaces =
    R"(\x00-\x08\x0e-\x1f\x21-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
constexpr std::size_t longest_pattern = 16384;

constexpr std::array<std::string_view, 7> groups{"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:"};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

class Translation {
public:
    Translation(std::string_view pattern, const std::string& place) : in_(pattern), place_(place) {}

    std::string run()
    {
        if (in_.size() > longest_pattern)
            refuse(str("of ", in_.size(), " bytes"));
        while (at_ < in_.size())
            step();
        return std::move(out_);
    }

private:
    [[noreturn]] void refuse(const std::string& what) const
    {
        throw UserError({place_, "splits text by a pattern " + what, "the pattern is " + in_quotes(in_),
                         "use another tokenizer; this program runs what GPT-2, Llama 3 and their like have"});
    }

    char peek(std::size_t ahead = 0) const { return at_ + ahead < in_.size() ? in_[at_ + ahead] : '\0'; }
    std::string_view rest() const { return in_.substr(at_); }
    void copy(std::size_t count)
    {
        out_ += in_.substr(at_, count);
        at_ += count;
    }

    void step()
    {
        switch (peek()) {
        case '\\': escape(false); break;
        case '[': character_class(); break;
        case '(': group(); break;
        case '{': interval(); break;
        default: copy(1);
        }
    }

    void group()
    {
        if (peek(1) != '?' && peek(1) != '*')
            return copy(1);
        const auto known = std::find_if(groups.begin(), groups.end(),
                                        [&](std::string_view group) { return rest().starts_with(group); });
        if (known == groups.end())
            refuse("with a group " + in_quotes(rest().substr(0, 4)));
        copy(known->size());
    }

    /// {n} {n,} {n,m} {,m}; any other brace stands for itself.
    void interval()
    {
        std::size_t end = at_ + 1;
        while (end < in_.size() && (is_digit(in_[end]) || in_[end] == ','))
            ++end;
        const std::string_view inside = in_.substr(at_ + 1, end - at_ - 1);
        const auto commas = std::count(inside.begin(), inside.end(), ',');
        if (end == in_.size() || in_[end] != '}' || commas > 1 || inside.empty() || inside == ",") {
            out_ += '\\';
            return copy(1);
        }
        out_ += inside.front() == ',' ? "{0" : "{";
        out_ += inside;
        out_ += '}';
        at_ = end + 1;
        if (peek() == '+' || (peek() == '?' && commas == 0))
            refuse(str("with {", inside, "}", peek()));
    }

    void character_class()
    {
        copy(1);
        if (peek() == '^')
            copy(1);
        if (peek() == ']')
            refuse("with an empty class");
        for (bool first = true, range = false; peek() != ']'; first = false) {
            if (at_ >= in_.size())
                refuse("with a class that does not end");
            if (peek() == '[' || rest().starts_with("&&"))
                refuse("with a class inside of a class");
            const bool hyphen = peek() == '-' && !first;
            if (peek() == '\\')
                escape(true, range);
            else
                copy(1);
            range = hyphen;
        }
        copy(1);
    }

    /// What stands for several characters, in a class or outside; it ends no range.
    void several(std::string_view members, bool inside, bool range)
    {
        if (range)
            refuse("with a range that ends in a class");
        out_ += inside ? std::string(members) : str("[", members, "]");
        at_ += 2;
    }

    void escape(bool inside, bool range = false)
    {
        const char c = peek(1);
        if (at_ + 1 >= in_.size())
            refuse("that ends in a backslash");
        switch (c) {
        case 's': return several(spaces, inside, range);
        case 'S': return several(no_spaces, inside, range);
        case 'd': return several(R"(\p{Nd})", inside, range);
        case 'D': return several(R"(\P{Nd})", inside, range);
        case 'p':
        case 'P': return property(inside, range);
        case 'n':
        case 'r':
        case 't':
        case 'f': return copy(2);
        case 'v':
            out_ += R"(\x0b)";
            at_ += 2;
            return;
        case 'x':
        case 'u': return code_point();
        default: break;
        }
        if (is_letter(c) || is_digit(c))
            refuse("with " + in_quotes(rest().substr(0, 2)));
        if (static_cast<unsigned char>(c) < 0x80)
            return copy(2);
        ++at_; // the character stands for itself, and PCRE2 wants no backslash before it
    }

    /// \p{L}, \p{Lu}: a general category. \p{Han}: a script, of which PCRE2 would take the extensions too.
    void property(bool inside, bool range)
    {
        const std::size_t end = in_.find('}', at_);
        if (peek(2) != '{' || end == std::string_view::npos)
            refuse("with " + in_quotes(rest().substr(0, 4)));
        std::string name(in_.substr(at_ + 3, end - at_ - 3));
        bool negated = peek(1) == 'P';
        if (name.starts_with('^')) {
            negated = !negated;
            name.erase(0, 1);
        }
        if (name.empty() ||
            !std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || c == '_'; }))
            refuse("with a property " + in_quotes(name));
        const std::string property =
            str(negated ? R"(\P{)" : R"(\p{)", name.size() > 2 ? "sc:" : "", name, "}");
        several(property, inside, range);
        at_ = end + 1;
    }

    /// \x41, \x{41}, \u0041.
    void code_point()
    {
        const char kind = peek(1);
        at_ += 2;
        const bool braces = kind == 'x' && peek() == '{';
        if (braces)
            ++at_;
        const std::size_t begin = at_, most = braces ? 6 : kind == 'x' ? 2 : 4;
        while (at_ < in_.size() && at_ < begin + most && is_hex(in_[at_]))
            ++at_;
        const std::string digits(in_.substr(begin, at_ - begin));
        const bool complete = kind == 'u' ? digits.size() == 4 : !digits.empty();
        if (!complete || (braces && peek() != '}'))
            refuse("with an unfinished code point");
        if (!braces && kind == 'x' && std::stoul(digits, nullptr, 16) > 0x7f)
            refuse("with a single byte of a character");
        if (braces)
            ++at_;
        out_ += str(R"(\x{)", digits, "}");
    }

    std::string_view in_;
    const std::string& place_;
    std::size_t at_ = 0;
    std::string out_;
};

} // namespace

std::string pcre2_pattern(std::string_view pattern, const std::string& place)
{
    return Translation(pattern, place).run();
}

} // namespace trivium
