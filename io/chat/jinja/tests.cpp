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

const std::map<std::string, bool (*)(V value, A arguments), std::less<>> tests{
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
};

const std::map<std::string, std::string, std::less<>> comparing{
    {"in", "in"}, {"==", "=="},      {"eq", "=="},         {"equalto", "=="}, {"!=", "!="}, {"ne", "!="},
    {">", ">"},   {"gt", ">"},       {"greaterthan", ">"}, {">=", ">="},      {"ge", ">="}, {"<", "<"},
    {"lt", "<"},  {"lessthan", "<"}, {"<=", "<="},         {"le", "<="},
};

} // namespace

bool is_so(std::string_view name, const Value& value, const Arguments& arguments)
{
    if (const auto op = comparing.find(name); op != comparing.end())
        return compared(op->second, value, operand(arguments));
    if (const auto found = tests.find(name); found != tests.end())
        return found->second(value, arguments);
    throw Failure{str("the test '", name, "' is not supported")};
}

} // namespace trivium::jinja
