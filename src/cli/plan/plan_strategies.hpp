#pragma once
// Internal to plan: the strategies that a search has found.
#include "choose/plan_report.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// Two lines per strategy, best first: its figures, and what it loses time with relative to the best.
std::string strategies_table(const PlanReport& report);
/// All of them, each with its keys of [parallel] and [train].
nlohmann::ordered_json strategies_json(const PlanReport& report);

} // namespace trivium
