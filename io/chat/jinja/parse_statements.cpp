#include "base/check.hpp"
#include "io/chat/jinja/parser.hpp"

#include <algorithm>

namespace trivium::jinja {

namespace {

constexpr int max_block_depth = 50;

class StatementParser {
public:
    explicit StatementParser(std::string_view source) : p_(tokens_of(source)) {}

    Syntax run()
    {
        Syntax syntax;
        syntax.block = block({});
        syntax.has_generation = has_generation_;
        return syntax;
    }

private:
    using Kind = Statement::Kind;

    bool is_end(const std::vector<std::string>& ends) const
    {
        return std::any_of(ends.begin(), ends.end(), [&](const std::string& end) { return p_.is_name(end); });
    }

    /// Statements up to a tag whose name is one of `ends`, which is the current token then; without ends up
    /// to the end of the template.
    Block block(const std::vector<std::string>& ends)
    {
        if (++depth_ > max_block_depth)
            p_.fail("blocks are nested too deeply");
        Block all;
        while (true) {
            const Token token = p_.token();
            if (token.kind == Token::Kind::end) {
                if (!ends.empty())
                    p_.fail(str("the template ends where '",
                                *std::find_if(ends.begin(), ends.end(),
                                              [](const auto& end) { return end.starts_with("end"); }),
                                "' is expected"));
                break;
            }
            p_.next();
            if (token.kind == Token::Kind::data) {
                all.push_back(made(Kind::data, token.line));
                all.back().text = token.text;
            } else if (token.kind == Token::Kind::variable_begin) {
                all.push_back(made(Kind::print, token.line));
                all.back().expressions.push_back(p_.tuple());
                expect(Token::Kind::variable_end, "'}}'");
            } else {
                if (is_end(ends))
                    break;
                all.push_back(statement());
                expect(Token::Kind::block_end, "'%}'");
            }
        }
        --depth_;
        return all;
    }

    /// The block of a tag, from the end of this tag up to one of `ends`.
    Block body(const std::vector<std::string>& ends)
    {
        p_.skip_symbol(":");
        expect(Token::Kind::block_end, "'%}'");
        return block(ends);
    }
    /// As body(), and past the name that ends it.
    Block body_to(const std::string& end)
    {
        Block all = body({end});
        p_.next();
        return all;
    }
    /// As body_to(), of a block that cannot leave the loop around it.
    Block body_without_loop(const std::string& end)
    {
        const int loops = std::exchange(loops_, 0);
        Block all = body_to(end);
        loops_ = loops;
        return all;
    }

    void expect(Token::Kind kind, const char* shown)
    {
        if (!p_.is(kind))
            p_.fail_at(shown);
        p_.next();
    }

    static Statement made(Kind kind, int line)
    {
        Statement made;
        made.kind = kind;
        made.line = line;
        return made;
    }

    Statement statement()
    {
        const int line = p_.token().line;
        const std::string name = p_.expect_name();
        if (name == "if")
            return branch(line);
        if (name == "for")
            return loop(line);
        if (name == "set")
            return set(line);
        if (name == "macro" || name == "call")
            return macro(line, name);
        if (name == "filter") {
            Statement result = made(Kind::filter, line);
            result.expressions.push_back(p_.of_block(false));
            result.blocks.push_back(body_to("endfilter"));
            return result;
        }
        if (name == "generation") {
            Statement result = made(Kind::generation, line);
            has_generation_ = true;
            result.blocks.push_back(body_without_loop("endgeneration"));
            return result;
        }
        if (name == "break" || name == "continue") {
            if (loops_ == 0)
                throw SyntaxError{line, str("'", name, "' outside a loop")};
            return made(name == "break" ? Kind::stop : Kind::next, line);
        }
        for (const char* other : {"include", "import", "from", "extends"})
            if (name == other)
                throw SyntaxError{
                    line, str("'", name, "' needs other templates, which a chat template does not have")};
        for (const char* other : {"with", "block", "print", "autoescape", "do", "trans"})
            if (name == other)
                throw SyntaxError{line, str("the tag '", name, "' is not supported")};
        throw SyntaxError{line, str("unknown tag '", name, "'")};
    }

    Statement branch(int line)
    {
        Statement result = made(Kind::branch, line);
        while (true) {
            result.expressions.push_back(p_.tuple(false));
            result.blocks.push_back(body({"elif", "else", "endif"}));
            if (p_.skip_name("elif"))
                continue;
            if (p_.skip_name("else"))
                result.blocks.push_back(body({"endif"}));
            p_.next();
            return result;
        }
    }

    Statement loop(int line)
    {
        Statement result = made(Kind::loop, line);
        result.target = target(false);
        if (!p_.skip_name("in"))
            p_.fail_at("'in'");
        result.expressions.push_back(p_.tuple(false));
        result.expressions.push_back(p_.skip_name("if") ? p_.expression() : nullptr);
        if (p_.is_name("recursive"))
            p_.fail("recursive loops are not supported");
        ++loops_;
        result.blocks.push_back(body({"endfor", "else"}));
        --loops_;
        if (p_.skip_name("else"))
            result.blocks.push_back(body({"endfor"}));
        p_.next();
        return result;
    }

    /// Names with commas, possibly in brackets.
    Target target(bool with_attribute)
    {
        Target result;
        const bool brackets = p_.skip_symbol("(");
        while (result.places.empty() || p_.is(Token::Kind::name)) {
            const std::string name = p_.expect_name();
            for (const char* constant : {"true", "false", "none", "True", "False", "None"})
                if (name == constant)
                    p_.fail(str("cannot assign to '", name, "'"));
            const bool has_attribute = with_attribute && p_.skip_symbol(".");
            result.places.push_back({name, has_attribute ? p_.expect_name() : ""});
            if (!p_.skip_symbol(","))
                break;
            result.is_tuple = true;
            if (p_.is_name("in"))
                break;
        }
        if (brackets)
            p_.expect_symbol(")");
        return result;
    }

    Statement set(int line)
    {
        Statement result = made(Kind::assign, line);
        result.target = target(true);
        if (p_.skip_symbol("=")) {
            result.expressions.push_back(p_.tuple());
            return result;
        }
        result.kind = Kind::capture;
        result.expressions.push_back(p_.of_block(true));
        result.blocks.push_back(body_to("endset"));
        return result;
    }

    void parameters(Statement& of)
    {
        p_.expect_symbol("(");
        while (!p_.is_symbol(")")) {
            if (!of.parameters.empty())
                p_.expect_symbol(",");
            Parameter parameter{p_.expect_name(), nullptr};
            if (p_.skip_symbol("="))
                parameter.by_default = p_.expression();
            else if (!of.parameters.empty() && of.parameters.back().by_default != nullptr)
                p_.fail("non-default argument follows default argument");
            of.parameters.push_back(std::move(parameter));
        }
        p_.expect_symbol(")");
    }

    Statement macro(int line, const std::string& tag)
    {
        Statement result = made(tag == "macro" ? Kind::macro : Kind::call, line);
        if (tag == "macro")
            result.text = p_.expect_name();
        if (tag == "macro" || p_.is_symbol("("))
            parameters(result);
        if (tag == "call") {
            result.expressions.push_back(p_.expression());
            if (result.expressions[0]->kind != Expression::Kind::call)
                throw SyntaxError{line, "expected a call"};
        }
        ++p_.macros;
        result.blocks.push_back(body_without_loop("end" + tag));
        --p_.macros;
        return result;
    }

    ExpressionParser p_;
    bool has_generation_ = false;
    int depth_ = 0, loops_ = 0;
};

} // namespace

Syntax parse(std::string_view source) { return StatementParser(source).run(); }

} // namespace trivium::jinja
