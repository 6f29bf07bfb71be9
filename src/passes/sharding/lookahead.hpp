#pragma once
// The partitioner looks ahead: where a value that nobody annotated is computed in one sharding and read in
// another, its producer, its readers and its own sharding are chosen together.
#include "passes/sharding/op_sharding.hpp"

#include <map>

namespace trivium {

struct Foresight {
    std::map<std::size_t, Assignment> assignments; ///< of ops, by index
    std::map<ValueId, DimAxes> homes;              ///< shardings of values, other than propagation's
};

/// Starts from the choice of each op alone. Then it goes over the ops next to values that move, up to four
/// times, and gives each the choice with which all its tensors move the fewest bytes: from where they are
/// computed, over the best sharding to keep them in, to all who read them. What a user or the model
/// annotated, inputs, outputs, carries, and sums that may wait stay as they are. `sums`: by value, whether it
/// may stay partial until the accumulator is summed to which alone it is added.
Foresight look_ahead(const Graph& graph, const AxisParts& parts, const std::string& stage_axis,
                     const std::vector<bool>& sums, bool once);

} // namespace trivium
