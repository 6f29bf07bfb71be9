#pragma once
// A dozen drawn grids whose CPU losses are stored with the tests, for machines that compute on devices.
#include "grid/cases.hpp"

namespace trivium::grids {

/// Three each of 1, 2, 4 and 8 ranks: twenty steps in f32 and in f32 reduced in bf16, and ten in bf16, of
/// heads of 64.
std::vector<Case> drawn_cases();
/// Maximum relative difference of their losses on another machine.
double drawn_tolerance(const Case& c);

/// The losses of a case, from tests/golden/losses.txt. Throws InternalError if they are missing.
std::vector<double> kept_losses(const Case& c);
/// The line of a case in the file.
std::string losses_line(const Case& c, const std::vector<double>& losses);

} // namespace trivium::grids
