#pragma once
// Best-fit packing: documents in samples of limited length, with few of them divided.
#include "base/units.hpp"
#include "io/tokens/token_store.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace trivium {

/// Best-fit decreasing (D. S. Johnson, 1973; for training: H. Ding et al., arXiv:2404.10830): the lengths in
/// descending order, each into the fullest bin with room for it, or a new one. Equal ones: the first length,
/// the first bin. Returns, for each bin, the numbers of its lengths. \pre lengths in [1, capacity]
std::vector<std::vector<std::size_t>> best_fit(std::span<const i64> lengths, i64 capacity);

/// Consecutive tokens of a store in a sample.
struct DocumentPiece {
    i64 begin = 0; ///< in the store
    i64 count = 0;
    i64 at = 0; ///< in the sample
};

/// The documents of a store in samples of up to `capacity` tokens. A longer document is divided into pieces
/// of `capacity` tokens, each of which begins with the last token of the piece before it, as windows do; so
/// each token but a document's first is a target once. Documents are packed in chunks of about 1024 samples;
/// the samples depend on the store and the capacity alone. Several threads may call it.
class PackedDocuments {
public:
    /// `store` must outlive it. Packs all chunks once, to count the samples. \pre capacity > 1
    PackedDocuments(const TokenStore& store, i64 capacity);

    i64 samples() const { return first_sample_.back(); }
    /// The pieces of a sample, in order. \pre 0 <= sample < samples()
    std::vector<DocumentPiece> sample(i64 sample) const;

private:
    using Chunk = std::vector<std::vector<DocumentPiece>>; ///< pieces by sample
    Chunk pack(std::size_t chunk) const;

    const TokenStore* store_;
    i64 capacity_;
    std::vector<i64> first_document_, first_sample_; ///< of each chunk, then the end
    struct Recent {
        std::size_t chunk;
        i64 pieces;
        Chunk content;
    };
    struct Memo {
        std::mutex mutex;
        std::deque<Recent> recent; ///< the last used one at the end
        i64 pieces = 0;
    };
    std::unique_ptr<Memo> memo_;
};

} // namespace trivium
