#pragma once
// The memory plan as JSON, for `plan --json` and `explain --json`.
#include "schedule/memory.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

inline nlohmann::ordered_json memory_json(const MemoryPlan& m)
{
    nlohmann::ordered_json by_kind;
    for (int k = 0; k < memory_kind_count; ++k)
        if (m.by_kind[k] > 0)
            by_kind[std::string(name_of(static_cast<MemoryKind>(k)))] = m.by_kind[k];
    return {{"arena_bytes", m.arena},           {"kept_bytes", m.kept},
            {"transient_bytes", m.transient},   {"lower_bound_bytes", m.lower_bound},
            {"process_bytes", m.process},       {"snapshot_bytes", m.snapshot},
            {"read_ahead_bytes", m.read_ahead}, {"host_arena_bytes", m.host_arena},
            {"live_at_peak", by_kind}};
}

} // namespace trivium
