#pragma once
// The tokens of a template.
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

/// With jinja2's rules of white space for trim_blocks and lstrip_blocks. The last token is `end`. \throws
/// SyntaxError
std::vector<Token> tokens_of(std::string_view source);

} // namespace trivium::jinja
