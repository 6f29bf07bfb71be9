// Tests: `value is name(…)`.
#include "base/check.hpp"
#include "io/chat/jinja/functions.hpp"
#include "io/chat/jinja/operations.hpp"

#include <map>

namespace trivium::jinja {

namespace {

i64 remainder(const Value& value, const Value& by) { return arithmetic("%", value, by).whole().value_or(-1); }

const Value& operand(const Arguments& arguments)
{
    return *Parameters("the test", arguments, {"value"}, 1)[0];
}

bool is_sequence(const Value& value)
{
    const List* list = value.list();
    return value.is_undefined() || value.is_text() || value.dict() != nullptr ||
           (list != nullptr && list->has_elements());
}

using V = const Value&;
using A = const Arguments&;

const std::map<std::string, Test, std::less<>> tests{
    {"odd", [](V v, A) { return remainder(v, Value(i64{2})) == 1; }},
    {"even", [](V v, A) { return remainder(v, Value(i64{2})) == 0; }},
    {"divisibleby", [](V v, A a) { return remainder(v, operand(a)) == 0; }},
    {"defined", [](V v, A) { return !v.is_undefined(); }},
    {"undefined", [](V v, A) { return v.is_undefined(); }},
    {"none", [](V v, A) { return v.is_none(); }},
    {"boolean", [](V v, A) { return v.is_bool(); }},
    {"false", [](V v, A) { return v.is_bool() && !v.as_bool(); }},
    {"true", [](V v, A) { return v.is_bool() && v.as_bool(); }},
    {"integer", [](V v, A) { return v.is_int(); }},
    {"float", [](V v, A) { return v.is_float(); }},
    {"string", [](V v, A) { return v.is_text(); }},
    {"mapping", [](V v, A) { return v.dict() != nullptr; }},
    {"number", [](V v, A) { return v.is_number(); }},
    {"sequence", [](V v, A) { return is_sequence(v); }},
    {"iterable", [](V v, A) { return is_iterable(v); }},
    {"sameas", [](V v, A a) { return v.same(operand(a)); }},
    {"in", [](V v, A a) { return contains(operand(a), v); }},
    {"==", [](V v, A a) { return equal(v, operand(a)); }},
    {"eq", [](V v, A a) { return equal(v, operand(a)); }},
    {"equalto", [](V v, A a) { return equal(v, operand(a)); }},
    {"!=", [](V v, A a) { return !equal(v, operand(a)); }},
    {"ne", [](V v, A a) { return !equal(v, operand(a)); }},
    {">", [](V v, A a) { return ordered(">", v, operand(a)); }},
    {"gt", [](V v, A a) { return ordered(">", v, operand(a)); }},
    {"greaterthan", [](V v, A a) { return ordered(">", v, operand(a)); }},
    {">=", [](V v, A a) { return ordered(">=", v, operand(a)); }},
    {"ge", [](V v, A a) { return ordered(">=", v, operand(a)); }},
    {"<", [](V v, A a) { return ordered("<", v, operand(a)); }},
    {"lt", [](V v, A a) { return ordered("<", v, operand(a)); }},
    {"lessthan", [](V v, A a) { return ordered("<", v, operand(a)); }},
    {"<=", [](V v, A a) { return ordered("<=", v, operand(a)); }},
    {"le", [](V v, A a) { return ordered("<=", v, operand(a)); }},
};

} // namespace

Test find_test(std::string_view name)
{
    const auto found = tests.find(name);
    return found == tests.end() ? nullptr : found->second;
}

} // namespace trivium::jinja
