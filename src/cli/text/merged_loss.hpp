#pragma once
// What merging the adapters of a run, and rounding the result, does to its loss.
#include "io/hugging_face/hugging_face.hpp"

namespace trivium {

struct MergedLosses {
    double adapters = 0, merged = 0; ///< nats per token, both computed in f32
    i64 tokens = 0;
};

/// The losses on a token store, of at most 8 batches of train.global_batch sequences: of the checkpoint's
/// weights with their adapters, and of `merged` as `model`, rounded to bf16 if `rounds`. UserError if the
/// store does not fit the model; IoError.
MergedLosses merged_losses(const CheckpointReader& checkpoint, RunConfig config, const std::string& store,
                           const ModelConfig& model, const ReadParameter& merged, bool rounds);

} // namespace trivium
