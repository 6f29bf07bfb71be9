#pragma once
// What merging the adapters of a run, and rounding the result, does to its loss.
#include "config/run_config.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/hugging_face/hugging_face.hpp"
#include "train/data/batches.hpp"

namespace trivium {

struct MergedLosses {
    double adapters = 0, merged = 0; ///< nats per token, both computed in f32
    i64 tokens = 0;
};

/// A token store for merged_losses(). UserError if it does not fit the model; IoError.
Batches open_compared(const CheckpointReader& checkpoint, const RunConfig& config, const std::string& path);

/// The losses on a token store, of at most 8 batches of train.global_batch sequences: of the checkpoint's
/// weights with their adapters, and of `merged` as `model`, rounded to bf16 if `rounds`. IoError.
MergedLosses merged_losses(const CheckpointReader& checkpoint, RunConfig config, const Batches& data,
                           const ModelConfig& model, const ReadParameter& merged, bool rounds);

} // namespace trivium
