#pragma once
// Prints and parses attributes and initial contents.
#include "ir/graph.hpp"

namespace trivium {

/// `{axis="data", dim="0"}`; "" without attributes.
std::string to_text(const Attributes& attributes);
/// "normal(std=0.02)"; "" for none.
std::string to_text(const Init& init);
/// "average(decay=0.9)"; "" for that of the optimizer.
std::string to_text(const ParameterUpdate& update);

/// A real number, printed so that it does not parse as an integer: "1.0".
std::string print_real(double value);
/// "0 1 0"
std::string print_numbers(const std::vector<i64>& numbers);

/// `name=text`, or `name="text"` (quoted), in the text of a graph; errors about it begin with `place`.
struct AttrText {
    std::string name, text;
    bool quoted = false;
    std::string place;
};
/// A name that no attribute has is that of a factor, with its size, or, followed by "_offset", its first
/// index. Throws UserError if a factor's value is not an integer, an attribute appears twice or its value has
/// another type.
Attributes parse_attributes(const std::vector<AttrText>& fields);
/// The initial content `kind`; `fields` lists its members, all that have no usual value. Throws UserError if
/// `kind`, which is at `place`, is unknown or lacks a member, or a field has an unknown name, a wrong type,
/// or appears twice.
Init parse_init(const std::string& kind, const std::string& place, const std::vector<AttrText>& fields);

/// The update `kind` with its number. Throws UserError as parse_init().
ParameterUpdate parse_update(const std::string& kind, const std::string& place,
                             const std::vector<AttrText>& fields);

/// Throws UserError: "its attribute 'to' is '2', must be …".
[[noreturn]] void refuse_attribute(const std::string& place, const std::string& name, const std::string& text,
                                   const std::string& expected, const std::string& remedy);

} // namespace trivium
