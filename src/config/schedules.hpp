#pragma once
// The named pipeline schedules; schedule/order.hpp describes them.
#include "base/units.hpp"
#include "config/keys.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace trivium {

enum class ScheduleKind {
    gpipe,
    one_f_one_b,
    interleaved,
    breadth_first,
    zb_h1,
    zb_h2,
    zb_v,
    v_half,
    v_min,
    dualpipe_v
};
template <>
inline constexpr std::array<std::string_view, 10> names_of_enum<ScheduleKind>{
    "gpipe", "1f1b", "interleaved", "breadth-first", "zb-h1",
    "zb-h2", "zb-v", "v-half",      "v-min",         "dualpipe-v"};

/// The value of parallel.schedule for which an order is searched (choose/choose_schedule.hpp).
inline constexpr std::string_view automatic_schedule = "auto";
inline constexpr i64 most_searched_chunks = 3; ///< maximum stages per rank in that search
/// Whether the value of parallel.schedule is the name of a file.
constexpr bool is_schedule_file(std::string_view name) { return name.ends_with(".csv"); }
/// The schedule called `name`; nothing if there is none.
std::optional<ScheduleKind> schedule_called(std::string_view name);

/// Whether each rank has one stage near the begin of the model and one near its end.
constexpr bool is_v_shaped(ScheduleKind kind)
{
    return kind == ScheduleKind::zb_v || kind == ScheduleKind::v_half || kind == ScheduleKind::v_min ||
           kind == ScheduleKind::dualpipe_v;
}

/// Whether (some) backward passes are split into their two halves.
constexpr bool splits_backward(ScheduleKind kind)
{
    return is_v_shaped(kind) || kind == ScheduleKind::zb_h1 || kind == ScheduleKind::zb_h2;
}

/// Stages per rank: the least and the most that a schedule accepts, and the number for parallel.chunks = 0.
struct ChunkRange {
    i64 least = 1, usual = 1, most = 1;
};
constexpr ChunkRange chunks_of(ScheduleKind kind)
{
    constexpr i64 many = i64{1} << 20;
    return is_v_shaped(kind)                     ? ChunkRange{2, 2, 2}
           : kind == ScheduleKind::interleaved   ? ChunkRange{2, 2, many}
           : kind == ScheduleKind::breadth_first ? ChunkRange{1, 2, many}
                                                 : ChunkRange{1, 1, 1};
}
/// Stages per rank with parallel.chunks = `chunks`.
constexpr i64 stages_per_rank(ScheduleKind kind, i64 chunks)
{
    return chunks > 0 ? chunks : chunks_of(kind).usual;
}

} // namespace trivium
