#pragma once
// What a program keeps in memory over an optimizer step: as a table, as a chart of characters, and as data
// for a picture.
#include "schedule/liveness.hpp"

namespace trivium {

/// A part of the step: consecutive Steps of the compute queue in one region, phase and microbatch.
struct StepPart {
    std::string name;  ///< "prologue", "forward 3", "backward 3", "epilogue"
    char letter = 'p'; ///< p, f, b, e
    i64 microbatch = -1;
    std::size_t begin = 0, end = 0; ///< as in Execution
};

/// Of the device arena. Time is that of the execution with the highest peak (liveness.hpp).
struct MemoryHistory {
    std::size_t length = 0;      ///< number of Steps
    std::size_t peak = 0;        ///< the first time at which most bytes are alive
    std::vector<Alive> alive;    ///< run-lifetime buffers too: over the whole step, without first and last
    std::vector<StepPart> parts; ///< without gaps, from 0 to length
    StepId peak_step;            ///< the Step that begins at the peak
};

/// Throws UserError if the schedule has no Step. \pre it was built from `graph`
MemoryHistory memory_history(const Schedule& schedule, const Graph& graph);

/// Bytes alive at a time, by kind.
struct BytesByKind {
    Bytes bytes[memory_kind_count] = {};
    Bytes sum() const;
};
BytesByKind alive_at(const MemoryHistory& history, const Schedule& schedule, std::size_t time);

/// Buffers that are alive at the peak: of one kind, and of names that differ only in numbers (layers, slots);
/// or of one kind over the run.
struct PeakRow {
    std::string name;
    MemoryKind kind = MemoryKind::activations;
    std::size_t buffers = 0;
    Bytes bytes = 0;
    StepId first, last; ///< invalid: kept over the run
};
/// The largest first. The sum of their bytes is that of the peak.
std::vector<PeakRow> peak_rows(const MemoryHistory& history, const Schedule& schedule);

/// The `most` largest of these rows and the sum of the others.
std::string peak_table(const MemoryHistory& history, const Schedule& schedule, const Graph& graph,
                       std::size_t most = 20);

/// Bytes alive over time, stacked by kind. Each column shows the highest moment of its Steps.
std::string memory_chart(const MemoryHistory& history, const Schedule& schedule);

} // namespace trivium
