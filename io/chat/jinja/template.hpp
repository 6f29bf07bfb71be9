#pragma once
// A Jinja template as chat templates use it.
#include "io/chat/jinja/evaluator.hpp"

#include <nlohmann/json.hpp>

namespace trivium::jinja {

/// Renders as jinja2's ImmutableSandboxedEnvironment with trim_blocks, lstrip_blocks and loop controls,
/// without other templates (include, import, extends), and with integers of 64 bits.
class Template {
public:
    /// `place`: names the template in messages. UserError ("PLACE:LINE") if it is not valid.
    Template(std::string_view source, std::string place);

    /// Steps limit the work. UserError ("PLACE:LINE") if it fails.
    MarkedText render(const Variables& variables, std::time_t now, i64 steps = default_work) const;
    /// Whether it has `{% generation %}`.
    bool has_generation() const { return syntax_.has_generation; }
    const std::string& place() const { return place_; }

private:
    std::string place_;
    Syntax syntax_;
};

/// A value of JSON. `message`: if at least 0, all its texts are the words of this message. \throws Failure
Value value_of(const nlohmann::ordered_json& json, i32 message = -1);

} // namespace trivium::jinja
