#pragma once
// Between the arena and checkpoints: which run-lifetime values are saved, and under which names.
#include "io/checkpoint.hpp"
#include "runtime/arena.hpp"
#include "train/compile.hpp"

namespace trivium {

/// Parameters as `param/NAME`, optimizer states as `adam_m/NAME`, `adam_v/NAME`, pointing into the arena.
std::vector<TensorView> saved_tensors(const Program& program, const Arena& arena);

/// Fills `tensors` from the checkpoint. Throws UserError where it is one of another model.
void restore(const CheckpointReader& checkpoint, const std::vector<TensorView>& tensors);

/// Fills the parameters of an inference program, in the type in which it keeps them.
void restore_parameters(const CheckpointReader& checkpoint, const Program& program, const Arena& arena);

/// The checkpoint that a command reads: `path` where given, else the newest good one of the run.
CheckpointReader open_checkpoint(const std::string& path, const CheckpointConfig& config);

} // namespace trivium
