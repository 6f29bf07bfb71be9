#pragma once
// The values of a checkpoint: their names, and the rows of each that a rank writes.
#include "compile/compile.hpp"

namespace trivium {

struct SavedValue {
    ValueId value;       ///< of the rank's graph
    std::string name;    ///< "param/NAME", or "STATE/NAME" with a state of OpInfo::states
    Shape whole;         ///< over all ranks
    Box box;             ///< the shard of this rank
    IndexRange rows;     ///< range of the box's first dimension that this rank writes; a scalar is one row
    Bytes row_bytes = 0; ///< in the type of a checkpoint
    bool is_average = false; ///< of a parameter (ir/averages.hpp)

    Bytes written() const { return rows.size * row_bytes; }
};

/// The element type of a value in checkpoints, which have no shorter ones than f32.
DType saved_type(const Value& value);

/// The parameters and optimizer states of a rank. Each row of a shard is written by exactly one of the ranks
/// that hold the shard: such a group of ranks concatenates its shards, sorted by name, and splits the result
/// into ranges of equal bytes, up to whole rows.
std::vector<SavedValue> saved_values(const Program& program, const Coordinates& at, const HoldersOf& holders);

} // namespace trivium
