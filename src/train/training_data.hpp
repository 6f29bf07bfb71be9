#pragma once
// The token stores of a training run.
#include "mpi/grid.hpp"
#include "train/batches.hpp"

namespace trivium {

struct TrainingData {
    Batches train; ///< in the order that train.seed determines
    std::optional<Batches> valid;
};

/// Opens data.train and data.valid, and verifies them; each rank of a node verifies a part. Throws UserError
/// if they cannot be read, are damaged, are too short for one sample, or have another tokenizer or vocabulary
/// than the config.
TrainingData open_training_data(const RunConfig& config, const Grid& grid);

} // namespace trivium
