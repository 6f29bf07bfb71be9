#pragma once
// Wrong partitioned programs: each has one collective less, or one reduction by a wrong factor, on all ranks
// alike.
#include "grid/grid_run.hpp"

namespace trivium::grids {

/// One op that communicates, of the graph `train` of a pipeline stage, or of all stages where it is the
/// world's.
struct Mutant {
    bool scaled = false; ///< a reduction's result is doubled; else what others would contribute stays away
    i64 stage = 0;       ///< -1: of all
    std::string value;   ///< name of what it makes, the first of a bucket
    std::size_t tensors = 1; ///< of the bucket
    std::string kind, axis;
    i64 from = -1, tag = 0; ///< of a message to `stage`

    std::string text() const;
};

/// Every collective and every message left out, and every reduction scaled.
std::vector<Mutant> mutants_of(const Case& c);

/// Everything that read the results of the op reads their doubles.
void double_results(Graph& g, OpId id);

/// What is left out leaves its result as it would be if the other ranks sent zeros (of a reduction to all: if
/// there were none).
Meddle meddle_for(const Case& c, const Mutant& mutant);

} // namespace trivium::grids
