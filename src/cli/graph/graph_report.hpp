#pragma once
// The report of `explain` about the graph of a file: values, collectives, costly collectives.
#include "plan/advice.hpp"
#include "plan/graph_file.hpp"

#include <nlohmann/json_fwd.hpp>

namespace trivium {

/// Per value: name, shape, dtype, sharding (a list of axes per dimension), partial, origin (a text per
/// dimension), and propagated: the sharding that propagation found if it differs, otherwise null.
/// `propagated`: GraphProgram::propagated.
nlohmann::ordered_json values_json(const Graph& sharded, const Shardings& propagated);
/// The collectives of one rank's graph `local`. The values that move have the names that they have in
/// `sharded`.
std::vector<CollectiveEntry> collectives_to_report(const Graph& sharded, const Graph& local);

/// Per collective: kind, axes, bytes that a rank sends, value, values (all values of a bucket), at (the op
/// that needs the result), line.
nlohmann::ordered_json collectives_json(const std::vector<CollectiveEntry>& all);
/// Per kind: kind, count, bytes; then kind "all".
nlohmann::ordered_json collective_totals_json(const std::vector<CollectiveEntry>& all);
/// Per costly collective: kind, axes, value, at, bytes, share, and the better annotation: annotate, as, line,
/// saved_bytes.
nlohmann::ordered_json advice_json(const std::vector<Advice>& all);

/// One line per value: name, type, sharding, and what set its sharded dimensions.
std::string values_table(const Graph& sharded, const Shardings& propagated);
/// One line per value in `propagated`: its sharding, and the sharding that propagation found. Empty if there
/// are none.
std::string changed_text(const Graph& sharded, const Shardings& propagated);
/// One line per collective, then one line per kind with the number and bytes of its collectives.
std::string collectives_table(const std::vector<CollectiveEntry>& all);
/// Per costly collective, a warning and the line of the file to write instead.
std::string advice_text(const std::vector<Advice>& all);

} // namespace trivium
