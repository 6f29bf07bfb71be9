#pragma once
// A resolved config as JSON: an object per table, as docs/config.md lists the keys.
#include "config/run_config.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

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
                entry = value == RopeScaling{}
                            ? nlohmann::ordered_json("none")
                            : nlohmann::ordered_json{value.factor, value.low_freq_factor,
                                                     value.high_freq_factor, value.original_seq};
            else
                entry = value;
        });
    });
    return tables;
}

} // namespace trivium
