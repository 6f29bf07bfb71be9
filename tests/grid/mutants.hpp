#pragma once
// Wrong partitioned programs: each lacks one collective, or scales one reduction by a wrong factor, on all
// ranks.
#include "grid/grid_run.hpp"

namespace trivium::grids {

/// One op that communicates, in the graph `train` of a pipeline stage, or of all stages if it is along the
/// world.
struct Mutant {
    /// The result of a reduction is doubled; otherwise the other ranks' contributions are missing.
    bool scaled = false;
    i64 stage = 0;           ///< -1: of all
    std::string value;       ///< name of its result, the first of a bucket
    std::size_t tensors = 1; ///< of the bucket
    std::string kind, axis;
    i64 from = -1, tag = 0; ///< of a message to `stage`

    std::string text() const;
};

/// Every collective and message omitted, and every reduction scaled.
std::vector<Mutant> mutants_of(const Case& c);

/// All readers of the op's results read the doubled results.
void double_results(Graph& g, OpId id);

/// An omitted op has the result that it would have if the other ranks sent zeros (for an all-reduce: if there
/// were no other ranks).
Meddle meddle_for(const Case& c, const Mutant& mutant);

} // namespace trivium::grids
