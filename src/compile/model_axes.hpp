#pragma once
// Which axes of the mesh shard which dimension of a model.
#include "config/run_config.hpp"
#include "model/model.hpp"

namespace trivium {

/// Which axes of mesh_of() (compile/compile.hpp) shard the model. Context ranks are the fastest part of the
/// axis `data`. Throws UserError if some rank would have an empty shard.
ModelAxes model_axes(const RunConfig& config);

} // namespace trivium
