#pragma once
// A dozen drawn grids whose losses, as the CPU has them, are kept beside the tests: for machines that compute
// elsewhere.
#include "grid/cases.hpp"

namespace trivium::grids {

/// Three each of 1, 2, 4 and 8 ranks: twenty steps in f32 and in f32 reduced in bf16, and ten in bf16, of
/// heads of 64.
std::vector<Case> drawn_cases();
/// How far their losses may be apart on another machine, relative to each.
double drawn_tolerance(const Case& c);

/// The losses of a case, kept in tests/golden/losses.txt. Throws InternalError where it is not among them.
std::vector<double> kept_losses(const Case& c);
/// The file's line of a case.
std::string losses_line(const Case& c, const std::vector<double>& losses);

} // namespace trivium::grids
