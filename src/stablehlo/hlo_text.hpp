#pragma once
// A cursor over StableHLO text.
#include "base/check.hpp"
#include "stablehlo/syntax.hpp"

namespace trivium {

/// Functions that find something else than they read throw UserError with file and line. `text` and `file`
/// must outlive it.
class HloText {
public:
    HloText(std::string_view text, const std::string& file, int line = 1)
        : text_(text), file_(file), line_(line)
    {
    }

    [[noreturn]] void fail(const std::string& problem, const std::string& remedy = "") const;
    int line()
    {
        skip();
        return line_;
    }
    const std::string& file() const { return file_; }

    /// Blanks, line ends and comments.
    void skip();
    bool done();
    /// Whether `token` follows; of a word, that it ends there.
    bool sees(std::string_view token);
    bool take(std::string_view token);
    void want(std::string_view token);
    std::string found(); ///< for messages: ", not 'x'"
    /// The next character after blanks; 0 at the end.
    char peek();
    /// Letters, digits, '_', '.', '$' and '-', but not "->"; not empty.
    std::string word();
    bool sees_word();
    std::string quoted();
    /// "%name" without "#1".
    std::string value_name();
    /// "%name" or "%name#1".
    std::string operand();
    i64 integer();
    /// Reads items with commas between them, and takes `close`.
    template <class Item>
    void items(std::string_view close, const Item& item)
    {
        while (!take(close)) {
            item();
            if (!sees(close))
                want(",");
        }
    }
    /// The text between `open`, which follows, and the `close` that belongs to it; without both. "->" is not
    /// a bracket.
    std::string balanced(char open, char close);
    HloType type();
    /// The elements of dense<…>, up to the ">".
    HloAttribute dense();
    /// An attribute's value; `typed`: a type may follow a number.
    HloAttribute value(bool typed);
    /// { name = value, … }, or the same between other brackets.
    HloAttribute dictionary(std::string_view open = "{", std::string_view close = "}");

private:
    struct Number {
        bool real = false;
        i64 whole = 0;
        double number = 0;
        bool bits = false; ///< `whole` is a pattern of bits
    };
    Number number();
    void numbers(std::vector<Number>& all);
    HloAttribute list(std::string_view open, std::string_view close);
    HloLiteral literal_of(const std::vector<Number>& all, const HloType& type) const;
    HloLiteral literal_of_bytes(const std::string& hex, const HloType& type) const;

    /// Counts nested brackets.
    class Deeper {
    public:
        explicit Deeper(HloText& text) : text_(text)
        {
            if (++text_.depth_ > 64)
                text_.fail("has more than 64 nested brackets");
        }
        Deeper(const Deeper&) = delete;
        Deeper& operator=(const Deeper&) = delete;
        ~Deeper() { --text_.depth_; }

    private:
        HloText& text_;
    };

    std::string_view text_;
    const std::string& file_;
    std::size_t at_ = 0;
    int line_;
    int depth_ = 0;
};

} // namespace trivium
