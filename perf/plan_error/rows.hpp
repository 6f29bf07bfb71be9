#pragma once
// Rows of measured steps, and their simulation.
#include "compile/simulated_step.hpp"

#include <string>
#include <vector>

namespace trivium {

/// A step that somebody measured: a line of a CSV file.
struct Row {
    std::string id;
    std::string group;   ///< rows of one job, whose order by time must be right
    std::string source;  ///< of the figure; rows of one source are left out together
    std::string machine; ///< as for `plan --machine`
    i64 ranks = 0;
    Seconds measured = 0;
    std::string settings; ///< config overrides, with spaces between them
    std::string note;
};

/// The rows of a file with the header "id,group,source,machine,gpus,step_seconds,settings,note"; a field with
/// commas is between double quotes. Throws UserError with the line.
std::vector<Row> read_rows(const std::string& path);

/// A row's programs, compiled once, and the row's machine.
struct CompiledRow {
    Row row;
    Machine machine;
    SimulatedStep step;
    RunConfig config;
};

/// Throws UserError if the settings do not fit, or are not for as many ranks as the row says.
CompiledRow compile_row(const Row& row, const Machine& machine);

/// Seconds of the busiest stage in the simulated step, by op and by axis: "matmul 1.2, attention 0.1, …,
/// tensor 0.3, compute waits 0.1". \pre simulate_row() has run
std::string parts_of(const CompiledRow& row);

/// The duration of the row's step on `machine`.
Seconds simulate_row(CompiledRow& row, const Machine& machine);

} // namespace trivium
