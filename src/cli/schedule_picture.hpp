#pragma once
// The picture of `explain --only schedule`.
#include "compile/simulated_step.hpp"
#include "io/report/schedule_chart.hpp"

namespace trivium {

/// The tasks of each pipeline rank in a simulated step.
ScheduleChart schedule_picture(const SimulatedStep& step);

/// Columns of the terminal to which stdout writes; 100 if it is not a terminal.
int terminal_columns();

} // namespace trivium
