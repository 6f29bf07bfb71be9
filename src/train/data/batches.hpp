#pragma once
// Batches of sequences from token stores.
#include "io/tokens/sample_order.hpp"
#include "train/data/mixture.hpp"
#include "train/data/store_samples.hpp"
#include "train/engine.hpp"

#include <limits>
#include <vector>

namespace trivium {

/// The samples of one or several stores in a fixed order.
class Batches {
public:
    /// One store, in its own order.
    explicit Batches(StoreSamples store);
    /// Each store in the order of SampleOrder, epoch after epoch. The first one alone, until mix() is called.
    /// \pre as many tokens per sample in each
    Batches(std::vector<StoreSamples> stores, u64 seed);

    /// From sample `first` on, samples are dealt to the stores as `history` says. `place`: for each store its
    /// place among the sources of the history. \pre sources that are none of the stores have weight 0
    void mix(MixtureHistory history, const std::vector<std::size_t>& place, i64 first);
    /// The history up to before a sample; empty without mix(). \pre sample >= `first` of mix()
    MixtureHistory history(i64 sample) const;

    const std::vector<StoreSamples>& stores() const { return stores_; }
    /// The first store. All have the same tokenizer.
    const TokenStore& store() const { return stores_.front().store(); }
    /// TokenStore::content() of each store: "123456 tokens, 0123456789abcdef".
    std::string content() const;
    /// Number of samples of one epoch of all stores.
    i64 samples() const;

    /// The batch from sample `first` on: `tokens`, `targets`, `positions` and `starts`, each i32[model.seq],
    /// and `samples`. Samples from `end` on are padding: their targets do not count (-1). The batch is valid
    /// while this object exists; reading it throws the errors of TokenStore::read(). \pre first >= that of
    /// mix()
    Batch at(i64 first, i64 end = std::numeric_limits<i64>::max()) const;

private:
    /// A sample of the run as one of a store.
    std::pair<const StoreSamples*, i64> find(i64 sample) const;

    std::vector<StoreSamples> stores_;
    std::vector<SampleOrder> orders_; ///< of each store; empty: the stores' own order
    MixtureHistory history_;
    std::optional<MixtureOrder> mixture_;
    std::vector<std::size_t> store_of_source_;
};

} // namespace trivium
