#pragma once
// Internal: the output of a check.
#include "check/parts.hpp"

namespace trivium {

/// Tables, findings and the verdict as text.
std::string to_text(const CheckReport& report);
/// Everything as JSON. `machine`: the measured machine, or null.
std::string to_json(const CheckReport& report, const Machine* machine);
/// The last line: "check: passed; 8 ranks on 2 nodes, 41 s"
std::string verdict(const CheckReport& report);

} // namespace trivium
