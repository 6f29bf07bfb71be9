#pragma once
// Constants of a machine with which simulated steps are as long as measured ones.
#include "rows.hpp"

namespace trivium {

/// log(simulated / measured) of each row.
std::vector<double> log_ratios(std::vector<CompiledRow>& rows, const Machine& machine);

/// The mean of the squares, and as much again of the largest.
double objective(const std::vector<double>& log_ratios);

/// Finds values of the machine's keys `names` that minimise objective(), by Gauss-Newton steps on differences
/// with damping. Rows for which `included` is false do not count. \pre the keys are numbers
Machine fitted(std::vector<CompiledRow>& rows, const std::vector<bool>& included, Machine machine,
               const std::vector<std::string>& names);

/// Sets a key of a machine from text. Throws UserError if the key is unknown or the value does not fit.
void set_key(Machine& machine, const std::string& name, double value);
double key_value(Machine machine, const std::string& name);

} // namespace trivium
