#pragma once
// Attributes and initial contents as text, and back.
#include "ir/attributes.hpp"

namespace trivium {

/// `{axis="data", dim="0"}`; "" without attributes.
std::string to_text(const Attributes& attributes);
/// "normal(std=0.02)"; "" for none.
std::string to_text(const Init& init);

/// A real number, printed so that it does not parse as an integer: "1.0".
std::string print_real(double value);

/// `name=text`, or `name="text"`, as in the text form of a graph; `place` is the place of the text.
struct AttrText {
    std::string name, text;
    bool quoted = false;
    std::string place;
};
/// Throws UserError if a name is unknown or appears twice, or a value does not have its attribute's type.
Attributes parse_attributes(const std::vector<AttrText>& fields);
/// The initial content `kind` with these members, all of which are required. `place` is the place of `kind`.
/// Throws UserError as above.
Init parse_init(const std::string& kind, const std::string& place, const std::vector<AttrText>& fields);

/// "its attribute 'to' is '2', must be …".
[[noreturn]] void refuse_attribute(const std::string& place, const std::string& name, const std::string& text,
                                   const std::string& expected, const std::string& remedy);

} // namespace trivium
