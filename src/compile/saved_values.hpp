#pragma once
// Which values a checkpoint holds, under which names, and which part of each a rank writes.
#include "compile/compile.hpp"

namespace trivium {

struct SavedValue {
    ValueId value;    ///< of the rank's graph
    std::string name; ///< "param/NAME", "adam_m/NAME", "adam_v/NAME"
    Shape whole;
    Box box;      ///< what the rank holds
    Stretch rows; ///< of the box's first dimension, what it writes (a single value is one row)
    Bytes row_bytes = 0;

    Bytes written() const { return rows.size * row_bytes; }
};

/// Parameters and optimizer states of a rank. What several ranks hold is divided over them, by rows and so
/// that each writes as much as the others: each group of holders lays its values one behind the other, and
/// cuts that into equal parts.
std::vector<SavedValue> saved_values(const Program& program, const Coordinates& at,
                                     const StagesOf& stages_of);

} // namespace trivium
