#pragma once
// The tokens of a template.
#include "base/units.hpp"

#include <string>
#include <string_view>
#include <vector>

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
        integer,
        real,
        symbol, ///< an operator or a bracket
        end,    ///< of the template
    };
    Kind kind = Kind::end;
    std::string text; ///< of a text its content; of an integer or real its digits
    int line = 1;
};

/// A template that is not valid. Parsing turns it into a UserError.
struct SyntaxError {
    int line;
    std::string problem;
};

/// With jinja2's rules of white space for trim_blocks and lstrip_blocks. The last token is `end`. \throws
/// SyntaxError
std::vector<Token> tokens_of(std::string_view source);

} // namespace trivium::jinja
