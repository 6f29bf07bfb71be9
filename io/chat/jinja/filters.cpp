// Filters of one value: `value | name(…)`. Those of lists are in list_filters.cpp.
#include "base/check.hpp"
#include "io/chat/jinja/evaluator.hpp"
#include "io/chat/jinja/list_filters.hpp"
#include "io/chat/jinja/methods.hpp"
#include "io/chat/jinja/operations.hpp"
#include "io/chat/jinja/python_text.hpp"
#include "io/chat/jinja/text_methods.hpp"
#include "io/chat/jinja/unicode.hpp"

#include <algorithm>
#include <cmath>

namespace trivium::jinja {

namespace {

/// str(value), as Markup where it is.
Value soft_text(const Value& value) { return value.is_text() ? value : Value(to_text(value)); }

Value call_method(const Value& input, const std::string& name, const Arguments& arguments)
{
    return text_method(soft_text(input), name, arguments);
}

Value upper_case(Evaluator&, const Value& input, const Arguments& a)
{
    return call_method(input, "upper", a);
}
Value lower_case(Evaluator&, const Value& input, const Arguments& a)
{
    return call_method(input, "lower", a);
}
Value capitalize(Evaluator&, const Value& input, const Arguments& a)
{
    return call_method(input, "capitalize", a);
}

Value trim(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("trim", arguments, {"chars"});
    return call_method(input, "strip", given[0] == nullptr ? Arguments{} : Arguments{{*given[0]}, {}});
}

Value title(Evaluator&, const Value& input, const Arguments& arguments)
{
    Parameters("title", arguments, {});
    const Value text = soft_text(input);
    spend(text.text().size() / 4);
    std::string result;
    bool begins = true;
    for (std::size_t at = 0; at < text.text().size();) {
        const std::size_t from = at;
        const char32_t c = next_character(text.text(), at);
        const std::string_view character = std::string_view(text.text()).substr(from, at - from);
        result += begins ? to_upper(character) : to_lower(character);
        begins = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    }
    return text.marked().with_text(std::move(result));
}

Value replace(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("replace", arguments, {"old", "new", "count"}, 2);
    return replaced(Value(to_text(input)), to_text(*given[0]).text(), Value(to_text(*given[1])),
                    given.has(2) ? given.integer(2, -1) : -1);
}

Value default_value(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("default", arguments, {"default_value", "boolean"});
    if (input.is_undefined() || (given.truth_of(1, false) && !truth(input)))
        return given[0] == nullptr ? Value("") : *given[0];
    return input;
}

Value text(Evaluator&, const Value& input, const Arguments&) { return soft_text(input); }
Value safe(Evaluator&, const Value& input, const Arguments&) { return {to_text(input), true}; }
Value escape(Evaluator&, const Value& input, const Arguments&) { return escaped(input); }
Value force_escape(Evaluator&, const Value& input, const Arguments&)
{
    return escaped(Value(to_text(input)));
}

Value count_of(Evaluator&, const Value& input, const Arguments& arguments)
{
    Parameters("length", arguments, {});
    return length(input);
}

Value absolute(Evaluator&, const Value& input, const Arguments&)
{
    if (input.is_float())
        return std::abs(input.as_float());
    if (!input.whole())
        throw Failure{input.is_undefined() ? input.as_undefined().why
                                           : str("bad operand type for abs(): '", input.type_name(), "'")};
    return *input.whole() < 0 ? negative(input) : Value(*input.whole());
}

Value integer(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("int", arguments, {"default", "base"});
    if (input.is_undefined())
        throw Failure{input.as_undefined().why};
    if (input.whole())
        return *input.whole();
    std::optional<double> number;
    if (input.is_float()) {
        number = input.as_float();
        if (std::isinf(*number))
            throw Failure{"cannot convert float infinity to integer"};
    } else if (input.is_text()) {
        if (const std::optional<i64> whole = parsed_int(input.text(), static_cast<int>(given.integer(1, 10))))
            return *whole;
        number = parsed_float(input.text());
    }
    if (!number || !std::isfinite(*number))
        return given[0] == nullptr ? Value(i64{0}) : *given[0];
    if (std::abs(*number) >= 9.2e18)
        throw Failure{"cannot convert this float to an integer of 64 bits"};
    return static_cast<i64>(*number);
}

Value real(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("float", arguments, {"default"});
    if (input.is_undefined())
        throw Failure{input.as_undefined().why};
    if (input.is_number())
        return input.number();
    if (const std::optional<double> number = input.is_text() ? parsed_float(input.text()) : std::nullopt)
        return *number;
    return given[0] == nullptr ? Value(0.0) : *given[0];
}

Value round_number(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("round", arguments, {"precision", "method"});
    const i64 precision = given.integer(0, 0);
    const std::string method = given.text(1, "common");
    if (method != "common" && method != "ceil" && method != "floor")
        throw Failure{"method must be common, ceil or floor"};
    if (!input.is_number())
        throw Failure{input.is_undefined() ? input.as_undefined().why
                                           : str("type ", input.type_name(), " cannot be rounded")};
    if (std::abs(precision) > 300)
        throw Failure{"the precision is too large"};
    if (method != "common") {
        const double scale = std::pow(10.0, static_cast<double>(precision));
        const double scaled = input.number() * scale;
        return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
    }
    if (input.whole() && precision >= 0)
        return *input.whole();
    const double number = input.number();
    if (precision >= 0) {
        char digits[700];
        std::snprintf(digits, sizeof digits, "%.*f", static_cast<int>(precision), number);
        return std::strtod(digits, nullptr);
    }
    const double unit = std::pow(10.0, static_cast<double>(-precision));
    const double rounded = std::nearbyint(number / unit) * unit;
    return input.whole() ? Value(static_cast<i64>(rounded)) : Value(rounded);
}

Value to_json_filter(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("tojson", arguments, {"ensure_ascii", "indent", "separators", "sort_keys"});
    JsonStyle style;
    style.ascii = given.truth_of(0, false);
    if (given.has(1)) {
        if (given[1]->is_text())
            style.indent = given[1]->text();
        else
            style.indent =
                std::string(static_cast<std::size_t>(std::clamp<i64>(given.integer(1, 0), 0, 1000)), ' ');
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
    return to_json(input, style);
}

Value indent(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("indent", arguments, {"width", "first", "blank"});
    if (!input.is_text())
        throw Failure{str("the filter indent needs a text, not ", input.type_name())};
    const std::string spaces =
        given[0] != nullptr && given[0]->is_text()
            ? given[0]->text()
            : std::string(static_cast<std::size_t>(std::clamp<i64>(given.integer(0, 4), 0, 10'000)), ' ');
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

Value center(Evaluator&, const Value& input, const Arguments& arguments)
{
    return padded(soft_text(input), Parameters("center", arguments, {"width"}).integer(0, 80), true, true);
}

Value truncate(Evaluator&, const Value& input, const Arguments& arguments)
{
    const Parameters given("truncate", arguments, {"length", "killwords", "end", "leeway"});
    const i64 most = given.integer(0, 255), leeway = given.has(3) ? given.integer(3, 5) : 5;
    const std::string end = given.text(2, "...");
    if (most < count_characters(end) || leeway < 0)
        throw Failure{"the length of truncate is shorter than what it appends"};
    if (length(input) <= most + leeway)
        return input;
    Value part = slice_of(input, {}, Value(most - count_characters(end)), {});
    if (!given.truth_of(1, false))
        part = item_of(text_method(part, "rsplit", {{" ", Value(i64{1})}, {}}), Value(i64{0}));
    return arithmetic("+", part, Value(end));
}

Value word_count(Evaluator&, const Value& input, const Arguments&)
{
    const MarkedText words = to_text(input);
    i64 count = 0;
    bool in_word = false;
    for (std::size_t at = 0; at < words.size();) {
        const char32_t c = next_character(words.text(), at);
        const bool is_word = c == '_' || is_letter(c) || is_numeric(c);
        count += is_word && !in_word ? 1 : 0;
        in_word = is_word;
    }
    return count;
}

Value format(Evaluator&, const Value& input, const Arguments& arguments)
{
    if (arguments.named.empty())
        return percent_format(soft_text(input), make_tuple(arguments.positional));
    if (!arguments.positional.empty())
        throw Failure{"can't handle positional and keyword arguments at the same time"};
    std::vector<std::pair<Value, Value>> named;
    for (const auto& [name, value] : arguments.named)
        named.emplace_back(Value(name), value);
    return percent_format(soft_text(input), make_dict(std::move(named)));
}

Value attribute(Evaluator&, const Value& input, const Arguments& arguments)
{
    const std::string name = Parameters("attr", arguments, {"name"}, 1).text(0, "");
    const Value found = attribute_of(input, name);
    const bool is_item = input.dict() != nullptr && !method_of(input, name);
    return is_item ? Value::undefined(str("'dict object' has no attribute '", name, "'")) : found;
}

const std::map<std::string, Filter, std::less<>> value_filters{
    {"abs", absolute},
    {"attr", attribute},
    {"capitalize", capitalize},
    {"center", center},
    {"count", count_of},
    {"d", default_value},
    {"default", default_value},
    {"e", escape},
    {"escape", escape},
    {"float", real},
    {"forceescape", force_escape},
    {"format", format},
    {"indent", indent},
    {"int", integer},
    {"length", count_of},
    {"lower", lower_case},
    {"replace", replace},
    {"round", round_number},
    {"safe", safe},
    {"string", text},
    {"title", title},
    {"tojson", to_json_filter},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", upper_case},
    {"wordcount", word_count},
};

} // namespace

Filter find_filter(std::string_view name)
{
    for (const auto* filters : {&value_filters, &list_filters()})
        if (const auto found = filters->find(name); found != filters->end())
            return found->second;
    return nullptr;
}

} // namespace trivium::jinja
