#include "io/chat/jinja/list_filters.hpp"

#include "base/check.hpp"
#include "io/chat/jinja/methods.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"
#include "io/chat/jinja/unicode.hpp"

#include <algorithm>

namespace trivium::jinja {

namespace {

std::vector<std::string> split_at(const std::string& text, char separator)
{
    std::vector<std::string> parts(1);
    for (const char c : text) {
        if (c == separator)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

/// "a.b.0" as the keys to look up one after the other.
std::vector<Value> path_of(const Value& attribute)
{
    if (attribute.is_none())
        return {};
    if (!attribute.is_text())
        return {attribute};
    std::vector<Value> keys;
    for (const std::string& part : split_at(attribute.text(), '.')) {
        const bool digits = !part.empty() && std::all_of(part.begin(), part.end(),
                                                         [](char c) { return c >= '0' && c <= '9'; });
        keys.push_back(digits ? Value(parsed_int(part).value_or(0)) : Value(part));
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

Value without_case(const Value& value) { return value.is_text() ? Value(to_lower(value.text())) : value; }

Value iterator(std::vector<Value> items) { return make_list(std::move(items), List::Kind::iterator); }

/// Sorts by keys, stable.
std::vector<Value> sorted(const std::vector<Value>& values, const std::vector<Value>& keys, bool reverse)
{
    std::vector<std::size_t> order(values.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        order[i] = i;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return reverse ? ordered("<", keys[b], keys[a]) : ordered("<", keys[a], keys[b]);
    });
    std::vector<Value> result;
    for (const std::size_t i : order)
        result.push_back(values[i]);
    return result;
}

Value join(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("join", arguments, {"d", "attribute"});
    const MarkedText separator = given[0] == nullptr ? MarkedText() : to_text(*given[0]);
    const std::vector<Value> path = given.has(1) ? path_of(*given[1]) : std::vector<Value>();
    MarkedText result;
    bool first = true;
    for (const Value& item : elements(input)) {
        if (!std::exchange(first, false))
            result.append(separator);
        result.append(to_text(at_path(item, path)));
    }
    return result;
}

Value list(Evaluator&, const Value& input, const Arguments& arguments)
{
    Parameters("list", arguments, {});
    return make_list(elements(input));
}

Value items(Evaluator&, const Value& input, const Arguments& arguments)
{
    Parameters("items", arguments, {});
    if (input.is_undefined())
        return iterator({});
    if (input.dict() == nullptr)
        throw Failure{"Can only get item pairs from a mapping."};
    std::vector<Value> pairs;
    for (const auto& [key, value] : input.dict()->items)
        pairs.push_back(make_tuple({key, value}));
    return iterator(std::move(pairs));
}

Value dict_sort(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("dictsort", arguments, {"case_sensitive", "by", "reverse"});
    const std::string by = given.text(1, "key");
    if (by != "key" && by != "value")
        throw Failure{"You can only sort by either \"key\" or \"value\""};
    if (input.dict() == nullptr)
        throw Failure{input.is_undefined()
                          ? input.as_undefined().why
                          : str("the filter dictsort needs a dict, not ", input.type_name())};
    std::vector<Value> pairs, keys;
    for (const auto& [key, value] : input.dict()->items) {
        pairs.push_back(make_tuple({key, value}));
        const Value& chosen = by == "key" ? key : value;
        keys.push_back(given.truth_of(0, false) ? chosen : without_case(chosen));
    }
    return make_list(sorted(pairs, keys, given.truth_of(2, false)));
}

Value sort(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("sort", arguments, {"reverse", "case_sensitive", "attribute"});
    std::vector<std::vector<Value>> paths;
    if (given.has(2) && given[2]->is_text())
        for (const std::string& part : split_at(given[2]->text(), ','))
            paths.push_back(path_of(Value(part)));
    else
        paths.push_back(given.has(2) ? path_of(*given[2]) : std::vector<Value>());
    const std::vector<Value> values = elements(input);
    std::vector<Value> keys;
    for (const Value& value : values) {
        std::vector<Value> all;
        for (const std::vector<Value>& path : paths) {
            const Value key = at_path(value, path);
            all.push_back(given.truth_of(1, false) ? key : without_case(key));
        }
        keys.push_back(make_list(std::move(all)));
    }
    return make_list(sorted(values, keys, given.truth_of(0, false)));
}

Value unique(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("unique", arguments, {"case_sensitive", "attribute"});
    const std::vector<Value> path = given.has(1) ? path_of(*given[1]) : std::vector<Value>();
    std::vector<Value> chosen, seen;
    for (const Value& item : elements(input)) {
        const Value found = at_path(item, path), key = given.truth_of(0, false) ? found : without_case(found);
        if (!is_hashable(key))
            throw Failure{str("unhashable type: '", key.type_name(), "'")};
        if (std::any_of(seen.begin(), seen.end(), [&](const Value& other) { return equal(other, key); }))
            continue;
        seen.push_back(key);
        chosen.push_back(item);
    }
    return iterator(std::move(chosen));
}

template <bool is_max>
Value extreme(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given(is_max ? "max" : "min", arguments, {"case_sensitive", "attribute"});
    const std::vector<Value> path = given.has(1) ? path_of(*given[1]) : std::vector<Value>();
    std::optional<Value> best, best_key;
    for (const Value& item : elements(input)) {
        const Value found = at_path(item, path), key = given.truth_of(0, false) ? found : without_case(found);
        if (best && !ordered(is_max ? ">" : "<", key, *best_key))
            continue;
        best = item;
        best_key = key;
    }
    return best ? *best : Value::undefined("No aggregated item, sequence was empty.");
}

Value sum(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("sum", arguments, {"attribute", "start"});
    const std::vector<Value> path = given.has(0) ? path_of(*given[0]) : std::vector<Value>();
    Value total = given[1] == nullptr ? Value(i64{0}) : *given[1];
    for (const Value& item : elements(input))
        total = arithmetic("+", total, at_path(item, path));
    return total;
}

Value first(Evaluator&, const Value& input, const Arguments&)
{
    const std::vector<Value> all = elements(input);
    return all.empty() ? Value::undefined("No first item, sequence was empty.") : all.front();
}

Value last(Evaluator&, const Value& input, const Arguments&)
{
    if (const List* list = input.list(); list != nullptr && list->kind == List::Kind::iterator)
        throw Failure{"'generator' object is not reversible"};
    const std::vector<Value> all = elements(input);
    return all.empty() ? Value::undefined("No last item, sequence was empty.") : all.back();
}

Value reverse(Evaluator&, const Value& input, const Arguments&)
{
    if (input.is_text())
        return slice_of(input, {}, {}, Value(i64{-1}));
    std::vector<Value> all = elements(input);
    std::reverse(all.begin(), all.end());
    return iterator(std::move(all));
}

Value batch(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("batch", arguments, {"linecount", "fill_with"}, 1);
    const i64 size = given.integer(0, 1);
    std::vector<Value> rows;
    std::vector<Value> row;
    const auto full = [&] { return static_cast<i64>(row.size()) == size; };
    for (const Value& item : elements(input)) {
        if (full())
            rows.push_back(make_list(std::exchange(row, {})));
        row.push_back(item);
    }
    if (!row.empty()) {
        for (; given.has(1) && static_cast<i64>(row.size()) < size; spend())
            row.push_back(*given[1]);
        rows.push_back(make_list(std::move(row)));
    }
    return iterator(std::move(rows));
}

Value slices(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("slice", arguments, {"slices", "fill_with"}, 1);
    const std::vector<Value> all = elements(input);
    const i64 count = given.integer(0, 1), size = static_cast<i64>(all.size());
    if (count == 0)
        throw Failure{"integer division or modulo by zero"};
    std::vector<Value> rows;
    auto at = all.begin();
    for (i64 i = 0; i < count; ++i) {
        spend();
        const auto end = at + size / count + (i < size % count ? 1 : 0);
        std::vector<Value> row(at, end);
        if (given.has(1) && i >= size % count)
            row.push_back(*given[1]);
        rows.push_back(make_list(std::move(row)));
        at = end;
    }
    return iterator(std::move(rows));
}

Value group_by(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
    const std::vector<Value> path = path_of(*given[0]), values = elements(input);
    const Value* by_default = given.has(1) ? given[1] : nullptr;
    const auto key_of = [&](const Value& value) {
        const Value key = at_path(value, path, by_default);
        return given.truth_of(2, false) ? key : without_case(key);
    };
    std::vector<Value> keys;
    for (const Value& value : values)
        keys.push_back(key_of(value));
    std::vector<Value> groups, group;
    const auto end_group = [&] {
        if (!group.empty()) {
            Value name = at_path(group.front(), path, by_default);
            groups.push_back(
                make_list({std::move(name), make_list(std::exchange(group, {}))}, List::Kind::group));
        }
    };
    for (const Value& value : sorted(values, keys, false)) {
        if (!group.empty() && !equal(key_of(group.front()), key_of(value)))
            end_group();
        group.push_back(value);
    }
    end_group();
    return make_list(std::move(groups));
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

Value map(Evaluator& evaluator, const Value& input, const Arguments& arguments)
{
    std::vector<Value> results;
    if (!truth(input))
        return iterator({});
    if (arguments.positional.empty()) {
        const Parameters given("map", arguments, {"attribute", "default"});
        if (given[0] == nullptr)
            throw Failure{"map requires a filter argument"};
        const std::vector<Value> path = path_of(*given[0]);
        for (const Value& item : elements(input))
            results.push_back(at_path(item, path, given.has(1) ? given[1] : nullptr));
    } else {
        const std::string& name = name_in(arguments.positional[0]);
        const Arguments rest = without_first(arguments, 1);
        for (const Value& item : elements(input))
            results.push_back(evaluator.filtered(name, item, rest));
    }
    return iterator(std::move(results));
}

/// select, reject, selectattr, rejectattr.
template <bool by_attribute, bool wanted>
Value select(Evaluator& evaluator, const Value& input, const Arguments& arguments)
{
    const std::size_t off = by_attribute ? 1 : 0;
    if (arguments.positional.size() < off)
        throw Failure{"Missing parameter for attribute name"};
    const std::vector<Value> path = by_attribute ? path_of(arguments.positional[0]) : std::vector<Value>();
    const bool tests = arguments.positional.size() > off;
    const Arguments rest = without_first(arguments, off + (tests ? 1 : 0));
    std::vector<Value> chosen;
    if (!truth(input))
        return iterator({});
    for (const Value& item : elements(input)) {
        const Value value = at_path(item, path);
        const bool holds =
            tests ? evaluator.tested(name_in(arguments.positional[off]), value, rest) : truth(value);
        if (holds == wanted)
            chosen.push_back(item);
    }
    return iterator(std::move(chosen));
}

} // namespace

const std::map<std::string, Filter, std::less<>>& list_filters()
{
    static const std::map<std::string, Filter, std::less<>> filters{
        {"batch", batch},
        {"dictsort", dict_sort},
        {"first", first},
        {"groupby", group_by},
        {"items", items},
        {"join", join},
        {"last", last},
        {"list", list},
        {"map", map},
        {"max", extreme<true>},
        {"min", extreme<false>},
        {"reject", select<false, false>},
        {"rejectattr", select<true, false>},
        {"reverse", reverse},
        {"select", select<false, true>},
        {"selectattr", select<true, true>},
        {"slice", slices},
        {"sort", sort},
        {"sum", sum},
        {"unique", unique},
    };
    return filters;
}

} // namespace trivium::jinja
