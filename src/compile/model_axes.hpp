#pragma once
// Which axes of the mesh shard which dimension of a model.
#include "config/run_config.hpp"
#include "model/model.hpp"

namespace trivium {

/// Which axes of mesh_of() shard the model. Context ranks are the fastest part of the
/// axis `data`. Throws UserError if some rank would have an empty shard.
ModelAxes model_axes(const RunConfig& config);

/// The grid of a config: data x pipeline x tensor, the last axis fastest, or in the order of parallel.order.
/// With hybrid sharding, data is two axes: replica x data.
Mesh mesh_of(const ParallelConfig& config);
/// The pipeline stage of a rank on such a mesh.
i64 stage_of(const Mesh& mesh, i64 rank);
/// The first rank of a stage along the other axes.
Coordinates first_of_stage(const Mesh& mesh, i64 stage);
/// Whether a rank is the first of its stage along the other axes; it has the largest shards.
bool is_first_of_stage(const Mesh& mesh, i64 rank);

} // namespace trivium
