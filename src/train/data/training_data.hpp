#pragma once
// The data of a training run: token stores, or files of arrays.
#include "io/checkpoint/checkpoint.hpp"
#include "io/tokens/token_store.hpp"
#include "mpi/grid.hpp"
#include "train/data/batches.hpp"

#include <map>
#include <string>
#include <vector>

namespace trivium {

struct ValidationSet {
    std::string name; ///< of its loss; empty: the only one
    Batches data;
};

struct TrainingData {
    Batches train; ///< in the order that train.seed determines
    std::vector<ValidationSet> valid;
};

/// Batches::content() of each set: "123456 tokens, 0123456789abcdef".
std::string content(const std::vector<ValidationSet>& sets);

/// By name the type of a sample of each input of a graph.
using SampleTypes = std::map<std::string, TensorType>;

/// The inputs that data give to the model of `config`; empty: a transformer.
SampleTypes inputs_of(const RunConfig& config);

/// Opens data.train and data.valid, and verifies them; each rank of a node verifies its share. Without
/// `inputs` they are token stores; with them, files of arrays that have these, but for `samples` and `valid`,
/// which Batches::at() makes. Then the samples of the first batch are read, too, each by one rank. Not
/// collective. Throws UserError if a file cannot be read, is damaged, of the other kind, too short for one
/// sample, does not match the config's tokenizer or vocabulary, or the inputs, or has the content of another
/// one.
TrainingData open_training_data(const RunConfig& config, const Grid& grid, const SampleTypes& inputs = {});

/// The files of arrays `path` for an evaluation, in their own order, verified as above. Throws UserError.
Batches open_validation(const std::string& path, const SampleTypes& inputs);
/// A token store, opened with `options` (store_options()), for an evaluation of the checkpoint. Throws
/// UserError if it is not of its tokenizer, has other ids than the model or no whole sample, or is damaged.
Batches open_validation(TokenStore store, const RunConfig& config, const TokenStoreOptions& options,
                        const CheckpointReader& checkpoint);

/// Lets the run continue at state.samples with the stores and weights of data.train: each store where
/// state.mixture says that its reading ended. Sets state.mixture; leaves a run of one store, named by a
/// string, as it is. Returns what differs from the run before, as warnings. Throws UserError if the run needs
/// more of a store than its `epochs` allow.
std::vector<std::string> continue_data(RunState& state, const RunConfig& config, Batches& data);

/// For the log: the stores, their shares, and how often each is read up to the end of the run.
/// \pre continue_data() was called with `state`
std::vector<std::string> describe_data(const RunState& state, const RunConfig& config, const Batches& data);

} // namespace trivium
