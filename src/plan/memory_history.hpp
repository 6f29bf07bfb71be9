#pragma once
// The buffers alive over an optimizer step: as a table, as a chart of characters, and as data for a picture.
#include "schedule/liveness.hpp"

namespace trivium {

/// A part of the step: consecutive Steps of the compute queue in one region, phase and microbatch.
struct StepPart {
    std::string name;  ///< "prologue", "forward 3", "backward 3", "weights 3", "epilogue"
    char letter = 'p'; ///< the first letter of `name`
    i64 microbatch = -1;
    std::size_t begin = 0, end = 0; ///< times, as in Execution
};

/// The history of the device arena. Times are those of worst_occupancy() (liveness.hpp).
struct MemoryHistory {
    std::size_t length = 0;      ///< number of Steps
    std::size_t peak = 0;        ///< the first time at which most bytes are alive
    std::vector<Alive> alive;    ///< with run-lifetime buffers, from 0 to length, without first and last
    std::vector<StepPart> parts; ///< without gaps, from 0 to length
    StepId peak_step;            ///< the Step that begins at the peak
};

/// Throws UserError if the Schedule has no Step. \pre the Schedule was built from `graph`
MemoryHistory memory_history(const Schedule& schedule, const Graph& graph);

/// Bytes of the device arena that are alive at a time, by MemoryKind.
struct BytesByKind {
    Bytes bytes[memory_kind_count] = {};
    Bytes sum() const;
};
BytesByKind alive_at(const MemoryHistory& history, const Schedule& schedule, std::size_t time);

/// The buffers of one kind that are alive at the peak and whose names differ only in numbers (layers, slots),
/// or all run-lifetime buffers of one kind.
struct PeakRow {
    std::string name;
    MemoryKind kind = MemoryKind::activations;
    std::size_t buffers = 0;
    Bytes bytes = 0;
    StepId first, last; ///< invalid: kept over the run
};
/// The rows with most bytes first. The sum of their bytes is that of the peak.
std::vector<PeakRow> peak_rows(const MemoryHistory& history, const Schedule& schedule);

/// The first 20 of peak_rows(), the sum of the others, and the sum of all.
std::string peak_table(const MemoryHistory& history, const Schedule& schedule, const Graph& graph);

/// Bytes alive over time, stacked by kind. Each column shows the highest of its times.
std::string memory_chart(const MemoryHistory& history, const Schedule& schedule);

} // namespace trivium
