#include "base/check.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/parser.hpp"
#include "io/chat/jinja/python_text.hpp"

#include <algorithm>

namespace trivium::jinja {

namespace {

constexpr int max_expression_depth = 200;

/// Binary operators, from the weakest. `not` binds weaker than comparisons.
const std::vector<std::vector<std::string>> levels{
    {"or"},     {"and"}, {"==", "!=", "<", "<=", ">", ">=", "in", "not in"},
    {"+", "-"}, {"~"},   {"*", "/", "//", "%"}};
constexpr std::size_t comparisons = 2;

} // namespace

/// Levels of calls of the parser.
class ExpressionParser::Deeper {
public:
    explicit Deeper(ExpressionParser& parser) : depth_(parser.depth_)
    {
        if (depth_ >= max_expression_depth)
            parser.fail("the expression is nested too deeply");
        ++depth_;
    }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    ~Deeper() { --depth_; }

private:
    int& depth_;
};

bool ExpressionParser::skip_name(std::string_view name)
{
    const bool found = is_name(name);
    at_ += found ? 1 : 0;
    return found;
}

bool ExpressionParser::skip_symbol(std::string_view symbol)
{
    const bool found = is_symbol(symbol);
    at_ += found ? 1 : 0;
    return found;
}

void ExpressionParser::expect_symbol(std::string_view symbol)
{
    if (!skip_symbol(symbol))
        fail_at(str("'", symbol, "'"));
}

std::string ExpressionParser::expect_name()
{
    if (!is(Token::Kind::name))
        fail_at("a name");
    return next().text;
}

void ExpressionParser::fail_at(const std::string& expected) const
{
    const Token::Kind kind = token().kind;
    fail(str("expected ", expected, ", got ",
             kind == Token::Kind::block_end      ? "'%}'"
             : kind == Token::Kind::variable_end ? "'}}'"
             : kind == Token::Kind::end          ? "the end of the template"
             : kind == Token::Kind::text         ? "a text"
                                                 : str("'", token().text, "'")));
}

template <class... Parts>
ExpressionPtr ExpressionParser::made(Kind kind, int line, std::string text, Parts... parts)
{
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = line;
    made->text = std::move(text);
    if constexpr (sizeof...(Parts) == 1 && (std::is_same_v<Parts, std::vector<ExpressionPtr>> && ...))
        ((made->parts = std::move(parts)), ...);
    else
        (made->parts.push_back(std::move(parts)), ...);
    for (const ExpressionPtr& part : made->parts)
        if (part != nullptr)
            made->depth = std::max(made->depth, part->depth + 1);
    if (made->depth > max_expression_depth)
        throw SyntaxError{line, "the expression is nested too deeply"};
    return made;
}

ExpressionPtr ExpressionParser::tuple(bool conditional, bool in_brackets)
{
    const int line = token().line;
    std::vector<ExpressionPtr> parts;
    bool is_tuple = false;
    while (!is(Token::Kind::variable_end) && !is(Token::Kind::block_end) && !is_symbol(")")) {
        parts.push_back(conditional ? expression() : binary(0));
        if (!skip_symbol(","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && !parts.empty())
        return std::move(parts[0]);
    if (!is_tuple && !in_brackets)
        fail_at("an expression");
    return made(Kind::tuple, line, "", std::move(parts));
}

ExpressionPtr ExpressionParser::expression()
{
    const Deeper deeper(*this);
    ExpressionPtr result = binary(0);
    while (is_name("if")) {
        const int line = next().line;
        ExpressionPtr condition = binary(0);
        ExpressionPtr otherwise = skip_name("else") ? expression() : nullptr;
        result = made(Kind::choose, line, "", std::move(condition), std::move(result), std::move(otherwise));
    }
    return result;
}

/// The operator of this level that is here, or "".
std::string ExpressionParser::operator_at(std::size_t level) const
{
    if (is_symbol("**"))
        fail("the operator ** is not supported");
    for (const std::string& op : levels[level])
        if (is_symbol(op) || is_name(op) || (op == "not in" && is_name("not") && is_name("in", 1)))
            return op;
    return "";
}

ExpressionPtr ExpressionParser::binary(std::size_t level)
{
    if (level == levels.size())
        return unary();
    if (level == comparisons && is_name("not")) {
        const Deeper deeper(*this);
        const int line = next().line;
        return made(Kind::negate, line, "", binary(level));
    }
    ExpressionPtr left = binary(level + 1);
    for (std::string op; !(op = operator_at(level)).empty();) {
        const int line = next().line;
        if (op == "not in")
            next();
        left = made(Kind::binary, line, op, std::move(left), binary(level + 1));
        if (level == comparisons && !operator_at(level).empty())
            fail("chained comparisons such as a < b < c are not supported");
    }
    return left;
}

ExpressionPtr ExpressionParser::unary()
{
    ExpressionPtr result = operand();
    while (true)
        if (skip_symbol("|"))
            result = filter(std::move(result));
        else if (is_name("is"))
            result = test(std::move(result));
        else if (is_symbol("("))
            result = call(std::move(result));
        else
            return result;
}

ExpressionPtr ExpressionParser::operand()
{
    const Deeper deeper(*this);
    const int line = token().line;
    if (skip_symbol("+"))
        fail("the sign + is not supported");
    return skip_symbol("-") ? made(Kind::minus, line, "", operand()) : postfix(primary());
}

ExpressionPtr ExpressionParser::primary()
{
    const Token first = token();
    ExpressionPtr result = made(Kind::constant, first.line, "");
    if (is(Token::Kind::name)) {
        const std::string name = next().text;
        if (name == "true" || name == "True" || name == "false" || name == "False") {
            result->value = name[0] == 't' || name[0] == 'T';
        } else if (name != "none" && name != "None") {
            if (macros > 0 && (name == "varargs" || name == "kwargs"))
                fail(str("'", name, "' of macros is not supported"));
            result->kind = Kind::name;
            result->text = name;
        }
        return result;
    }
    if (is(Token::Kind::text)) {
        std::string text;
        while (is(Token::Kind::text))
            text += next().text;
        result->value = Value(std::move(text));
        return result;
    }
    if (is(Token::Kind::number)) {
        const std::string digits = next().text;
        const bool whole = digits.find_first_not_of("0123456789") == std::string::npos;
        try {
            const std::optional<i64> number = whole ? parsed_int(digits) : std::nullopt;
            result->value = number ? Value(*number) : Value(parsed_float(digits).value());
        } catch (const Failure& failure) {
            throw SyntaxError{first.line, failure.problem};
        }
        return result;
    }
    if (skip_symbol("(")) {
        const Deeper deeper(*this);
        result = tuple(true, true);
        expect_symbol(")");
        return result;
    }
    if (skip_symbol("["))
        return made(Kind::list, first.line, "", items("]", false));
    if (skip_symbol("{"))
        return made(Kind::dict, first.line, "", items("}", true));
    fail_at("an expression");
}

/// Up to `end`, and past it.
std::vector<ExpressionPtr> ExpressionParser::items(const char* end, bool pairs)
{
    std::vector<ExpressionPtr> parts;
    while (!skip_symbol(end)) {
        parts.push_back(expression());
        if (pairs) {
            expect_symbol(":");
            parts.push_back(expression());
        }
        if (!is_symbol(end))
            expect_symbol(",");
    }
    return parts;
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr of)
{
    while (true)
        if (is_symbol(".") || is_symbol("["))
            of = subscript(std::move(of));
        else if (is_symbol("("))
            of = call(std::move(of));
        else
            return of;
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of)
{
    const int line = token().line;
    if (skip_symbol(".")) {
        if (is(Token::Kind::number))
            return made(Kind::item, line, "", std::move(of), primary());
        return made(Kind::attribute, line, expect_name(), std::move(of));
    }
    expect_symbol("[");
    ExpressionPtr first = is_symbol(":") ? nullptr : expression();
    if (skip_symbol("]"))
        return made(Kind::item, line, "", std::move(of), std::move(first));
    std::vector<ExpressionPtr> parts;
    parts.push_back(std::move(of));
    parts.push_back(std::move(first));
    while (parts.size() < 4) {
        const bool present = skip_symbol(":") && !is_symbol(":") && !is_symbol("]");
        parts.push_back(present ? expression() : nullptr);
    }
    expect_symbol("]");
    return made(Kind::slice, line, "", std::move(parts));
}

ExpressionPtr ExpressionParser::call(ExpressionPtr of)
{
    const int line = token().line;
    CallArguments arguments = call_arguments();
    of = made(Kind::call, line, "", std::move(of));
    of->arguments = std::move(arguments);
    return of;
}

CallArguments ExpressionParser::call_arguments()
{
    CallArguments arguments;
    expect_symbol("(");
    while (!skip_symbol(")")) {
        if (is_symbol("*") || is_symbol("**"))
            fail("arguments with * or ** are not supported");
        if (is(Token::Kind::name) && is_symbol("=", 1)) {
            std::string name = next().text;
            next();
            arguments.named.emplace_back(std::move(name), expression());
        } else if (arguments.named.empty()) {
            arguments.positional.push_back(expression());
        } else {
            fail("invalid syntax for function call expression");
        }
        if (!is_symbol(")"))
            expect_symbol(",");
    }
    return arguments;
}

ExpressionPtr ExpressionParser::filter(ExpressionPtr of)
{
    const int line = token().line;
    ExpressionPtr result = made(Kind::filter, line, expect_name(), std::move(of));
    if (is_symbol("("))
        result->arguments = call_arguments();
    return result;
}

ExpressionPtr ExpressionParser::of_block(bool first_has_bar)
{
    ExpressionPtr result = made(Kind::name, token().line, "");
    if (!first_has_bar)
        result = filter(std::move(result));
    while (skip_symbol("|"))
        result = filter(std::move(result));
    return result;
}

ExpressionPtr ExpressionParser::test(ExpressionPtr of)
{
    const int line = next().line;
    const bool negated = skip_name("not");
    ExpressionPtr result = made(Kind::test, line, expect_name(), std::move(of));
    if (is_symbol("(")) {
        result->arguments = call_arguments();
    } else if (is(Token::Kind::text) || is(Token::Kind::number) || is_symbol("[") || is_symbol("{") ||
               (is(Token::Kind::name) && !is_name("else") && !is_name("or") && !is_name("and"))) {
        if (is_name("is"))
            fail("tests with `is` cannot be chained");
        result->arguments.positional.push_back(postfix(primary()));
    }
    return negated ? made(Kind::negate, line, "", std::move(result)) : std::move(result);
}

} // namespace trivium::jinja
