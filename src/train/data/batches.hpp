#pragma once
// Batches of sequences from a token store.
#include "io/tokens/sample_order.hpp"
#include "io/tokens/token_store.hpp"
#include "train/engine.hpp"

#include <limits>

namespace trivium {

/// The windows of model.seq tokens of a store, in a fixed order; each window is a sample.
class Batches {
public:
    /// In the order of the store; with `seed`, in the order of SampleOrder, epoch after epoch.
    /// \pre the store has at least one window
    Batches(TokenStore store, i64 seq, std::optional<u64> seed = {});

    const TokenStore& store() const { return store_; }
    /// Number of samples of one epoch.
    i64 samples() const { return samples_; }

    /// The batch from sample `first` on: `tokens`, `targets` and `positions`, each i32[model.seq], and
    /// `samples`. Samples from `end` on are padding: their targets do not count (-1). The batch is valid
    /// while this object exists; reading it throws the errors of TokenStore::read().
    Batch at(i64 first, i64 end = std::numeric_limits<i64>::max()) const;

private:
    TokenStore store_;
    i64 seq_, samples_;
    std::optional<SampleOrder> order_;
};

} // namespace trivium
