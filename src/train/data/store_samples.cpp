#include "train/data/store_samples.hpp"

#include "base/check.hpp"
#include "io/tokens/sample_order.hpp"

#include <algorithm>
#include <vector>

namespace trivium {

StoreSamples::StoreSamples(TokenStore store, i64 seq, const DataConfig& config)
    : store_(std::make_unique<const TokenStore>(std::move(store))), seq_(seq),
      samples_(window_count(store_->size(), seq)), by_documents_(config.by_documents()),
      counts_boundaries_(config.counts_boundaries())
{
    if (by_documents_ || !counts_boundaries_)
        store_->require_documents();
    if (config.packing == SamplePacking::best_fit) {
        packed_.emplace(*store_, seq + 1);
        samples_ = packed_->samples();
    }
    TRV_EXPECT(samples_ > 0, store_->path(), " contains no sample");
}

void StoreSamples::read_tokens(i64 sample, i64 begin, i64 count, i32* tokens, bool* begins) const
{
    if (!packed_) {
        store_->read(sample * seq_ + begin, count, tokens);
        if (begins == nullptr)
            return;
        store_->mark_begins(sample * seq_ + begin, count, begins);
        if (begin == 0 && count > 0)
            begins[0] = false;
        return;
    }
    std::fill_n(tokens, count, -1);
    for (const DocumentPiece& piece : packed_->sample(sample)) {
        const i64 from = std::max(begin, piece.at), to = std::min(begin + count, piece.at + piece.count);
        if (from < to)
            store_->read(piece.begin + from - piece.at, to - from, tokens + from - begin);
        for (const i64 at : {piece.at, piece.at + piece.count}) // the padding begins like a document
            if (begins != nullptr && at > 0 && at >= begin && at < begin + count)
                begins[at - begin] = true;
    }
}

void StoreSamples::read(SampleInput input, i64 sample, i64 begin, i64 count, i32* out) const
{
    if (input == SampleInput::positions && !by_documents_) {
        for (i64 i = 0; i < count; ++i)
            out[i] = static_cast<i32>(begin + i);
        return;
    }
    // Where the document of a token begins follows from all tokens before it.
    const bool whole = input == SampleInput::positions || input == SampleInput::starts;
    const i64 first = whole                           ? 0
                      : input == SampleInput::targets ? begin + 1
                                                      : begin,
              size = whole ? begin + count : count;
    std::vector<i32> tokens(static_cast<std::size_t>(size));
    const auto begins = std::make_unique<bool[]>(static_cast<std::size_t>(size));
    const bool marks = whole || (input == SampleInput::targets && !counts_boundaries_);
    read_tokens(sample, first, size, tokens.data(), marks ? begins.get() : nullptr);
    const i32 padding = std::max(store_->eos(), 0); // of a store that has documents, but no eos
    i64 start = 0;
    for (i64 i = 0; i < size; ++i) {
        const i32 token = tokens[static_cast<std::size_t>(i)];
        start = begins[static_cast<std::size_t>(i)] ? first + i : start;
        if (input == SampleInput::tokens)
            out[i] = token < 0 ? padding : token;
        else if (input == SampleInput::targets)
            out[i] = begins[static_cast<std::size_t>(i)] && !counts_boundaries_ ? -1 : token;
        else if (i >= begin)
            out[i - begin] = static_cast<i32>(input == SampleInput::starts ? start : i - start);
    }
}

bool has_samples(const TokenStore& store, i64 seq, const DataConfig& config)
{
    return config.packing == SamplePacking::best_fit ? store.size() > 1 : window_count(store.size(), seq) > 0;
}

} // namespace trivium
