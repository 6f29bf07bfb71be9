#pragma once
// Internal to plan: the best strategies of several numbers of ranks.
#include "choose/plan_report.hpp"

#include <nlohmann/json.hpp>

namespace trivium {

/// "8", or "8..512": 8, 16, 32, … up to 512. UserError if it is neither.
std::vector<i64> ranks_in(const std::string& text);

/// One row per report: step, tokens per second, what a rank does of what it does with the fewest ranks, MFU,
/// device-hours, strategy.
std::string scaling_table(const std::vector<PlanReport>& reports);
nlohmann::ordered_json scaling_json(const std::vector<PlanReport>& reports);
/// Tokens per second by ranks, next to the line on which ranks lose nothing.
std::string scaling_svg(const std::vector<PlanReport>& reports);

} // namespace trivium
