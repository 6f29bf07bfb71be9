#include "io/chat/jinja/parser.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <array>

namespace trivium::jinja {

namespace {

std::string with_plain_newlines(std::string_view source)
{
    std::string text;
    text.reserve(source.size());
    for (std::size_t at = 0; at < source.size(); ++at) {
        if (source[at] == '\r') {
            text += '\n';
            if (at + 1 < source.size() && source[at + 1] == '\n')
                ++at;
        } else {
            text += source[at];
        }
    }
    if (text.ends_with('\n')) // as keep_trailing_newline = False
        text.pop_back();
    return text;
}

bool is_name_character(char c)
{
    return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c & 0x80) != 0;
}

bool is_number_character(char c) { return c >= '0' && c <= '9'; }

class Lexer {
public:
    explicit Lexer(std::string_view source) : source_(with_plain_newlines(source)) {}

    std::vector<Token> run()
    {
        while (at_ < source_.size())
            read_data();
        add(Token::Kind::end, "");
        return std::move(tokens_);
    }

private:
    [[noreturn]] void fail(const std::string& problem) const { throw SyntaxError{line_, problem}; }
    void add(Token::Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }
    char here(std::size_t ahead = 0) const
    {
        return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0';
    }
    bool at(std::string_view text) const { return source_.compare(at_, text.size(), text) == 0; }
    void advance(std::size_t bytes)
    {
        line_ +=
            static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                        source_.begin() + static_cast<std::ptrdiff_t>(at_ + bytes), '\n'));
        at_ += bytes;
        at_line_begin_ = at_ > 0 && source_[at_ - 1] == '\n';
    }
    void skip_spaces()
    {
        std::size_t end = at_;
        while (end < source_.size()) {
            std::size_t next = end;
            if (!is_space(next_character(source_, next)))
                break;
            end = next;
        }
        if (end != at_)
            advance(end - at_);
    }

    /// Text up to the next tag, and this tag.
    void read_data()
    {
        std::size_t tag = at_;
        for (; tag < source_.size(); ++tag)
            if (source_[tag] == '{' && tag + 1 < source_.size() &&
                (source_[tag + 1] == '%' || source_[tag + 1] == '{' || source_[tag + 1] == '#'))
                break;
        if (tag >= source_.size()) {
            emit_data(at_, source_.size());
            advance(source_.size() - at_);
            return;
        }
        const char kind = source_[tag + 1], sign = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
        emit_data(at_, end_of_data(at_, tag, sign, kind != '{'));
        advance(tag - at_ + (sign == '-' || sign == '+' ? 3 : 2));
        if (kind == '#')
            read_comment();
        else
            read_tag(kind == '%');
    }

    /// Where text that begins at `begin` ends in front of a tag: white space may go.
    std::size_t end_of_data(std::size_t begin, std::size_t tag, char sign, bool strips_line) const
    {
        const std::string_view text = std::string_view(source_).substr(begin, tag - begin);
        if (sign == '-')
            return begin + stripped(text, false, true).second;
        if (sign == '+' || !strips_line)
            return tag;
        const std::size_t newline = text.rfind('\n');
        if (newline == std::string_view::npos && !at_line_begin_)
            return tag;
        const std::size_t line = newline == std::string_view::npos ? 0 : newline + 1;
        return stripped(text.substr(line), true, false).first == text.size() - line ? begin + line : tag;
    }

    void emit_data(std::size_t begin, std::size_t end)
    {
        if (begin < end)
            add(Token::Kind::data, source_.substr(begin, end - begin));
    }

    /// Passes the end of a tag at `at_`; a newline behind a block's or a comment's end goes with it.
    void pass_end(std::size_t signs, bool takes_newline)
    {
        const char sign = signs == 1 ? here() : '\0';
        advance(signs + 2);
        if (sign == '-')
            skip_spaces();
        else if (sign != '+' && takes_newline && here() == '\n')
            advance(1);
    }

    void read_comment()
    {
        const std::size_t end = source_.find("#}", at_);
        if (end == std::string::npos)
            fail("Missing end of comment tag");
        const bool sign = end > at_ && (source_[end - 1] == '-' || source_[end - 1] == '+');
        advance(end - at_ - (sign ? 1 : 0));
        pass_end(sign ? 1 : 0, true);
    }

    void read_tag(bool block)
    {
        add(block ? Token::Kind::block_begin : Token::Kind::variable_begin, "");
        const std::string_view end = block ? "%}" : "}}";
        int open = 0; // brackets
        while (true) {
            skip_spaces();
            if (at_ >= source_.size())
                return;
            const bool sign = here() == '-' || (block && here() == '+');
            if (open == 0 && source_.compare(at_ + (sign ? 1 : 0), 2, end) == 0) {
                add(block ? Token::Kind::block_end : Token::Kind::variable_end, "");
                pass_end(sign ? 1 : 0, block);
                return;
            }
            if (is_number_character(here()))
                read_number();
            else if (is_name_character(here()))
                read_name();
            else if (here() == '\'' || here() == '"')
                read_text();
            else
                read_symbol(open);
        }
    }

    void read_name()
    {
        std::size_t end = at_;
        while (end < source_.size() && is_name_character(source_[end]))
            ++end;
        const std::string name = source_.substr(at_, end - at_);
        if (std::any_of(name.begin(), name.end(), [](char c) { return (c & 0x80) != 0; }))
            fail("names with letters other than a to z are not supported");
        if (name == "raw" && tokens_.back().kind == Token::Kind::block_begin)
            fail("the tag 'raw' is not supported");
        add(Token::Kind::name, name);
        advance(end - at_);
    }

    std::size_t digits_end(std::size_t at) const
    {
        while (at < source_.size() && is_number_character(source_[at]))
            ++at;
        return at;
    }

    void read_number()
    {
        const bool after_dot = at_ > 0 && source_[at_ - 1] == '.'; // an index, as in x.0.1
        std::size_t end = digits_end(at_);
        if (!after_dot && end + 1 < source_.size() && source_[end] == '.' &&
            is_number_character(source_[end + 1]))
            end = digits_end(end + 1);
        if (std::size_t exponent = end;
            !after_dot && exponent < source_.size() && (source_[end] | 0x20) == 'e') {
            ++exponent;
            if (exponent < source_.size() && (source_[exponent] == '+' || source_[exponent] == '-'))
                ++exponent;
            if (digits_end(exponent) > exponent)
                end = digits_end(exponent);
        }
        if (end < source_.size() && is_name_character(source_[end]))
            fail("numbers are digits, with a dot or an exponent: other forms are not supported");
        if (here() == '0' && end > at_ + 1 && is_number_character(here(1)))
            fail("a number begins with 0");
        add(Token::Kind::number, source_.substr(at_, end - at_));
        advance(end - at_);
    }

    void read_text()
    {
        const char quote = here();
        std::size_t end = at_ + 1;
        while (end < source_.size() && source_[end] != quote)
            end += source_[end] == '\\' ? 2 : 1;
        if (end >= source_.size())
            fail("a text has no closing quote");
        add(Token::Kind::text, unescaped(source_.substr(at_ + 1, end - at_ - 1)));
        advance(end + 1 - at_);
    }

    std::string unescaped(const std::string& text) const
    {
        std::string out;
        for (std::size_t at = 0; at < text.size(); ++at) {
            if (text[at] != '\\' || at + 1 >= text.size()) {
                out += text[at];
                continue;
            }
            static constexpr std::string_view names = "\\'\"abfnrtv", meanings = "\\'\"\a\b\f\n\r\t\v";
            const char c = text[++at];
            if (const std::size_t name = names.find(c); name != std::string_view::npos) {
                out += meanings[name];
            } else if (c == '\n') {
                continue;
            } else if (c == 'x' || c == 'u' || c == 'U') {
                append_character(out, code_of(text, at, c == 'x' ? 2 : c == 'u' ? 4 : 8));
            } else if ((c >= '0' && c <= '7') || c == 'N') {
                fail(str("the escape \\", c, " in a text is not supported"));
            } else {
                (out += '\\') += c;
            }
        }
        return out;
    }

    /// The hexadecimal digits behind text[at], which are passed.
    char32_t code_of(const std::string& text, std::size_t& at, std::size_t digits) const
    {
        char32_t code = 0;
        for (std::size_t i = 0; i < digits; ++i) {
            const char c = at + 1 < text.size() ? text[at + 1] : '\0';
            if (std::isxdigit(static_cast<unsigned char>(c)) == 0)
                fail("truncated escape in a text");
            code = code * 16 + static_cast<char32_t>(c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10);
            ++at;
        }
        if (code > 0x10ffff)
            fail("illegal Unicode character in a text");
        return code;
    }

    void read_symbol(int& open)
    {
        static constexpr std::array symbols{"//", "**", "==", "!=", "<=", ">=", "+", "-", "*",
                                            "/",  "%",  "~",  "<",  ">",  "=",  ".", ":", "|",
                                            ",",  ";",  "(",  ")",  "[",  "]",  "{", "}"};
        const auto found =
            std::find_if(symbols.begin(), symbols.end(), [&](const char* symbol) { return at(symbol); });
        if (found == symbols.end()) {
            std::size_t end = at_;
            next_character(source_, end);
            fail(str("unexpected char '", source_.substr(at_, end - at_), "'"));
        }
        const std::string symbol = *found;
        if (symbol == "(" || symbol == "[" || symbol == "{")
            ++open;
        else if (symbol == ")" || symbol == "]" || symbol == "}")
            open = std::max(open - 1, 0);
        add(Token::Kind::symbol, symbol);
        advance(symbol.size());
    }

    const std::string source_;
    std::size_t at_ = 0;
    int line_ = 1;
    bool at_line_begin_ = true;
    std::vector<Token> tokens_;
};

} // namespace

std::vector<Token> tokens_of(std::string_view source) { return Lexer(source).run(); }

} // namespace trivium::jinja
