#pragma once
// The methods of Python's str.
#include "io/chat/jinja/value.hpp"

namespace trivium::jinja {

bool is_text_method(std::string_view name);
/// `self.name(…)`. \throws Failure
Value text_method(const Value& self, const std::string& name, const Arguments& arguments);

/// Parts with their marks.
Value replaced(const Value& self, const std::string& old, const Value& by, i64 count);
/// Joins texts. \throws Failure if an element is not one
Value joined(const Value& separator, const std::vector<Value>& parts);
std::vector<Value> split_lines(const Value& self, bool keep_ends);
/// With `width` characters at least; `left` and `right` say where spaces are added.
Value padded(const Value& self, i64 width, bool left, bool right, const std::string& fill = " ");

} // namespace trivium::jinja
