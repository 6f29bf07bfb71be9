#pragma once
// The state from which a launch trains on: the newest checkpoint, or a beginning.
#include "train/engine.hpp"
#include "train/state.hpp"
#include "train/training_data.hpp"

namespace trivium {

struct Restored {
    RunState state;
    std::string checkpoint; ///< that it is from; empty: the run begins
};

/// Fills what the engine keeps over the run, and `tensors`, which are in its arena: from the checkpoint that
/// checkpoint.resume means, else from train.seed, with the weights of train.init_from where that is given.
/// All ranks of `world` call it. Logs what it resumes from, and warns of settings that changed since.
/// UserError, IoError, on all ranks, where a checkpoint is of another model or tokenizer, or none is good.
Restored restore_or_initialise(Comm& world, const RunConfig& config, const TrainingData& data, Engine& engine,
                               std::vector<SavedTensor>& tensors);

} // namespace trivium
