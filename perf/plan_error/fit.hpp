#pragma once
// Constants of a machine with which simulated steps are as long as measured ones.
#include "rows.hpp"

namespace trivium {

/// Values of some keys of machines, the same for the machines of all rows.
struct Constants {
    std::vector<std::string> names;
    std::vector<double> values; ///< empty: those of each machine
};

/// The values of a machine. Throws UserError if a key is unknown or not a number.
Constants constants_of(Machine machine, const std::vector<std::string>& names);
/// Throws UserError as constants_of().
Machine with(Machine machine, const Constants& constants);

/// log(simulated / measured) of each row.
std::vector<double> log_ratios(std::vector<CompiledRow>& rows, const Constants& constants);

/// The mean of the squares, and as much again of the largest.
double objective(const std::vector<double>& log_ratios);

/// The values that minimise objective(), by Gauss-Newton steps on differences with damping, from `constants`.
/// Rows for which `included` is false do not count.
Constants fitted(std::vector<CompiledRow>& rows, const std::vector<bool>& included, Constants constants);

} // namespace trivium
