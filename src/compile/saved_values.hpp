#pragma once
// The values of a checkpoint: their names, and the rows of each that a rank writes.
#include "compile/compile.hpp"

namespace trivium {

struct SavedValue {
    ValueId value;    ///< of the rank's graph
    std::string name; ///< "param/NAME", "adam_m/NAME", "adam_v/NAME", "muon_m/NAME"
    Shape whole;
    Box box;         ///< the shard that the rank holds
    IndexRange rows; ///< range of the box's first dimension that it writes (a single value is one row)
    Bytes row_bytes = 0;

    Bytes written() const { return rows.size * row_bytes; }
};

/// Parameters and optimizer states of a rank. Values that several ranks hold are divided among them by rows,
/// in equal amounts: each group of holders concatenates its values and splits the result into equal parts.
std::vector<SavedValue> saved_values(const Program& program, const Coordinates& at, const HoldersOf& holders);

} // namespace trivium
