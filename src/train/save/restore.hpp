#pragma once
// The initial state of a launch: from a checkpoint, or newly initialised.
#include "train/data/training_data.hpp"
#include "train/engine.hpp"
#include "train/save/saved_tensors.hpp"

namespace trivium {

struct Restored {
    RunState state;
    std::string checkpoint; ///< its path; empty: a new run
};

/// Collective over `world`: fills the engine's run-lifetime values (`tensors` are in its arena) from the
/// checkpoint that checkpoint.resume selects, otherwise from train.seed, with the weights of train.init_from
/// if set. Lets `data` continue there. Logs the checkpoint, and warns about settings that changed since it
/// was saved. Throws UserError or IoError, on all ranks, if the checkpoint is of another model, optimizer or
/// tokenizer, or if all are damaged.
Restored restore_or_initialise(Comm& world, const RunConfig& config, TrainingData& data, Engine& engine,
                               std::vector<SavedTensor>& tensors);

} // namespace trivium
