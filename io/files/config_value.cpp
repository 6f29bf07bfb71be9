#include "io/files/config_value.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace trivium {

namespace {

std::string shorten(std::string text)
{
    if (text.size() > 60)
        text = text.substr(0, 57) + "...";
    return text;
}

/// "the string \"abc\"", "the array [1, 2]" …
std::string describe(const ConfigValue& value)
{
    const toml::node& node = value.node;
    if (const auto* text = node.as_string())
        return str("the string \"", shorten(text->get()), "\"");
    if (const auto* number = node.as_integer())
        return str("the integer ", number->get());
    if (const auto* number = node.as_floating_point())
        return str("the number ", number->get());
    if (const auto* flag = node.as_boolean())
        return flag->get() ? "true" : "false";
    if (node.is_array())
        return "an array";
    if (node.is_table())
        return "a table";
    return "a date or time";
}

bool is_whole(double number) { return std::trunc(number) == number && std::abs(number) < 0x1p53; }

/// Keys of configs and machine files that are numbers of bytes.
bool is_in_bytes(const std::string& key)
{
    static const char* const keys[] = {"parallel.memory_limit",
                                       "parallel.tile",
                                       "parallel.bucket",
                                       "memory",
                                       "process",
                                       "cache",
                                       "scratch_product",
                                       "scratch_attention",
                                       "scratch_reduction",
                                       "scratch_exchange"};
    return std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

const char* const byte_units = "kB, MB, GB, TB (powers of 1000), KiB, MiB, GiB and TiB (powers of 1024)";

/// A number with a suffix: 20 and "gb" of "20 GB". nullopt for other texts.
std::optional<std::pair<double, std::string>> number_with_suffix(const std::string& text)
{
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    std::string suffix;
    for (const char* at = end; at != text.data() + text.size(); ++at)
        if (*at != ' ')
            suffix += static_cast<char>(std::tolower(static_cast<unsigned char>(*at)));
    if (error != std::errc{} || suffix.empty() ||
        !std::all_of(suffix.begin(), suffix.end(), [](char c) { return c >= 'a' && c <= 'z'; }))
        return std::nullopt;
    return std::pair(number, suffix);
}

/// The bytes that a string such as "20GB" or "1.5 GiB" states, if the key is one of bytes and it states some.
/// Throws UserError for another unit.
std::optional<Bytes> bytes_with_unit(const ConfigValue& value)
{
    const auto* text = value.node.as_string();
    const auto parsed = text == nullptr ? std::nullopt : number_with_suffix(text->get());
    if (!parsed)
        return std::nullopt;
    const auto& [number, unit] = *parsed;
    const bool in_bytes = is_in_bytes(value.key);
    double factor = unit == "b" ? 1 : 0, decimal = 1, binary = 1;
    for (const char prefix : {'k', 'm', 'g', 't', 'p'}) {
        decimal *= 1000;
        binary *= 1024;
        factor = unit == str(prefix, 'b') ? decimal : unit == str(prefix, "ib") ? binary : factor;
    }
    if (factor == 0 && !in_bytes)
        return std::nullopt;
    const double bytes = number * factor;
    if (factor == 0 || !in_bytes || !(std::abs(bytes) < 0x1p62))
        throw UserError({value.place, str("'", value.key, "' is ", describe(value)),
                         !in_bytes     ? "this key takes no unit"
                         : factor == 0 ? str("'", unit, "' is not a unit of bytes")
                                       : "it is too large",
                         in_bytes ? str("write a number of bytes, alone or with one of ", byte_units)
                                  : "write the number alone"});
    return static_cast<Bytes>(std::llround(bytes));
}

/// Reads an integer or a float; returns false for other types.
bool get_number(const toml::node& node, double& number)
{
    if (const auto* integer = node.as_integer())
        number = static_cast<double>(integer->get());
    else if (const auto* real = node.as_floating_point())
        number = real->get();
    else
        return false;
    return true;
}

const char* const scaling_forms =
    "\"none\", \"llama3\", a factor, [factor, low_freq_factor, high_freq_factor, "
    "original_seq] or a table such as {kind = \"yarn\", factor = 8}";

/// A table without `kind` is Llama 3's scaling.
/// Sets the members that `table` names; the others stay.
template <class T>
void assign_members(T& target, const toml::table& table, const ConfigValue& value)
{
    for (const auto& [key, node] : table) {
        std::string name(key.str());
        if (std::is_same_v<T, RopeScaling> && name == "original_max_position_embeddings")
            name = "original_seq";
        const ConfigValue entry{node, value.place, value.key + "." + name, ""};
        std::vector<std::string> known;
        bool found = false;
        T::keys(target, [&](const char* member_name, auto& member) {
            known.emplace_back(member_name);
            if (name == member_name) {
                found = true;
                assign(member, entry);
            }
        });
        if (!found)
            throw UserError({value.place, str("unknown key '", value.key, ".", name, "'"),
                             str("it takes ", one_of(known)), did_you_mean(name, known, "remove it")});
    }
}

RopeScaling scaling_from_table(const toml::table& table, const ConfigValue& value)
{
    RopeScaling scaling = table.contains("kind") ? RopeScaling{} : llama3_scaling(8);
    assign_members(scaling, table, value);
    if (scaling.kind == RopeKind::none && !(scaling == RopeScaling{}))
        throw UserError({value.place, str("'", value.key, "' has values, but its kind is \"none\""), "",
                         "write \"none\" alone, or set its kind"});
    return scaling;
}

/// A parser message in terms that help the user.
struct SyntaxHint {
    std::string reason, remedy;
};

/// `message`: toml++'s, such as "Error while parsing value: could not determine value type".
SyntaxHint explain_syntax(std::string message)
{
    const auto has = [&](const char* text) { return message.find(text) != std::string::npos; };
    const auto quoted = [&] { // the last quoted part of the message
        const std::size_t end = message.rfind('\''),
                          begin = end == std::string::npos ? end : message.rfind('\'', end - 1);
        return begin == std::string::npos ? "" : message.substr(begin + 1, end - begin - 1);
    };
    if (has("determine value type"))
        return {"the value after '=' is not a number, true, false or quoted string",
                "put names and paths in double quotes, like precision = \"bf16\""};
    if (has("cannot redefine existing table"))
        return {str("[", quoted(), "] is in the file twice"), "write the keys of both below one of them"};
    if (has("cannot redefine existing"))
        return {str("'", quoted(), "' has a value already"), "remove one of the two lines"};
    if (has("parsing string") && has("control characters"))
        return {"a string does not end on its line", "close it with the quote that it begins with"};
    if (has("utf-8") || has("UTF-8"))
        return {"it is not UTF-8 text", "save it as UTF-8; it may be a binary file"};
    if (has("not representable"))
        return {str(quoted(), " is too large for an integer"),
                "write it with an exponent, like 1e20, where the key takes any number"};
    if (has("leading zero"))
        return {"a number begins with 0", "leave the leading zeros out"};
    if (const std::string prefix = "Error while parsing "; message.starts_with(prefix))
        message = message.substr(prefix.size());
    if (const std::size_t end = message.find("saw '\\n'"); end != std::string::npos)
        message.replace(end, 8, "the line ends");
    return {message, "write key = value lines, each below its [table] if there are tables; strings are in "
                     "double quotes"};
}

} // namespace

std::string toml_place(const std::string& file, const toml::source_region& source)
{
    return str(file, ":", source.begin.line, ":", source.begin.column);
}

toml::table parse_toml(const std::string& text, const std::string& name)
{
    try {
        return toml::parse(text, name);
    } catch (const toml::parse_error& error) {
        const SyntaxHint hint = explain_syntax(std::string(error.description()));
        throw UserError({toml_place(name, error.source()), "is not valid TOML", hint.reason, hint.remedy});
    }
}

void throw_wrong_type(const ConfigValue& value, const std::string& expected, const std::string& remedy)
{
    throw UserError({value.place, str("'", value.key, "' is ", describe(value), "; it must be ", expected),
                     "", remedy.empty() ? str("set it to ", expected) : remedy});
}

std::size_t parse_name(const ConfigValue& value, const std::vector<std::string>& names)
{
    std::string name = value.text;
    if (const auto* text = value.node.as_string())
        name = text->get();
    else if (const auto* flag = value.node.as_boolean();
             flag && std::find(names.begin(), names.end(), "true") != names.end())
        return static_cast<std::size_t>(
            std::find(names.begin(), names.end(), flag->get() ? "true" : "false") - names.begin());
    std::vector<std::string> quoted;
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (names[i] == name)
            return i;
        quoted.push_back(print_name(names[i]));
    }
    if (!value.node.is_string() && value.text.empty())
        throw_wrong_type(value, one_of(quoted));
    const std::string near = nearest_word(name, names);
    throw UserError({value.place, str("'", value.key, "' has no value \"", name, "\""),
                     str("it must be ", one_of(quoted)),
                     near.empty() ? "choose one of them" : str("did you mean \"", near, "\"?")});
}

void assign(i64& target, const ConfigValue& value)
{
    if (const auto* integer = value.node.as_integer()) {
        target = integer->get();
        return;
    }
    if (const std::optional<Bytes> bytes = bytes_with_unit(value)) {
        target = *bytes;
        return;
    }
    const auto* real = value.node.as_floating_point();
    if (real == nullptr || !is_whole(real->get()))
        throw_wrong_type(value,
                         is_in_bytes(value.key) ? "an integer or a size such as \"20GB\"" : "an integer",
                         value.node.is_string() ? "write the digits without quotes" : "");
    target = static_cast<i64>(real->get());
}

void assign(double& target, const ConfigValue& value)
{
    if (bytes_with_unit(value); !get_number(value.node, target))
        throw_wrong_type(value, "a number",
                         value.node.is_string() ? "write it without quotes, like 3e-4" : "");
}

void assign(bool& target, const ConfigValue& value)
{
    const auto* flag = value.node.as_boolean();
    if (flag == nullptr)
        throw_wrong_type(value, "true or false",
                         value.node.is_string() ? "write true or false without quotes" : "");
    target = flag->get();
}

void assign(std::string& target, const ConfigValue& value)
{
    if (value.key == "parallel.bucket")
        if (const std::optional<Bytes> bytes = bytes_with_unit(value)) {
            target = std::to_string(*bytes);
            return;
        }
    if (const auto* text = value.node.as_string())
        target = text->get();
    else if (!value.text.empty()) // an override needs no quotes: log.dir=2026
        target = value.text;
    else if (const auto* integer = value.node.as_integer();
             integer != nullptr && value.key == "parallel.bucket")
        target = std::to_string(integer->get()); // this key takes "auto" or a number of bytes
    else
        throw_wrong_type(value, "a string", "put it in double quotes");
}

void assign(RopeScaling& target, const ConfigValue& value)
{
    double factor = 1;
    if (const auto* text = value.node.as_string()) {
        if (text->get() != "none" && text->get() != "llama3") {
            const bool kind = value_named<RopeKind>(text->get()).has_value();
            throw UserError({value.place, str("'", value.key, "' has no value \"", text->get(), "\""),
                             str("it must be ", scaling_forms),
                             kind ? str("write {kind = \"", text->get(), "\", factor = ...}")
                                  : "write \"none\" or \"llama3\""});
        }
        target = text->get() == "none" ? RopeScaling{} : llama3_scaling(8);
    } else if (get_number(value.node, factor)) {
        target = llama3_scaling(factor);
    } else if (const toml::array* array = value.node.as_array(); array != nullptr && array->size() == 4) {
        const auto entry = [&](std::size_t i, const char* name) {
            return ConfigValue{*array->get(i), value.place, str(value.key, "[", i, "] (", name, ")"), ""};
        };
        target = llama3_scaling(8);
        assign(target.factor, entry(0, "factor"));
        assign(target.low_freq_factor, entry(1, "low_freq_factor"));
        assign(target.high_freq_factor, entry(2, "high_freq_factor"));
        assign(target.original_seq, entry(3, "original_seq"));
    } else if (const toml::table* table = value.node.as_table())
        target = scaling_from_table(*table, value);
    else
        throw_wrong_type(value, scaling_forms);
}

const toml::array& list_of(const ConfigValue& value, const std::string& of)
{
    const toml::array* const list = value.node.as_array();
    if (list == nullptr)
        throw_wrong_type(value, str("a list of ", of),
                         "write it in brackets, its entries separated by commas");
    return *list;
}

std::string print_value(i64 value) { return std::to_string(value); }
std::string print_value(bool value) { return value ? "true" : "false"; }

std::string print_value(double value)
{
    if (!std::isfinite(value))
        return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
    char digits[64];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr; // shortest that reads back
    std::string text(digits, end);
    if (text.find_first_of(".e") == std::string::npos)
        text += ".0";
    return text;
}

std::string print_value(const std::string& value)
{
    std::string text = "\"";
    for (const char c : value) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            (text += '\\') += c;
        else if (byte < 0x20 || byte == 0x7f) {
            char escaped[8];
            std::snprintf(escaped, sizeof escaped, "\\u%04X", static_cast<unsigned>(byte));
            text += escaped;
        } else
            text += c;
    }
    return text + "\"";
}

/// A table of the first member, and of those that differ from a new T.
template <class T>
static std::string print_members(const T& value)
{
    std::vector<std::string> usual;
    const T none;
    T::keys(none, [&](const char*, const auto& member) { usual.push_back(print_value(member)); });
    std::string text;
    std::size_t i = 0;
    T::keys(value, [&](const char* name, const auto& member) {
        const std::string shown = print_value(member);
        if (i == 0 || shown != usual[i])
            text += str(i == 0 ? "{" : ", ", name, " = ", shown);
        ++i;
    });
    return text + "}";
}

std::string print_value(const RopeScaling& value)
{
    if (value == RopeScaling{})
        return print_value(std::string("none"));
    const RopeScaling llama3 =
        llama3_scaling(value.factor, value.low_freq_factor, value.high_freq_factor, value.original_seq);
    if (value == llama3)
        return str("[", print_value(value.factor), ", ", print_value(value.low_freq_factor), ", ",
                   print_value(value.high_freq_factor), ", ", print_value(value.original_seq), "]");
    return print_members(value);
}

void assign(LoraConfig& target, const ConfigValue& value)
{
    const toml::table* table = value.node.as_table();
    if (table == nullptr)
        throw_wrong_type(value, "a table such as {rank = 8, alpha = 16}");
    assign_members(target, *table, value);
}

std::string print_value(const LoraConfig& value) { return print_members(value); }

} // namespace trivium
