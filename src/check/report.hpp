#pragma once
// Internal: what a check prints.
#include "check/parts.hpp"

namespace trivium {

/// Tables, findings and the verdict, for people.
std::string to_text(const CheckReport& report);
/// All of it, for programs. `machine`: as measured; null where it was not.
std::string to_json(const CheckReport& report, const Machine* machine);
/// The last line: "check: all is well: 8 ranks on 2 nodes, 41 s"
std::string verdict(const CheckReport& report);

} // namespace trivium
