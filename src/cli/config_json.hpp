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
            } else
                entry = value;
        });
    });
    return tables;
}

} // namespace trivium
