#pragma once
// The samples of one token store: what a sequence of the model reads.
#include "config/data_config.hpp"
#include "io/tokens/token_store.hpp"
#include "train/data/best_fit.hpp"
#include "train/data/sample_source.hpp"

#include <memory>
#include <optional>

namespace trivium {

/// What a sequence of model.seq numbers has of a sample of seq + 1 tokens.
enum class SampleInput {
    tokens,    ///< all but the last; padding after them: end of document
    targets,   ///< the token after each; -1: its loss does not count, as that of tokens that are not trained
    positions, ///< with attention = "document" from the begin of the document, otherwise of the sample
    starts,    ///< index, in the sequence, of the first token of each token's document
};

/// With packing = "concatenate", sample i is the window of tokens [i * seq, i * seq + seq + 1), and documents
/// are those of TokenStore::mark_begins(); with "best-fit", samples are those of PackedDocuments, and
/// padding is a document of its own. Several threads may read.
class StoreSamples : public SampleSource {
public:
    /// UserError if `config` asks for documents that the store does not know.
    StoreSamples(TokenStore store, i64 seq, const DataConfig& config);

    const TokenStore& store() const { return *store_; }
    i64 seq() const { return seq_; }
    const std::string& path() const override { return store_->path(); }
    i64 samples() const override { return samples_; }
    /// One for each SampleInput, i32[seq], in their order.
    const std::vector<Array>& arrays() const override { return arrays_; }
    void read(std::size_t array, i64 sample, const Box& box, void* to) const override;
    void pad(std::size_t array, const Box& box, void* to) const override;
    std::string content() const override { return store_->content(); }
    std::string facts() const override;
    i64 tokens() const override { return store_->size(); }
    std::string tokenizer() const override { return store_->fingerprint(); }
    /// Numbers [begin, begin + count) of an input of a sample. Errors as TokenStore::read().
    /// \pre 0 <= sample < samples(), the numbers are in [0, seq)
    void read(SampleInput input, i64 sample, i64 begin, i64 count, i32* out) const;
    /// The up to seq() + 1 tokens of a sample, without padding. Errors and \pre as read().
    std::vector<i32> tokens_of(i64 sample) const;

private:
    /// Consecutive tokens of the store in numbers [begin, begin + count) of a sample.
    std::vector<DocumentPiece> pieces(i64 sample, i64 begin, i64 count) const;
    /// Tokens [begin, begin + count) of a sample, -1 after its last.
    void read_tokens(i64 sample, i64 begin, i64 count, i32* tokens) const;
    /// Replaces those of them that are not trained by -1.
    void mask_tokens(i64 sample, i64 begin, i64 count, i32* tokens) const;
    /// For each of these tokens whether a document, or a piece of one, begins there.
    std::unique_ptr<bool[]> begins(i64 sample, i64 begin, i64 count) const;

    std::unique_ptr<const TokenStore> store_; ///< at one place, for packed_
    i64 seq_, samples_;
    std::vector<Array> arrays_;
    bool by_documents_, counts_boundaries_, masks_;
    std::optional<PackedDocuments> packed_;
};

/// Whether a store has a sample; cheap.
bool has_samples(const TokenStore& store, i64 seq, const DataConfig& config);

} // namespace trivium
