#pragma once
// Offsets for every buffer of one or more Schedules, in an arena for each space.
#include "schedule/schedule.hpp"

namespace trivium {

struct MemoryConfig {
    Bytes alignment = 256;
    Bytes red_zone =
        0;           ///< bytes after each buffer that must not be written (builds with contracts check them)
    Bytes limit = 0; ///< maximum bytes of the arena; 0: no limit
    Space space = Space::device; ///< whose arena is planned
};

/// The content of the arena of one space. Run-lifetime buffers with the same name are a single buffer, also
/// in different Schedules.
struct MemoryPlan {
    Bytes red_zone = 0;    ///< after every buffer, as in the config of the plan
    Bytes arena = 0;       ///< bytes of the whole arena: the end of the highest buffer
    Bytes kept = 0;        ///< of these, run-lifetime buffers (the start of the arena)
    Bytes transient = 0;   ///< arena - kept
    Bytes lower_bound = 0; ///< bytes alive at the peak of some execution (liveness.hpp), over all Schedules
    Bytes by_kind[memory_kind_count] = {}; ///< bytes alive at that moment, by kind
    Bytes process = 0;                     ///< outside the arena, as the machine file states
    Bytes snapshot = 0;                    ///< outside the arena, in host memory: the snapshot of a save
    Bytes host_arena = 0;                  ///< of a device arena: the bytes of the arena of its host
};

/// Sets the offset of every buffer of that space. Buffers whose lifetimes may overlap (over happens-before,
/// not list order) get disjoint ranges; the transient parts of different Schedules, which never run at the
/// same time, share memory (packing.hpp), within 1 % of lower_bound where a limited search finds that. Throws
/// UserError if the arena exceeds the limit.
MemoryPlan plan_memory(const std::vector<Schedule*>& schedules, const MemoryConfig& config);

/// Throws UserError if the arena exceeds `limit` (0: none); `whose` names the rank in the message, `remedy`
/// what would help (empty: general advice).
void require_within(const MemoryPlan& plan, Bytes limit, const std::string& whose,
                    const std::string& remedy = "");

/// Per Step, the transient buffers whose content is not needed after it.
std::vector<std::vector<BufferId>> dying_buffers(const Schedule& schedule);

} // namespace trivium
