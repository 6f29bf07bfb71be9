#pragma once
// The report of `explain` about the graph of a file: values, collectives, costly ones.
#include "plan/advice.hpp"
#include "plan/graph_file.hpp"

#include <nlohmann/json_fwd.hpp>

namespace trivium {

/// Per value: name, shape, dtype, sharding (a list of axes per dimension), partial and origin (a text per
/// dimension). `propagated`: GraphProgram::propagated.
nlohmann::ordered_json values_json(const Graph& sharded, const Shardings& propagated);
/// Collectives of a rank's graph, with the names of `sharded` for what they move.
std::vector<CollectiveEntry> collectives_to_report(const Graph& sharded, const Graph& local);

/// Per collective: kind, axes, bytes that a rank sends, value, values (of a bucket, all), at (the op that
/// needs it), line.
nlohmann::ordered_json collectives_json(const std::vector<CollectiveEntry>& all);
/// Per kind: kind, count, bytes; then kind "all".
nlohmann::ordered_json collective_totals_json(const std::vector<CollectiveEntry>& all);
nlohmann::ordered_json advice_json(const std::vector<Advice>& all);

/// One line per value: name, type, sharding, and what set its sharded dimensions.
std::string values_table(const Graph& sharded, const Shardings& propagated);
/// The values in `propagated`, by name; empty if there are none.
std::string changed_text(const Graph& sharded, const Shardings& propagated);
/// One line per collective, then one per kind, with their number and bytes.
std::string collectives_table(const std::vector<CollectiveEntry>& all);
/// Per costly collective, a warning and the line of the file to write instead.
std::string advice_text(const std::vector<Advice>& all);

} // namespace trivium
