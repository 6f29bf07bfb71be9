#pragma once
// The tokens of a template, and the parser's part for expressions, on which that for statements builds.
#include "io/chat/jinja/syntax.hpp"

namespace trivium::jinja {

struct Token {
    enum class Kind : std::uint8_t {
        data,           ///< text outside tags
        block_begin,    ///< {%
        block_end,      ///< %}
        variable_begin, ///< {{
        variable_end,   ///< }}
        name,
        text,
        number,
        symbol, ///< an operator or a bracket
        end,    ///< of the template
    };
    Kind kind = Kind::end;
    std::string text; ///< of a text its content; of a number its digits
    int line = 1;
};

/// With the rules of white space of jinja2 for trim_blocks and lstrip_blocks. The last token is `end`.
/// \throws SyntaxError
std::vector<Token> tokens_of(std::string_view source);

class ExpressionParser {
public:
    explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    /// Of several with commas a tuple. `conditional`: may be `a if b else c`.
    ExpressionPtr tuple(bool conditional = true, bool in_brackets = false);
    ExpressionPtr expression();
    /// The filters from here on, of the block's text: the variable with the name "".
    ExpressionPtr of_block(bool first_has_bar);

    const Token& token(std::size_t ahead = 0) const
    {
        return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
    }
    bool is(Token::Kind kind) const { return token().kind == kind; }
    bool is_name(std::string_view name, std::size_t ahead = 0) const
    {
        return token(ahead).kind == Token::Kind::name && token(ahead).text == name;
    }
    bool is_symbol(std::string_view symbol, std::size_t ahead = 0) const
    {
        return token(ahead).kind == Token::Kind::symbol && token(ahead).text == symbol;
    }
    Token next() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
    bool skip_name(std::string_view name);
    bool skip_symbol(std::string_view symbol);
    void expect_symbol(std::string_view symbol);
    std::string expect_name();
    [[noreturn]] void fail(const std::string& problem) const { throw SyntaxError{token().line, problem}; }
    /// Fails as what is here was not expected.
    [[noreturn]] void fail_at(const std::string& expected) const;

    int macros = 0; ///< around the current place

private:
    using Kind = Expression::Kind;
    class Deeper;
    template <class... Parts>
    ExpressionPtr made(Kind kind, int line, std::string text, Parts... parts);
    std::string operator_at(std::size_t level) const;
    ExpressionPtr binary(std::size_t level);
    ExpressionPtr unary();
    ExpressionPtr operand();
    ExpressionPtr primary();
    std::vector<ExpressionPtr> items(const char* end, bool pairs);
    ExpressionPtr postfix(ExpressionPtr of);
    ExpressionPtr subscript(ExpressionPtr of);
    ExpressionPtr filter(ExpressionPtr of);
    ExpressionPtr test(ExpressionPtr of);
    ExpressionPtr call(ExpressionPtr of);
    CallArguments call_arguments();

    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

} // namespace trivium::jinja
