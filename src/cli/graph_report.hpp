#pragma once
// The report of `explain` about the graph of a file: values, collectives, costly ones.
#include "plan/advice.hpp"

#include <nlohmann/json_fwd.hpp>

namespace trivium {

/// Per value: name, shape, dtype, sharding (a list of axes per dimension), partial and origin (a text per
/// dimension).
nlohmann::ordered_json values_json(const Graph& sharded);
/// Per collective: kind, axes, bytes that a rank sends, value, at (the op that needs it), line.
nlohmann::ordered_json collectives_json(const std::vector<CollectiveEntry>& all);
nlohmann::ordered_json advice_json(const std::vector<Advice>& all);

/// One line per collective.
std::string collectives_table(const std::vector<CollectiveEntry>& all);
/// One warning per costly collective.
std::string advice_text(const std::vector<Advice>& all);

} // namespace trivium
