#pragma once
// The parsed form of a template.
#include "io/chat/jinja/value.hpp"

namespace trivium::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct CallArguments {
    std::vector<ExpressionPtr> positional;
    std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Expression {
    enum class Kind : std::uint8_t {
        constant,  ///< `value`
        name,      ///< the variable `text`
        list,      ///< parts
        tuple,     ///< parts
        dict,      ///< parts: key, value, key, value, …
        attribute, ///< parts[0].text
        item,      ///< parts[0][parts[1]]
        slice,     ///< parts[0][parts[1]:parts[2]:parts[3]], of which each may be null
        call,      ///< parts[0](arguments)
        filter,    ///< parts[0] | text(arguments)
        test,      ///< parts[0] is text(arguments)
        negate,    ///< not parts[0]
        minus,     ///< -parts[0]
        binary,    ///< parts[0] text parts[1]
        choose,    ///< parts[1] if parts[0] else parts[2], which may be null
    };
    Kind kind = Kind::constant;
    int line = 1;
    int depth = 1; ///< levels of expressions
    std::string text;
    Value value;
    std::vector<ExpressionPtr> parts;
    CallArguments arguments;
};

/// What a `for` or a `set` assigns to: a name, several, or an attribute of a namespace.
struct Target {
    struct Place {
        std::string name, attribute; ///< `attribute` may be empty
    };
    std::vector<Place> places;
    bool is_tuple = false;
};

struct Statement;
using Block = std::vector<Statement>;

struct Parameter {
    std::string name;
    ExpressionPtr by_default; ///< may be null
};

struct Statement {
    enum class Kind : std::uint8_t {
        data,    ///< prints `text`
        print,   ///< prints expressions[0]
        branch,  ///< if: expressions and blocks of each branch, and perhaps a last block
        loop,    ///< for target in expressions[0] if expressions[1] (may be null): blocks[0] else blocks[1]
        assign,  ///< target = expressions[0]
        capture, ///< target = expressions[0] of the text of blocks[0], which is the variable ""
        filter,  ///< prints expressions[0] of the text of blocks[0]
        macro,   ///< text(parameters): blocks[0]
        call,    ///< calls expressions[0] with the macro (parameters, blocks[0]) as its caller
        generation, ///< prints blocks[0] as what the assistant generates
        stop,       ///< break
        next,       ///< continue
    };
    Kind kind = Kind::data;
    int line = 1;
    std::string text;
    std::vector<ExpressionPtr> expressions;
    std::vector<Block> blocks;
    Target target;
    std::vector<Parameter> parameters;
};

struct Syntax {
    Block block;
    bool has_generation = false;
};

/// A template that is not valid, or that uses what is not supported.
struct SyntaxError {
    int line;
    std::string problem;
};

/// \throws SyntaxError
Syntax parse(std::string_view source);

} // namespace trivium::jinja
