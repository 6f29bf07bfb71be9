#pragma once
// Offsets for every buffer of one or more Schedules, in an arena for each space.
#include "schedule/schedule.hpp"

namespace trivium {

struct MemoryConfig {
    Bytes alignment = 256; ///< of offsets
    /// Bytes after each buffer that must not be written; builds with contracts check them.
    Bytes red_zone = 0;
    Bytes limit = 0;             ///< maximum bytes of the arena; 0: no limit
    Space space = Space::device; ///< the space whose arena is planned
    bool place = true;           ///< false: sets no offsets, and the arena is the lower bound
};

/// The sizes of the arena of one space, and of a rank's memory outside it.
struct MemoryPlan {
    Bytes red_zone = 0;    ///< after every buffer, as in the config of the plan
    Bytes arena = 0;       ///< bytes of the whole arena: the end of the highest buffer
    Bytes kept = 0;        ///< bytes of the run-lifetime buffers, at the start of the arena
    Bytes transient = 0;   ///< arena - kept
    Bytes lower_bound = 0; ///< bytes alive at the highest peak of all Schedules (worst_occupancy())
    Bytes by_kind[memory_kind_count] = {}; ///< bytes alive at that peak, by kind
    Bytes process = 0;                     ///< outside the arena: Machine::process
    Bytes snapshot = 0;                    ///< outside the arena, in host memory: the snapshot of a save
    Bytes read_ahead = 0;                  ///< the same: inputs of the next microbatch, in a thread's memory
    Bytes host_arena = 0;                  ///< in the plan of a device arena: bytes of the host arena

    Bytes outside() const { return snapshot + read_ahead + host_arena; }
};

/// Sets the offset of every buffer of `config.space`. Buffers whose intervals may overlap (by happens-before,
/// not by list order) get disjoint ranges. Run-lifetime buffers of one name are a single buffer, also in
/// different Schedules; the others of different Schedules, which never run at the same time, share memory.
/// The arena is within 1 % of lower_bound where a limited search finds that (packing.hpp). Throws UserError
/// if it exceeds the limit. \pre run-lifetime buffers of one name have one size and one space
MemoryPlan plan_memory(const std::vector<Schedule*>& schedules, const MemoryConfig& config);

/// Throws UserError if the arena exceeds `limit` (0: no limit). In the message, `whose` names the rank and
/// `remedy` states what to do (empty: general advice).
void require_within(const MemoryPlan& plan, Bytes limit, const std::string& whose,
                    const std::string& remedy = "");

/// By Step: the buffers, other than run-lifetime ones, whose content no later Step needs.
std::vector<std::vector<BufferId>> dying_buffers(const Schedule& schedule);

} // namespace trivium
