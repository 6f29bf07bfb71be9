#include "base/check.hpp"
#include "io/chat/jinja/parser.hpp"
#include "io/chat/jinja/python_text.hpp"

#include <algorithm>
#include <array>

namespace trivium::jinja {

namespace {

using Kind = Expression::Kind;

constexpr int max_expression_depth = 200;
constexpr std::size_t max_asked_name = 32; ///< bytes of a text that may be a key of a message

template <class... Parts>
std::vector<ExpressionPtr> parts_of(Parts... parts)
{
    std::vector<ExpressionPtr> all;
    (all.push_back(std::move(parts)), ...);
    return all;
}

} // namespace

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
        fail(str("expected '", symbol, "', got ", shown_token()));
}

std::string ExpressionParser::expect_name()
{
    if (token().kind != Token::Kind::name)
        fail("expected a name, got " + shown_token());
    return tokens_[at_++].text;
}

std::string ExpressionParser::shown_token() const
{
    switch (token().kind) {
    case Token::Kind::block_end: return "'%}'";
    case Token::Kind::variable_end: return "'}}'";
    case Token::Kind::end: return "the end of the template";
    case Token::Kind::text: return "a text";
    default: return str("'", token().text, "'");
    }
}

ExpressionPtr ExpressionParser::made(Kind kind, int line, std::vector<ExpressionPtr> parts, std::string text)
{
    auto made = std::make_unique<Expression>();
    made->kind = kind;
    made->line = line;
    made->text = std::move(text);
    made->parts = std::move(parts);
    for (const ExpressionPtr& part : made->parts)
        if (part != nullptr)
            made->depth = std::max(made->depth, part->depth + 1);
    if (made->depth > max_expression_depth)
        throw SyntaxError{line, "the expression is nested too deeply"};
    return made;
}

bool ExpressionParser::ends_tuple() const
{
    return token().kind == Token::Kind::variable_end || token().kind == Token::Kind::block_end ||
           is_symbol(")");
}

ExpressionPtr ExpressionParser::tuple(bool conditional, bool in_brackets)
{
    const int line = token().line;
    std::vector<ExpressionPtr> parts;
    bool is_tuple = false;
    while (true) {
        if (!parts.empty())
            expect_symbol(",");
        if (ends_tuple())
            break;
        parts.push_back(conditional ? expression() : disjunction());
        if (!is_symbol(","))
            break;
        is_tuple = true;
    }
    if (!is_tuple && !parts.empty())
        return std::move(parts[0]);
    if (!is_tuple && !in_brackets)
        fail("expected an expression, got " + shown_token());
    return made(Kind::tuple, line, std::move(parts));
}

ExpressionPtr ExpressionParser::expression()
{
    if (++depth_ > max_expression_depth)
        fail("the expression is nested too deeply");
    ExpressionPtr result = conditional();
    --depth_;
    return result;
}

ExpressionPtr ExpressionParser::conditional()
{
    ExpressionPtr result = disjunction();
    while (is_name("if")) {
        const int line = token().line;
        advance();
        ExpressionPtr condition = disjunction();
        ExpressionPtr otherwise = skip_name("else") ? expression() : nullptr;
        result =
            made(Kind::choose, line, parts_of(std::move(condition), std::move(result), std::move(otherwise)));
    }
    return result;
}

ExpressionPtr ExpressionParser::disjunction()
{
    ExpressionPtr left = conjunction();
    for (int line = token().line; skip_name("or"); line = token().line)
        left = made(Kind::either, line, parts_of(std::move(left), conjunction()));
    return left;
}

ExpressionPtr ExpressionParser::conjunction()
{
    ExpressionPtr left = negation();
    for (int line = token().line; skip_name("and"); line = token().line)
        left = made(Kind::both, line, parts_of(std::move(left), negation()));
    return left;
}

ExpressionPtr ExpressionParser::negation()
{
    const int line = token().line;
    if (!skip_name("not"))
        return comparison();
    if (++depth_ > max_expression_depth)
        fail("the expression is nested too deeply");
    ExpressionPtr result = made(Kind::negate, line, parts_of(negation()));
    --depth_;
    return result;
}

ExpressionPtr ExpressionParser::comparison()
{
    const int line = token().line;
    std::vector<ExpressionPtr> parts = parts_of(sum());
    std::vector<std::string> operators;
    while (true) {
        static constexpr std::array symbols{"==", "!=", "<", "<=", ">", ">="};
        if (std::any_of(symbols.begin(), symbols.end(),
                        [&](const char* symbol) { return is_symbol(symbol); })) {
            operators.push_back(token().text);
            advance();
        } else if (skip_name("in")) {
            operators.emplace_back("in");
        } else if (is_name("not") && is_name("in", 1)) {
            at_ += 2;
            operators.emplace_back("not in");
        } else {
            break;
        }
        parts.push_back(sum());
    }
    if (operators.empty())
        return std::move(parts[0]);
    ExpressionPtr result = made(Kind::compare, line, std::move(parts));
    result->operators = std::move(operators);
    return result;
}

ExpressionPtr ExpressionParser::sum()
{
    ExpressionPtr left = concatenation();
    while (is_symbol("+") || is_symbol("-")) {
        const Token op = token();
        advance();
        left = made(Kind::arithmetic, op.line, parts_of(std::move(left), concatenation()), op.text);
    }
    return left;
}

ExpressionPtr ExpressionParser::concatenation()
{
    const int line = token().line;
    std::vector<ExpressionPtr> parts = parts_of(product());
    while (skip_symbol("~"))
        parts.push_back(product());
    return parts.size() == 1 ? std::move(parts[0]) : made(Kind::concat, line, std::move(parts));
}

ExpressionPtr ExpressionParser::product()
{
    ExpressionPtr left = power();
    while (is_symbol("*") || is_symbol("/") || is_symbol("//") || is_symbol("%")) {
        const Token op = token();
        advance();
        left = made(Kind::arithmetic, op.line, parts_of(std::move(left), power()), op.text);
    }
    return left;
}

ExpressionPtr ExpressionParser::power() // from left to right, as in jinja2
{
    ExpressionPtr left = unary();
    for (int line = token().line; skip_symbol("**"); line = token().line)
        left = made(Kind::arithmetic, line, parts_of(std::move(left), unary()), "**");
    return left;
}

ExpressionPtr ExpressionParser::unary(bool with_filters)
{
    if (++depth_ > max_expression_depth)
        fail("the expression is nested too deeply");
    const int line = token().line;
    ExpressionPtr result = skip_symbol("-")   ? made(Kind::minus, line, parts_of(unary(false)))
                           : skip_symbol("+") ? made(Kind::plus, line, parts_of(unary(false)))
                                              : primary();
    result = postfix(std::move(result));
    if (with_filters)
        result = filters_and_tests(std::move(result));
    --depth_;
    return result;
}

ExpressionPtr ExpressionParser::primary()
{
    const Token first = token();
    ExpressionPtr result = made(Kind::constant, first.line, {});
    switch (first.kind) {
    case Token::Kind::name:
        advance();
        if (first.text == "true" || first.text == "True" || first.text == "false" || first.text == "False") {
            result->value = first.text[0] == 't' || first.text[0] == 'T';
        } else if (first.text != "none" && first.text != "None") {
            result->kind = Kind::name;
            result->text = first.text;
            reads_more |= first.text == "varargs";
            reads_named |= first.text == "kwargs";
        }
        return result;
    case Token::Kind::text: {
        std::string text;
        for (; token().kind == Token::Kind::text; advance())
            text += token().text;
        if (text.size() <= max_asked_name)
            names.insert(text);
        result->value = Value(std::move(text));
        return result;
    }
    case Token::Kind::integer:
    case Token::Kind::real:
        try {
            if (first.kind == Token::Kind::integer) {
                const std::optional<i64> number = parsed_int(first.text, 0);
                if (!number)
                    fail(str("'", first.text, "' is not a number"));
                result->value = *number;
            } else {
                result->value = parsed_float(first.text).value_or(0);
            }
        } catch (const Failure& failure) {
            fail(failure.problem);
        }
        advance();
        return result;
    default: break;
    }
    if (skip_symbol("(")) {
        if (++depth_ > max_expression_depth)
            fail("the expression is nested too deeply");
        result = tuple(true, true);
        --depth_;
        expect_symbol(")");
        return result;
    }
    if (is_symbol("["))
        return list();
    if (is_symbol("{"))
        return dict();
    fail("unexpected " + shown_token());
}

ExpressionPtr ExpressionParser::list()
{
    const int line = token().line;
    expect_symbol("[");
    std::vector<ExpressionPtr> parts;
    while (!is_symbol("]")) {
        if (!parts.empty())
            expect_symbol(",");
        if (is_symbol("]"))
            break;
        parts.push_back(expression());
    }
    expect_symbol("]");
    return made(Kind::list, line, std::move(parts));
}

ExpressionPtr ExpressionParser::dict()
{
    const int line = token().line;
    expect_symbol("{");
    std::vector<ExpressionPtr> parts;
    while (!is_symbol("}")) {
        if (!parts.empty())
            expect_symbol(",");
        if (is_symbol("}"))
            break;
        parts.push_back(expression());
        expect_symbol(":");
        parts.push_back(expression());
    }
    expect_symbol("}");
    return made(Kind::dict, line, std::move(parts));
}

ExpressionPtr ExpressionParser::postfix(ExpressionPtr of)
{
    while (true) {
        const int line = token().line;
        if (is_symbol(".") || is_symbol("[")) {
            of = subscript(std::move(of));
        } else if (is_symbol("(")) {
            CallArguments arguments = call_arguments();
            of = made(Kind::call, line, parts_of(std::move(of)));
            of->arguments = std::move(arguments);
        } else {
            return of;
        }
    }
}

ExpressionPtr ExpressionParser::subscript(ExpressionPtr of)
{
    const int line = token().line;
    if (skip_symbol(".")) {
        if (token().kind == Token::Kind::integer) {
            ExpressionPtr index = primary();
            return made(Kind::item, line, parts_of(std::move(of), std::move(index)));
        }
        std::string name = expect_name();
        names.insert(name);
        return made(Kind::attribute, line, parts_of(std::move(of)), std::move(name));
    }
    expect_symbol("[");
    std::vector<ExpressionPtr> bounds; // of a slice
    std::vector<ExpressionPtr> keys;
    bool sliced = false;
    while (!is_symbol("]")) {
        if (!keys.empty() || sliced)
            expect_symbol(",");
        if (!is_symbol(":"))
            keys.push_back(expression());
        if (!is_symbol(":"))
            continue;
        if (sliced || keys.size() > 1)
            fail("a slice among several subscripts is not supported");
        sliced = true;
        bounds.push_back(keys.empty() ? nullptr : std::move(keys[0]));
        while (bounds.size() < 3) {
            const bool present = skip_symbol(":") && !is_symbol(":") && !is_symbol("]") && !is_symbol(",");
            bounds.push_back(present ? expression() : nullptr);
        }
    }
    expect_symbol("]");
    if (sliced)
        return made(
            Kind::slice, line,
            parts_of(std::move(of), std::move(bounds[0]), std::move(bounds[1]), std::move(bounds[2])));
    ExpressionPtr key = keys.size() == 1 ? std::move(keys[0]) : made(Kind::tuple, line, std::move(keys));
    return made(Kind::item, line, parts_of(std::move(of), std::move(key)));
}

CallArguments ExpressionParser::call_arguments()
{
    CallArguments arguments;
    expect_symbol("(");
    for (bool first = true; !is_symbol(")"); first = false) {
        if (!first) {
            expect_symbol(",");
            if (is_symbol(")"))
                break;
        }
        const bool invalid =
            is_symbol("*")    ? arguments.list != nullptr || arguments.dict != nullptr
            : is_symbol("**") ? arguments.dict != nullptr
            : is_symbol("=", 1) && token().kind == Token::Kind::name
                ? arguments.dict != nullptr
                : arguments.list != nullptr || arguments.dict != nullptr || !arguments.named.empty();
        if (invalid)
            fail("invalid syntax for function call expression");
        if (skip_symbol("*")) {
            arguments.list = expression();
        } else if (skip_symbol("**")) {
            arguments.dict = expression();
        } else if (token().kind == Token::Kind::name && is_symbol("=", 1)) {
            std::string name = expect_name();
            advance();
            arguments.named.emplace_back(std::move(name), expression());
        } else {
            arguments.positional.push_back(expression());
        }
    }
    expect_symbol(")");
    return arguments;
}

ExpressionPtr ExpressionParser::filters(ExpressionPtr of, bool inline_first)
{
    while (inline_first || skip_symbol("|")) {
        inline_first = false;
        const int line = token().line;
        std::string name = expect_name();
        while (skip_symbol("."))
            name += "." + expect_name();
        CallArguments arguments = is_symbol("(") ? call_arguments() : CallArguments{};
        of = made(Kind::filter, line, parts_of(std::move(of)), std::move(name));
        of->arguments = std::move(arguments);
    }
    return of;
}

ExpressionPtr ExpressionParser::filters_and_tests(ExpressionPtr of)
{
    while (true) {
        const int line = token().line;
        if (is_symbol("|")) {
            of = filters(std::move(of));
        } else if (is_name("is")) {
            of = test(std::move(of));
        } else if (is_symbol("(")) {
            CallArguments arguments = call_arguments();
            of = made(Kind::call, line, parts_of(std::move(of)));
            of->arguments = std::move(arguments);
        } else {
            return of;
        }
    }
}

ExpressionPtr ExpressionParser::test(ExpressionPtr of)
{
    const int line = token().line;
    advance();
    const bool negated = skip_name("not");
    std::string name = expect_name();
    while (skip_symbol("."))
        name += "." + expect_name();
    CallArguments arguments;
    const Token& next = token();
    const bool has_operand =
        next.kind == Token::Kind::text || next.kind == Token::Kind::integer ||
        next.kind == Token::Kind::real || is_symbol("[") || is_symbol("{") ||
        (next.kind == Token::Kind::name && !is_name("else") && !is_name("or") && !is_name("and"));
    if (is_symbol("(")) {
        arguments = call_arguments();
    } else if (has_operand) {
        if (is_name("is"))
            fail("tests with `is` cannot be chained");
        arguments.positional.push_back(postfix(primary()));
    }
    ExpressionPtr result = made(Kind::test, line, parts_of(std::move(of)), std::move(name));
    result->arguments = std::move(arguments);
    return negated ? made(Kind::negate, line, parts_of(std::move(result))) : std::move(result);
}

} // namespace trivium::jinja
