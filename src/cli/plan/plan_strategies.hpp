#pragma once
// Internal to plan: the strategies that a search has found.
#include "choose/sensitivity.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// Two lines per strategy, best first: its figures, and what it loses time with relative to the best.
std::string strategies_table(const PlanReport& report);
/// A line with what the report's step depends on most, and by how much; empty if there is nothing.
std::string sensitivities_text(const PlanReport& report, const std::vector<Sensitivity>& all);
/// The shortest and the longest step that the machine's calibration allows; null if its errors are unknown.
nlohmann::ordered_json range_json(const Strategy& strategy, const PlanReport& report);
nlohmann::ordered_json sensitivities_json(const std::vector<Sensitivity>& all);
/// All of them, each with its keys of [parallel] and [train].
nlohmann::ordered_json strategies_json(const PlanReport& report);

} // namespace trivium
