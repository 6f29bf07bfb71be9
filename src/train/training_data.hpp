#pragma once
// What a training run reads: the token stores that its config names.
#include "mpi/grid.hpp"
#include "train/batches.hpp"

namespace trivium {

struct TrainingData {
    Batches train; ///< in the order that train.seed gives
    std::optional<Batches> valid;
};

/// Opens data.train and data.valid, and verifies them, a part on each rank of a node. Throws UserError where
/// they cannot be read, are damaged, too short for one sample, or of another tokenizer or vocabulary than the
/// config's.
TrainingData open_training_data(const RunConfig& config, const Grid& grid);

} // namespace trivium
