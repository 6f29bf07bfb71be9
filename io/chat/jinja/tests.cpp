// Tests: `value is name(…)`.
#include "base/check.hpp"
#include "io/chat/jinja/evaluator.hpp"
#include "io/chat/jinja/methods.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"
#include "io/chat/jinja/unicode.hpp"

#include <map>

namespace trivium::jinja {

namespace {

i64 remainder(const Value& value, const Value& by)
{
    const Value rest = arithmetic("%", value, by);
    return rest.is_number() && rest.number() == static_cast<double>(static_cast<i64>(rest.number()))
               ? static_cast<i64>(rest.number())
               : -1;
}

const Value& operand(const Arguments& arguments)
{
    return *Parameters("the test", arguments, {"value"}, 1)[0];
}

/// Whether all letters are of one case, and there are some.
bool is_of_case(const Value& value, bool upper)
{
    const MarkedText text = to_text(value);
    bool any = false;
    for (std::size_t at = 0; at < text.size();) {
        const char32_t c = next_character(text.text(), at);
        if (is_title(c) || (upper ? is_lower(c) : is_upper(c)))
            return false;
        any |= upper ? is_upper(c) : is_lower(c);
    }
    return any;
}

bool is_sequence(const Value& value)
{
    const List* list = value.list();
    return value.is_undefined() || value.is_text() || value.dict() != nullptr ||
           (list != nullptr && list->has_elements());
}

bool names_one(const Value& value)
{
    if (!is_hashable(value))
        throw Failure{str("unhashable type: '", value.type_name(), "'")};
    return value.is_text();
}

using Arguments_ = const Arguments&;

const std::map<std::string, Test, std::less<>> tests{
    {"odd", [](const Value& v, Arguments_) { return remainder(v, Value(i64{2})) == 1; }},
    {"even", [](const Value& v, Arguments_) { return remainder(v, Value(i64{2})) == 0; }},
    {"divisibleby", [](const Value& v, Arguments_ a) { return remainder(v, operand(a)) == 0; }},
    {"defined", [](const Value& v, Arguments_) { return !v.is_undefined(); }},
    {"undefined", [](const Value& v, Arguments_) { return v.is_undefined(); }},
    {"filter", [](const Value& v, Arguments_) { return names_one(v) && find_filter(v.text()) != nullptr; }},
    {"test", [](const Value& v, Arguments_) { return names_one(v) && find_test(v.text()) != nullptr; }},
    {"none", [](const Value& v, Arguments_) { return v.is_none(); }},
    {"boolean", [](const Value& v, Arguments_) { return v.is_bool(); }},
    {"false", [](const Value& v, Arguments_) { return v.is_bool() && !v.as_bool(); }},
    {"true", [](const Value& v, Arguments_) { return v.is_bool() && v.as_bool(); }},
    {"integer", [](const Value& v, Arguments_) { return v.is_int(); }},
    {"float", [](const Value& v, Arguments_) { return v.is_float(); }},
    {"lower", [](const Value& v, Arguments_) { return is_of_case(v, false); }},
    {"upper", [](const Value& v, Arguments_) { return is_of_case(v, true); }},
    {"string", [](const Value& v, Arguments_) { return v.is_text(); }},
    {"mapping", [](const Value& v, Arguments_) { return v.dict() != nullptr; }},
    {"number", [](const Value& v, Arguments_) { return v.is_number(); }},
    {"sequence", [](const Value& v, Arguments_) { return is_sequence(v); }},
    {"iterable", [](const Value& v, Arguments_) { return is_iterable(v); }},
    {"callable",
     [](const Value& v, Arguments_) {
         return v.is_undefined() || (v.object() != nullptr && v.object()->is_callable());
     }},
    {"sameas", [](const Value& v, Arguments_ a) { return v.same(operand(a)); }},
    {"escaped", [](const Value& v, Arguments_) { return v.is_text() && v.as_text().safe; }},
    {"in", [](const Value& v, Arguments_ a) { return contains(operand(a), v); }},
    {"==", [](const Value& v, Arguments_ a) { return equal(v, operand(a)); }},
    {"eq", [](const Value& v, Arguments_ a) { return equal(v, operand(a)); }},
    {"equalto", [](const Value& v, Arguments_ a) { return equal(v, operand(a)); }},
    {"!=", [](const Value& v, Arguments_ a) { return !equal(v, operand(a)); }},
    {"ne", [](const Value& v, Arguments_ a) { return !equal(v, operand(a)); }},
    {">", [](const Value& v, Arguments_ a) { return ordered(">", v, operand(a)); }},
    {"gt", [](const Value& v, Arguments_ a) { return ordered(">", v, operand(a)); }},
    {"greaterthan", [](const Value& v, Arguments_ a) { return ordered(">", v, operand(a)); }},
    {">=", [](const Value& v, Arguments_ a) { return ordered(">=", v, operand(a)); }},
    {"ge", [](const Value& v, Arguments_ a) { return ordered(">=", v, operand(a)); }},
    {"<", [](const Value& v, Arguments_ a) { return ordered("<", v, operand(a)); }},
    {"lt", [](const Value& v, Arguments_ a) { return ordered("<", v, operand(a)); }},
    {"lessthan", [](const Value& v, Arguments_ a) { return ordered("<", v, operand(a)); }},
    {"<=", [](const Value& v, Arguments_ a) { return ordered("<=", v, operand(a)); }},
    {"le", [](const Value& v, Arguments_ a) { return ordered("<=", v, operand(a)); }},
};

} // namespace

Test find_test(std::string_view name)
{
    const auto found = tests.find(name);
    return found == tests.end() ? nullptr : found->second;
}

} // namespace trivium::jinja
