#pragma once
// The parser's part for expressions, on which that for statements builds.
#include "io/chat/jinja/syntax.hpp"

namespace trivium::jinja {

class ExpressionParser {
public:
    explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

    /// Of several with commas a tuple. `conditional`: may be `a if b else c`.
    ExpressionPtr tuple(bool conditional = true, bool in_brackets = false);
    ExpressionPtr expression();
    /// The filters from here on; `input` may be null. `inline_first`: without a `|` in front of the first.
    ExpressionPtr filters(ExpressionPtr input, bool inline_first = false);

    const Token& token(std::size_t ahead = 0) const
    {
        return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
    }
    bool is_name(std::string_view name, std::size_t ahead = 0) const
    {
        return token(ahead).kind == Token::Kind::name && token(ahead).text == name;
    }
    bool is_symbol(std::string_view symbol, std::size_t ahead = 0) const
    {
        return token(ahead).kind == Token::Kind::symbol && token(ahead).text == symbol;
    }
    void advance() { ++at_; }
    bool skip_name(std::string_view name);
    bool skip_symbol(std::string_view symbol);
    void expect_symbol(std::string_view symbol);
    std::string expect_name();
    [[noreturn]] void fail(const std::string& problem) const { throw SyntaxError{token().line, problem}; }
    /// For messages.
    std::string shown_token() const;

    std::set<std::string, std::less<>> names;     ///< see Syntax
    bool reads_more = false, reads_named = false; ///< saw the names varargs, kwargs

private:
    using Rule = ExpressionPtr (ExpressionParser::*)();
    ExpressionPtr made(Expression::Kind kind, int line, std::vector<ExpressionPtr> parts,
                       std::string text = {});
    ExpressionPtr conditional();
    ExpressionPtr disjunction();
    ExpressionPtr conjunction();
    ExpressionPtr negation();
    ExpressionPtr comparison();
    ExpressionPtr sum();
    ExpressionPtr concatenation();
    ExpressionPtr product();
    ExpressionPtr power();
    ExpressionPtr unary(bool with_filters = true);
    ExpressionPtr primary();
    ExpressionPtr list();
    ExpressionPtr dict();
    ExpressionPtr postfix(ExpressionPtr of);
    ExpressionPtr subscript(ExpressionPtr of);
    ExpressionPtr test(ExpressionPtr of);
    ExpressionPtr filters_and_tests(ExpressionPtr of);
    CallArguments call_arguments();
    bool ends_tuple() const;

    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    int depth_ = 0;
};

} // namespace trivium::jinja
