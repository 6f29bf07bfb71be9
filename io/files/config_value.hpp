#pragma once
// One value of a TOML file: node -> the C++ type of the key, and back. Private to config_file and key_file.
#include "base/check.hpp"
#include "config/run_config.hpp"

#include <string>
#include <type_traits>

#include <toml++/toml.h>

namespace trivium {

struct ConfigValue {
    const toml::node& node;
    std::string place; ///< "run.toml:3:1" or "override 'train.lr=1'"
    std::string key;   ///< "train.lr"
    std::string text;  ///< as written in an override; empty for a value from a file
};

/// UserError with line and column if `text` is not valid TOML; `name` names the file in messages.
toml::table parse_toml(const std::string& text, const std::string& name);
/// "run.toml:3:1"
std::string toml_place(const std::string& file, const toml::source_region& source);

/// The value must be `expected` ("a whole number"), but has another type.
[[noreturn]] void throw_wrong_type(const ConfigValue& value, const std::string& expected,
                                   const std::string& remedy = "");

/// The index of the value in `names`, the names of an enum's values. UserError if it is not among them.
std::size_t parse_name(const ConfigValue& value, const std::vector<std::string>& names);

/// Set `target` to the value. A whole number may be written as a float, and a number of bytes with a unit
/// ("20GB"). UserError if the value has another type.
void assign(i64& target, const ConfigValue& value);
void assign(double& target, const ConfigValue& value);
void assign(bool& target, const ConfigValue& value);
void assign(std::string& target, const ConfigValue& value);
void assign(RopeScaling& target, const ConfigValue& value);
void assign(TrainingStores& target, const ConfigValue& value);
void assign(ValidationStores& target, const ConfigValue& value);
void assign(BatchRamp& target, const ConfigValue& value);
void assign(ProgramAxes& target, const ConfigValue& value);
void assign(NamedNumbers& target, const ConfigValue& value);
void assign(LoraConfig& target, const ConfigValue& value); ///< the other members stay

/// The value as TOML, which assign() reads back bit for bit.
std::string print_value(i64 value);
std::string print_value(double value);
std::string print_value(bool value);
std::string print_value(const std::string& value);
std::string print_value(const RopeScaling& value);
std::string print_value(const TrainingStores& value);
std::string print_value(const ValidationStores& value);
std::string print_value(const BatchRamp& value);
std::string print_value(const ProgramAxes& value);
std::string print_value(const NamedNumbers& value);
std::string print_value(const LoraConfig& value);

template <class Enum>
std::vector<std::string> enum_names()
{
    return {names_of_enum<Enum>.begin(), names_of_enum<Enum>.end()};
}

template <class Enum, class = std::enable_if_t<std::is_enum_v<Enum>>>
void assign(Enum& target, const ConfigValue& value)
{
    target = static_cast<Enum>(parse_name(value, enum_names<Enum>()));
}

/// Prints the name of an enum's value as a TOML string; the names "true" and "false" as booleans.
inline std::string print_name(const std::string& name)
{
    return name == "true" || name == "false" ? name : print_value(name);
}

template <class T>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;

/// The type of a key in the reference: "integer", "`f32` or `bf16`" …
template <class T>
std::string type_name(const T&)
{
    if constexpr (std::is_same_v<T, bool>)
        return "boolean";
    else if constexpr (std::is_integral_v<T>)
        return "integer";
    else if constexpr (std::is_floating_point_v<T>)
        return "number";
    else if constexpr (std::is_enum_v<T>) {
        std::vector<std::string> names = enum_names<T>();
        for (std::string& name : names)
            name = print_name(name);
        return one_of(names);
    } else if constexpr (is_list<T>)
        return "list of: " + type_name(typename T::value_type{});
    else if constexpr (std::is_same_v<T, RopeScaling>)
        return "scaling";
    else if constexpr (std::is_same_v<T, TrainingStores>)
        return "string or list";
    else if constexpr (std::is_same_v<T, ValidationStores>)
        return "string or table";
    else if constexpr (std::is_same_v<T, BatchRamp>)
        return "list";
    else if constexpr (std::is_same_v<T, ProgramAxes> || std::is_same_v<T, NamedNumbers> ||
                       std::is_same_v<T, LoraConfig>)
        return "table";
    else
        return "string";
}

/// The value as a list; UserError if it is none. `of`: what it must be a list of.
const toml::array& list_of(const ConfigValue& value, const std::string& of);

template <class T>
void assign(std::vector<T>& target, const ConfigValue& value)
{
    std::vector<T> list;
    for (const toml::node& node : list_of(value, str("entries, each ", type_name(T{})))) {
        T& entry = list.emplace_back();
        assign(entry, ConfigValue{node, value.place, str(value.key, "[", list.size() - 1, "]"), ""});
    }
    target = std::move(list);
}

template <class Enum, class = std::enable_if_t<std::is_enum_v<Enum>>>
std::string print_value(Enum value)
{
    return print_name(std::string(name_of(value)));
}

template <class T>
std::string print_value(const std::vector<T>& list)
{
    std::string text;
    for (const T& entry : list)
        text += str(text.empty() ? "" : ", ", print_value(entry));
    return "[" + text + "]";
}

} // namespace trivium
