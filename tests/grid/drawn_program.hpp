#pragma once
// Programs of general ops, drawn by a seed, with the meshes on which they train.
#include "grid/programs.hpp"

namespace trivium::grids {

struct DrawnProgram {
    std::string text;      ///< of the graph file
    ProgramCase one;       ///< on one rank
    ProgramCase elsewhere; ///< the same program on a mesh
    std::string about;     ///< degrees, ZeRO and so on, for messages
};

/// Ops that matter to partitioning, annotations, blocks, a mesh of at most six ranks, ZeRO, recomputation,
/// microbatches; the same for the same seed.
DrawnProgram drawn_program(u64 seed);

} // namespace trivium::grids
