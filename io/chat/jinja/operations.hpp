#pragma once
// What Python's operators do with values. All throw Failure, with Python's text where it has one.
#include "io/chat/jinja/value.hpp"

namespace trivium::jinja {

/// Fails if the value is missing.
void require_defined(const Value& value);
bool truth(const Value& value);
bool equal(const Value& a, const Value& b);
/// Fails if it cannot be a dict's key: a list, a tuple or a dict.
void require_key(const Value& value);
/// "==", "!=", "<", "<=", ">", ">=", "in" or "not in".
bool compared(std::string_view op, const Value& a, const Value& b);
/// "+", "-", "*", "/", "//", "%".
Value arithmetic(std::string_view op, const Value& a, const Value& b);
Value negative(const Value& value);
/// Markup with the characters of HTML escaped.
Value escaped(const Value& value);

/// The elements: of a dict its keys, of a text its characters. An iterator is consumed.
std::vector<Value> elements(const Value& value);
bool is_iterable(const Value& value);
i64 length(const Value& value);

/// `value[key]`; undefined if there is none.
Value item_of(const Value& value, const Value& key);
/// `value.name`; undefined if there is none.
Value attribute_of(const Value& value, const std::string& name);
/// `value[from:to:step]`, of which each may be none.
Value slice_of(const Value& value, const Value& from, const Value& to, const Value& step);

} // namespace trivium::jinja
