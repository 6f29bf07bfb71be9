#pragma once
// A resolved config as JSON: an object per table, as docs/config.md lists the keys.
#include "config/run_config.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// As config files have it: "none", Llama 3's list of four, or a table.
inline nlohmann::ordered_json scaling_json(const RopeScaling& s)
{
    if (s == RopeScaling{})
        return "none";
    if (s == llama3_scaling(s.factor, s.low_freq_factor, s.high_freq_factor, s.original_seq))
        return {s.factor, s.low_freq_factor, s.high_freq_factor, s.original_seq};
    nlohmann::ordered_json table;
    RopeScaling::keys(s, [&](const char* name, const auto& member) {
        if constexpr (std::is_enum_v<std::decay_t<decltype(member)>>)
            table[name] = name_of(member);
        else
            table[name] = member;
    });
    return table;
}

/// As in TOML: a string, or an object per store.
inline nlohmann::ordered_json value_json(const TrainingStores& stores)
{
    if (stores.empty() || stores.is_plain())
        return stores.text();
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const DataSource& source : stores.list) {
        nlohmann::ordered_json& entry = list.emplace_back(nlohmann::ordered_json{{"path", source.path}});
        if (source.weight)
            entry["weight"] = *source.weight;
        if (source.epochs > 0)
            entry["epochs"] = source.epochs;
        if (source.repeat)
            entry["repeat"] = true;
    }
    return list;
}

/// As in TOML: a string, or paths by name.
inline nlohmann::ordered_json value_json(const ValidationStores& stores)
{
    if (stores.empty() || stores.list[0].name.empty())
        return stores.text();
    nlohmann::ordered_json names;
    for (const ValidationStore& store : stores.list)
        names[store.name] = store.path;
    return names;
}

inline nlohmann::ordered_json value_json(const BatchRamp& ramp)
{
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const BatchRamp::Stage& stage : ramp.stages)
        list.push_back({stage.batch, stage.steps});
    return list;
}

inline nlohmann::ordered_json value_json(const NamedNumbers& numbers)
{
    nlohmann::ordered_json all = nlohmann::ordered_json::object();
    for (const auto& [name, number] : numbers.list)
        all[name] = number;
    return all;
}

inline nlohmann::ordered_json value_json(const LoraConfig& lora)
{
    nlohmann::ordered_json table;
    LoraConfig::keys(lora, [&](const char* name, const auto& member) { table[name] = member; });
    return table;
}

inline nlohmann::ordered_json value_json(const ProgramAxes& axes) { return value_json(axes.degrees()); }

inline nlohmann::ordered_json config_json(const RunConfig& config)
{
    nlohmann::ordered_json tables;
    RunConfig::tables(config, [&](const char* table, const auto& keys) {
        keys.keys(keys, [&](const char* key, const auto& value, KeyKind, const char*) {
            using T = std::decay_t<decltype(value)>;
            nlohmann::ordered_json& entry = tables[table][key];
            if constexpr (std::is_enum_v<T>)
                entry = name_of(value);
            else if constexpr (std::is_same_v<T, RopeScaling>)
                entry = scaling_json(value);
            else if constexpr (std::is_same_v<T, std::vector<LayerKind>>) {
                entry = nlohmann::ordered_json::array();
                for (const LayerKind kind : value)
                    entry.push_back(name_of(kind));
            } else if constexpr (std::is_same_v<T, TrainingStores> || std::is_same_v<T, ValidationStores> ||
                                 std::is_same_v<T, BatchRamp> || std::is_same_v<T, ProgramAxes> ||
                                 std::is_same_v<T, NamedNumbers> || std::is_same_v<T, LoraConfig>)
                entry = value_json(value);
            else
                entry = value;
        });
    });
    return tables;
}

} // namespace trivium
