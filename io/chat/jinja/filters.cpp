// Filters: `value | name(…)`.
#include "base/check.hpp"
#include "io/chat/jinja/functions.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace trivium::jinja {

namespace {

/// str(value), as Markup where it is.
Value soft_text(const Value& value) { return value.is_text() ? value : Value(to_text(value)); }

/// As Python, but words begin behind white space and some characters only.
Value title(Evaluator&, const Value& input, const Arguments& a)
{
    Parameters("title", a, {});
    const MarkedText text = to_text(input);
    return text.with_text(with_capitals(text.text(), [](char32_t c) {
        return c == 0 || is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    }));
}

Value default_value(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("default", a, {"default_value", "boolean"});
    if (input.is_undefined() || (given.truth_of(1, false) && !truth(input)))
        return given[0] == nullptr ? Value("") : *given[0];
    return input;
}

Value integer(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("int", a, {"default"});
    require_defined(input);
    if (input.whole())
        return *input.whole();
    std::optional<double> number;
    if (input.is_float())
        number = input.as_float();
    else if (const std::optional<i64> whole = input.is_text() ? parsed_int(input.text()) : std::nullopt)
        return *whole;
    else if (input.is_text())
        number = parsed_float(input.text());
    if (!number)
        return given[0] == nullptr ? Value(i64{0}) : *given[0];
    if (!(std::abs(*number) < 9.2e18))
        throw Failure{"cannot convert this float to an integer of 64 bits"};
    return static_cast<i64>(*number);
}

std::string spaces_of(const Parameters& given, std::size_t i, i64 by_default)
{
    if (given[i] != nullptr && given[i]->is_text())
        return given[i]->text();
    return std::string(static_cast<std::size_t>(std::clamp<i64>(given.integer(i, by_default), 0, 1000)), ' ');
}

Value to_json(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("tojson", a, {"ensure_ascii", "indent", "separators", "sort_keys"});
    TextStyle style;
    style.json = true;
    style.ascii = given.truth_of(0, false);
    if (given.has(1)) {
        style.indent = spaces_of(given, 1, 0);
        style.item_separator = ",";
    }
    if (given.has(2)) {
        const std::vector<Value> both = elements(*given[2]);
        if (both.size() != 2 || !both[0].is_text() || !both[1].is_text())
            throw Failure{"the separators of tojson are two texts"};
        style.item_separator = both[0].text();
        style.key_separator = both[1].text();
    }
    style.sort_keys = given.truth_of(3, false);
    return written(input, style);
}

Value indent(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("indent", a, {"width", "first", "blank"});
    if (!input.is_text())
        throw Failure{str("the filter indent needs a text, not ", input.type_name())};
    const std::string spaces = spaces_of(given, 0, 4);
    const bool first = given.truth_of(1, false), blank = given.truth_of(2, false);
    const std::vector<Value> lines = split_lines(arithmetic("+", Value(input.marked()), Value("\n")), false);
    MarkedText result;
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (i != 0)
            result.append("\n");
        if (i == 0 ? first : blank || !lines[i].text().empty())
            result.append(std::string_view(spaces));
        result.append(lines[i].marked());
    }
    return result;
}

// ---- of lists ----

Value iterator(std::vector<Value> items) { return make_list(std::move(items), List::Kind::iterator); }

/// "a.b.0" as the keys to look up one after the other.
std::vector<Value> path_of(const Value* attribute)
{
    if (attribute == nullptr || attribute->is_none())
        return {};
    if (!attribute->is_text())
        return {*attribute};
    const std::string& text = attribute->text();
    if (text.find(',') != std::string::npos)
        throw Failure{"several attributes are not supported"};
    std::vector<Value> keys;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::string part = text.substr(begin, text.find('.', begin) - begin);
        begin += part.size() + 1;
        const bool digits = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
        keys.push_back(digits ? Value(parsed_int(part).value()) : Value(part));
    }
    return keys;
}

Value at_path(Value item, const std::vector<Value>& path, const Value* by_default = nullptr)
{
    for (const Value& key : path) {
        item = item_of(item, key);
        if (item.is_undefined() && by_default != nullptr)
            item = *by_default;
    }
    return item;
}

/// Sorts by keys, stable.
Value sorted(const std::vector<Value>& values, std::vector<Value> keys, bool with_case, bool reverse)
{
    for (Value& key : keys)
        if (key.is_text() && !with_case)
            key = Value(to_lower(key.text()));
    std::vector<std::size_t> order(values.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return reverse ? compared("<", keys[b], keys[a]) : compared("<", keys[a], keys[b]);
    });
    std::vector<Value> result;
    for (const std::size_t i : order)
        result.push_back(values[i]);
    return make_list(std::move(result));
}

Value join(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("join", a, {"d", "attribute"});
    const MarkedText separator = given[0] == nullptr ? MarkedText() : to_text(*given[0]);
    const std::vector<Value> path = path_of(given[1]);
    MarkedText result;
    bool first = true;
    for (const Value& item : elements(input)) {
        if (!std::exchange(first, false))
            result.append(separator);
        result.append(to_text(at_path(item, path)));
    }
    return result;
}

const std::vector<std::pair<Value, Value>>& items_in(const char* filter, const Value& input)
{
    require_defined(input);
    if (input.dict() == nullptr)
        throw Failure{str("the filter ", filter, " needs a dict, not ", input.type_name())};
    return input.dict()->items;
}

Value items(Evaluator&, const Value& input, const Arguments&)
{
    std::vector<Value> pairs;
    if (!input.is_undefined())
        for (const auto& [key, value] : items_in("items", input))
            pairs.push_back(make_list({key, value}, List::Kind::tuple));
    return iterator(std::move(pairs));
}

Value dict_sort(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("dictsort", a, {"case_sensitive", "by", "reverse"});
    const std::string by = given.text(1, "key");
    if (by != "key" && by != "value")
        throw Failure{"You can only sort by either \"key\" or \"value\""};
    std::vector<Value> pairs, keys;
    for (const auto& [key, value] : items_in("dictsort", input)) {
        pairs.push_back(make_list({key, value}, List::Kind::tuple));
        keys.push_back(by == "key" ? key : value);
    }
    return sorted(pairs, std::move(keys), given.truth_of(0, false), given.truth_of(2, false));
}

Value sort(Evaluator&, const Value& input, const Arguments& a)
{
    const Parameters given("sort", a, {"reverse", "case_sensitive", "attribute"});
    const std::vector<Value> values = elements(input), path = path_of(given[2]);
    std::vector<Value> keys;
    for (const Value& value : values)
        keys.push_back(at_path(value, path));
    return sorted(values, std::move(keys), given.truth_of(1, false), given.truth_of(0, false));
}

template <bool is_last>
Value one_end(Evaluator&, const Value& input, const Arguments&)
{
    if (const List* list = input.list(); is_last && list != nullptr && list->kind == List::Kind::iterator)
        throw Failure{"'generator' object is not reversible"};
    const std::vector<Value> all = elements(input);
    return all.empty() ? Value::undefined("No such item, sequence was empty.")
           : is_last   ? all.back()
                       : all.front();
}

Value reverse(Evaluator&, const Value& input, const Arguments&)
{
    if (input.is_text())
        return slice_of(input, {}, {}, Value(i64{-1}));
    std::vector<Value> all = elements(input);
    std::reverse(all.begin(), all.end());
    return iterator(std::move(all));
}

Arguments without_first(const Arguments& arguments, std::size_t count)
{
    Arguments rest = arguments;
    rest.positional.erase(rest.positional.begin(),
                          rest.positional.begin() + static_cast<std::ptrdiff_t>(count));
    return rest;
}

const std::string& name_in(const Value& value)
{
    if (!value.is_text())
        throw Failure{str("the name of a filter or a test is a text, not ", value.type_name())};
    return value.text();
}

Value map(Evaluator& evaluator, const Value& input, const Arguments& a)
{
    std::vector<Value> results;
    if (!truth(input))
        return iterator({});
    if (a.positional.empty()) {
        const Parameters given("map", a, {"attribute", "default"});
        if (given[0] == nullptr)
            throw Failure{"map requires a filter argument"};
        const std::vector<Value> path = path_of(given[0]);
        for (const Value& item : elements(input))
            results.push_back(at_path(item, path, given.has(1) ? given[1] : nullptr));
    } else {
        const std::string& name = name_in(a.positional[0]);
        const Arguments rest = without_first(a, 1);
        for (const Value& item : elements(input))
            results.push_back(evaluator.filtered(name, item, rest));
    }
    return iterator(std::move(results));
}

/// select, reject, selectattr, rejectattr.
template <bool by_attribute, bool wanted>
Value select(Evaluator&, const Value& input, const Arguments& a)
{
    const std::size_t off = by_attribute ? 1 : 0;
    if (a.positional.size() < off)
        throw Failure{"Missing parameter for attribute name"};
    const std::vector<Value> path = by_attribute ? path_of(&a.positional[0]) : std::vector<Value>();
    const bool tests = a.positional.size() > off;
    const Arguments rest = without_first(a, off + (tests ? 1 : 0));
    std::vector<Value> chosen;
    if (!truth(input))
        return iterator({});
    for (const Value& item : elements(input)) {
        const Value value = at_path(item, path);
        const bool holds = tests ? is_so(name_in(a.positional[off]), value, rest) : truth(value);
        if (holds == wanted)
            chosen.push_back(item);
    }
    return iterator(std::move(chosen));
}

using E = Evaluator&;
using V = const Value&;
using A = const Arguments&;

Value count_of(E, V input, A) { return length(input); }
Value escape(E, V input, A) { return escaped(input); }
const std::map<std::string, Filter, std::less<>> filters{
    {"capitalize", [](E, V input, A a) { return text_method(soft_text(input), "capitalize", a); }},
    {"count", count_of},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dict_sort},
    {"e", escape},
    {"escape", escape},
    {"first", one_end<false>},
    {"indent", indent},
    {"int", integer},
    {"items", items},
    {"join", join},
    {"last", one_end<true>},
    {"length", count_of},
    {"list", [](E, V input, A) { return make_list(elements(input)); }},
    {"lower", [](E, V input, A a) { return text_method(soft_text(input), "lower", a); }},
    {"map", map},
    {"reject", select<false, false>},
    {"rejectattr", select<true, false>},
    {"replace", [](E, V input, A a) { return text_method(soft_text(input), "replace", a); }},
    {"reverse", reverse},
    {"safe", [](E, V input, A) { return Value(to_text(input), true); }},
    {"select", select<false, true>},
    {"selectattr", select<true, true>},
    {"sort", sort},
    {"string", [](E, V input, A) { return soft_text(input); }},
    {"title", title},
    {"tojson", to_json},
    {"trim", [](E, V input, A a) { return text_method(soft_text(input), "strip", a); }},
    {"upper", [](E, V input, A a) { return text_method(soft_text(input), "upper", a); }},
};

} // namespace

Filter find_filter(std::string_view name)
{
    const auto found = filters.find(name);
    return found == filters.end() ? nullptr : found->second;
}

} // namespace trivium::jinja
