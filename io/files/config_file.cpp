#include "io/files/config_file.hpp"

#include "base/check.hpp"
#include "io/files/config_value.hpp"
#include "io/files/files.hpp"

#include <algorithm>
#include <sstream>
#include <type_traits>

#include <toml++/toml.h>

namespace trivium {

namespace {

std::vector<std::string> table_names()
{
    std::vector<std::string> names;
    const RunConfig config;
    RunConfig::tables(config, [&](const char* name, const auto&) { names.emplace_back(name); });
    return names;
}

/// Keys of `table`; of all tables if it is empty.
std::vector<std::string> key_names(const std::string& table)
{
    std::vector<std::string> names;
    const RunConfig config;
    RunConfig::tables(config, [&](const char* name, const auto& keys) {
        if (table.empty() || table == name)
            keys.keys(keys,
                      [&](const char* key, const auto&, KeyKind, const char*) { names.emplace_back(key); });
    });
    return names;
}

/// The tables that have `key`.
std::vector<std::string> owners_of(const std::string& key)
{
    std::vector<std::string> owners;
    for (const std::string& table : table_names())
        for (const std::string& name : key_names(table))
            if (name == key)
                owners.push_back(table);
    return owners;
}

std::string in_brackets(const std::vector<std::string>& tables)
{
    std::vector<std::string> names;
    for (const std::string& table : tables)
        names.push_back(str("[", table, "]"));
    return one_of(names);
}

/// "'checkpoint.dir' or 'log.dir'": the full names of `key`.
std::string full_names(const std::string& key)
{
    std::vector<std::string> names;
    for (const std::string& table : owners_of(key))
        names.push_back(str("'", table, ".", key, "'"));
    return one_of(names);
}

/// How a key is written: below its table's header, or with the table in its name.
enum class Written { below_table, dotted };

[[noreturn]] void throw_unknown_table(const std::string& table, const std::string& place, Written written)
{
    const std::vector<std::string> owners = owners_of(table), tables = table_names();
    if (!owners.empty()) {
        const std::string dotted =
            str("write ", owners.front(), ".", table, written == Written::dotted ? "=…" : " = …");
        throw UserError({place, str("'", table, "' is outside of any table"),
                         str("'", table, "' belongs to ", in_brackets(owners)),
                         written == Written::dotted
                             ? dotted
                             : str("write it below ", in_brackets(owners), ", or ", dotted)});
    }
    std::vector<std::string> known = tables;
    for (const std::string& key : key_names(""))
        known.push_back(key);
    const std::string near = nearest_word(table, known);
    if (!near.empty() && std::find(tables.begin(), tables.end(), near) == tables.end())
        throw UserError({place, str("unknown key '", table, "'"),
                         "write TABLE.KEY, or the key below its [table]",
                         str("did you mean ", full_names(near), "?")});
    throw UserError({place, str("unknown table '", table, "'"), str("the tables are ", in_brackets(tables)),
                     near.empty() ? "choose one of them" : str("did you mean [", near, "]?")});
}

[[noreturn]] void throw_unknown_key(const std::string& table, const std::string& key,
                                    const std::string& place, Written written)
{
    const std::string problem = str("unknown key '", table, ".", key, "'");
    const std::vector<std::string> owners = owners_of(key);
    if (!owners.empty())
        throw UserError({place, problem, str("'", key, "' belongs to ", in_brackets(owners)),
                         written == Written::dotted ? str("did you mean ", full_names(key), "?")
                                                    : str("move it to ", in_brackets(owners))});
    const std::string near = nearest_word(key, key_names(table));
    if (!near.empty())
        throw UserError({place, problem, "",
                         written == Written::dotted ? str("did you mean '", table, ".", near, "'?")
                                                    : str("did you mean '", near, "'?")});
    const std::string elsewhere = nearest_word(key, key_names(""));
    throw UserError({place, problem, str("the keys of [", table, "] are ", one_of(key_names(table))),
                     elsewhere.empty() ? "remove it" : str("did you mean ", full_names(elsewhere), "?")});
}

/// Throws if the value is the name of a boolean key of the same table, such as precision = "fp8".
void refuse_switch_as_value(const RunConfig& config, const std::string& table, const ConfigValue& value)
{
    const std::string text = value.node.is_string() ? value.node.as_string()->get() : value.text;
    RunConfig::tables(config, [&](const char* name, const auto& keys) {
        if (table != name)
            return;
        keys.keys(keys, [&](const char* key, const auto& target, KeyKind, const char*) {
            if constexpr (std::is_same_v<std::decay_t<decltype(target)>, bool>)
                if (text == key)
                    throw UserError({value.place, str("'", value.key, "' has no value \"", text, "\""),
                                     str("'", table, ".", key, "' is a key of its own"),
                                     str("set ", table, ".", key, " = true",
                                         text == "fp8" ? str(", with ", value.key, " = \"bf16\"") : "")});
        });
    });
}

/// Sets config.table.key from `value`.
void set_key(RunConfig& config, const std::string& table, const std::string& key, const ConfigValue& value,
             Written written)
{
    if (const std::size_t dot = key.find('.'); dot != std::string::npos) { // a member of a table
        const toml::table member{{key.substr(dot + 1), value.node}};
        const std::string name = key.substr(0, dot);
        return set_key(config, table, name, {member, value.place, str(table, ".", name), ""}, written);
    }
    bool table_known = false, key_known = false;
    RunConfig::tables(config, [&](const char* name, auto& keys) {
        if (table != name)
            return;
        table_known = true;
        keys.keys(keys, [&](const char* key_name, auto& target, KeyKind, const char*) {
            if (key != key_name)
                return;
            key_known = true;
            if constexpr (std::is_enum_v<std::decay_t<decltype(target)>>)
                refuse_switch_as_value(config, table, value);
            assign(target, value);
        });
    });
    if (!table_known)
        throw_unknown_table(table, value.place, written);
    if (!key_known)
        throw_unknown_key(table, key, value.place, written);
    config.given.insert(value.key);
}

/// One parsed override.
struct Override {
    std::string table, key, text, place;
    toml::table holder; ///< {v = value}

    ConfigValue value() const { return {*holder.get("v"), place, str(table, ".", key), text}; }
};

Override parse_override(const std::string& text)
{
    Override result;
    result.place = str("override '", text, "'");
    const std::size_t equals = text.find('='), dot = text.find('.');
    if (equals == std::string::npos)
        throw UserError({result.place, "has no '='", "an override is table.key=value",
                         "write for example train.steps=1000"});
    if (dot == std::string::npos || dot > equals)
        throw_unknown_table(text.substr(0, equals), result.place, Written::dotted);
    result.table = text.substr(0, dot);
    result.key = text.substr(dot + 1, equals - dot - 1);
    result.text = text.substr(equals + 1);
    try {
        result.holder = toml::parse("v = " + result.text);
    } catch (const toml::parse_error&) {
        result.holder.clear();
    }
    // Text that is not exactly one TOML value is a string: schedule=1f1b, train=/data/x.h5.
    if (result.holder.size() != 1 || !result.holder.contains("v"))
        result.holder = toml::table{{"v", result.text}};
    return result;
}

} // namespace

RunConfig parse_config(const std::string& text, const std::string& name,
                       const std::vector<std::string>& overrides)
{
    const toml::table file = parse_toml(text, name);
    std::vector<Override> changes;
    for (const std::string& change : overrides)
        changes.push_back(parse_override(change));

    const auto value_in_file = [&](const std::string& table, const std::string& key, const toml::node& node) {
        return ConfigValue{node, toml_place(name, node.source()), str(table, ".", key), ""};
    };
    RunConfig config;
    // Preset, family and optimizer set the defaults of other keys, so they come first, wherever they are
    // written.
    const auto set_first = [&](const char* table, const char* key) {
        if (const toml::node* node = file[table][key].node())
            set_key(config, table, key, value_in_file(table, key, *node), Written::below_table);
        for (const Override& change : changes)
            if (change.table == table && change.key == key)
                set_key(config, table, key, change.value(), Written::dotted);
    };
    set_first("model", "preset");
    const std::string preset_name = config.model.preset;
    if (!preset_name.empty())
        config.model = preset(preset_name);
    // A family sets the defaults of options, unless it is that of the preset, which has its own.
    const Family family_of_preset = config.model.family;
    set_first("model", "family");
    if (config.model.family != family_of_preset)
        set_family(config.model, config.model.family);
    set_first("train", "optimizer");
    config.train.beta2 = optimizer_row(config.train.optimizer).beta2;

    for (const auto& [table, content] : file) {
        const std::string table_name(table.str());
        const toml::table* keys = content.as_table();
        const std::vector<std::string> known = table_names();
        if (std::find(known.begin(), known.end(), table_name) == known.end())
            throw_unknown_table(table_name, toml_place(name, content.source()), Written::below_table);
        if (keys == nullptr)
            throw UserError(
                {toml_place(name, content.source()),
                 str("'", table_name,
                     content.is_array() ? "' is one table, not a list of them" : "' is a table, not a value"),
                 "", str("write [", table_name, "] on a line of its own, its keys below")});
        for (const auto& [key, node] : *keys)
            set_key(config, table_name, std::string(key.str()),
                    value_in_file(table_name, std::string(key.str()), node), Written::below_table);
    }
    for (const Override& change : changes)
        set_key(config, change.table, change.key, change.value(), Written::dotted);
    config.model.preset = preset_name;
    return config;
}

RunConfig read_config(const std::string& path, const std::vector<std::string>& overrides)
{
    return parse_config(path.empty() ? "" : read_file(path, "config file", max_settings_bytes), path,
                        overrides);
}

std::string to_toml(const RunConfig& config, const std::vector<std::string>& tables)
{
    // The others are refused where a config of a program sets them.
    const auto is_of_program = [](const std::string& key) {
        return key == "family" || key == "file" || key == "sizes";
    };
    std::string text;
    RunConfig::tables(config, [&](const char* table, const auto& keys) {
        if (!tables.empty() && std::find(tables.begin(), tables.end(), table) == tables.end())
            return;
        text += str(text.empty() ? "[" : "\n[", table, "]\n");
        const bool some = config.model.is_program() && std::string_view(table) == "model";
        keys.keys(keys, [&](const char* key, const auto& value, KeyKind, const char*) {
            if (!some || is_of_program(key))
                text += str(key, " = ", print_value(value), "\n");
        });
    });
    return text;
}

std::map<std::string, std::string> values_by_key(const std::string& toml)
{
    std::map<std::string, std::string> values;
    std::istringstream lines(toml);
    std::string table;
    for (std::string line; std::getline(lines, line);)
        if (line.starts_with('[') && line.ends_with(']'))
            table = line.substr(1, line.size() - 2) + ".";
        else if (const std::size_t equals = line.find(" = "); equals != std::string::npos)
            values[table + line.substr(0, equals)] = line.substr(equals + 3);
    return values;
}

KeyKind kind_of_key(const std::string& name)
{
    const std::string_view table_name = std::string_view(name).substr(0, name.find('.')),
                           key_name = std::string_view(name).substr(name.find('.') + 1);
    KeyKind found = KeyKind::free;
    const RunConfig config;
    RunConfig::tables(config, [&](const char* table, const auto& keys) {
        if (table != table_name)
            return;
        keys.keys(keys, [&](const char* key, const auto&, KeyKind kind, const char*) {
            found = key == key_name ? kind : found;
        });
    });
    return found;
}

std::string config_reference()
{
    std::string text;
    const RunConfig config;
    RunConfig::tables(config, [&](const char* table, const auto& keys) {
        text += str(text.empty() ? "" : "\n", "## [", table,
                    "]\n\n| key | type | default | meaning |\n|---|---|---|---|\n");
        keys.keys(keys, [&](const char* key, const auto& value, KeyKind, const char* meaning) {
            text += str("| `", key, "` | ", type_name(value), " | `", print_value(value), "` | ", meaning,
                        " |\n");
        });
    });
    return text;
}

} // namespace trivium
