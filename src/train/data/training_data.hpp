#pragma once
// The token stores of a training run.
#include "mpi/grid.hpp"
#include "train/data/batches.hpp"

namespace trivium {

struct TrainingData {
    Batches train; ///< in the order that train.seed determines
    std::optional<Batches> valid;
};

/// Opens data.train and data.valid, and verifies them; each rank of a node verifies its share. Not
/// collective. Throws UserError if a store cannot be read, is damaged, is too short for one sample, or does
/// not match the config's tokenizer or vocabulary.
TrainingData open_training_data(const RunConfig& config, const Grid& grid);

} // namespace trivium
