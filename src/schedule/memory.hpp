#pragma once
// Offsets for every buffer of one or more Schedules in one arena.
#include "schedule/schedule.hpp"

namespace trivium {

struct MemoryConfig {
    Bytes alignment = 256;
    Bytes red_zone =
        0;           ///< bytes behind each buffer that nothing may touch (builds with contracts check them)
    Bytes limit = 0; ///< most bytes that the arena may have; 0: no limit
};

/// The content of an arena. Run-lifetime buffers of the same name are one, whichever Schedule they are in.
struct MemoryPlan {
    Bytes red_zone = 0;                    ///< behind every buffer, as the config of the plan had it
    Bytes arena = 0;                       ///< bytes of the whole arena: the end of the highest buffer
    Bytes kept = 0;                        ///< of that, run-lifetime buffers (the arena's head)
    Bytes transient = 0;                   ///< arena - kept
    Bytes lower_bound = 0;                 ///< most bytes that are live at once, over all Schedules
    Bytes by_kind[memory_kind_count] = {}; ///< bytes live at that moment, by kind
    Bytes process = 0;                     ///< outside the arena, as the machine file states
    Bytes snapshot =
        0; ///< outside the arena, in the host's memory: the part of a checkpoint still to be written
};

/// Sets the offset of every buffer. Buffers whose lifetimes may overlap (over happens-before, not list order)
/// get disjoint stretches; the transient parts of the Schedules, which never run at once, overlay each other.
/// Greedy by size, best fit (Pisarchyk and Lee 2020, "Efficient memory management for deep neural net
/// inference"). Throws UserError where the arena exceeds the limit.
MemoryPlan plan_memory(const std::vector<Schedule*>& schedules, const MemoryConfig& config);

/// Throws UserError where the arena exceeds `limit` (0: none); `whose` names the rank in the message.
void require_within(const MemoryPlan& plan, Bytes limit, const std::string& whose);

/// Per Step, the transient buffers whose content is not needed after it.
std::vector<std::vector<BufferId>> dying_buffers(const Schedule& schedule);

} // namespace trivium
