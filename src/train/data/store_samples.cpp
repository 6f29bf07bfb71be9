#include "train/data/store_samples.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/tokens/sample_order.hpp"
#include "ir/names.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

StoreSamples::StoreSamples(TokenStore store, i64 seq, const DataConfig& config)
    : store_(std::make_unique<const TokenStore>(std::move(store))), seq_(seq),
      samples_(window_count(store_->size(), seq)), by_documents_(config.by_documents()),
      counts_boundaries_(config.counts_boundaries()),
      masks_(config.loss_of == LossOf::trained && store_->has_mask())
{
    if (by_documents_ || !counts_boundaries_)
        store_->require_documents();
    if (config.packing == SamplePacking::best_fit) {
        packed_.emplace(*store_, seq + 1);
        samples_ = packed_->samples();
    }
    TRV_EXPECT(samples_ > 0, store_->path(), " contains no sample");
    for (const char* name :
         {value_name::tokens, value_name::targets, value_name::positions, value_name::starts})
        arrays_.push_back({name, {DType::i32, {seq}}});
}

void StoreSamples::read(std::size_t array, i64 sample, const Box& box, void* to) const
{
    read(static_cast<SampleInput>(array), sample, box.offset[0], box.shape[0], static_cast<i32*>(to));
}

void StoreSamples::pad(std::size_t array, const Box& box, void* to) const
{
    auto* const numbers = static_cast<i32*>(to);
    const auto input = static_cast<SampleInput>(array);
    if (input == SampleInput::positions)
        std::iota(numbers, numbers + box.shape[0], static_cast<i32>(box.offset[0]));
    else
        std::fill_n(numbers, box.shape[0], input == SampleInput::targets ? -1 : 0);
}

std::string StoreSamples::facts() const
{
    return str(counted(store_->files().size(), "file"), ", ", store_->size(), " tokens, vocabulary ",
               store_->vocab(), ", ", store_->fingerprint(), ", hash ", std::hex, store_->tokens_hash());
}

std::vector<DocumentPiece> StoreSamples::pieces(i64 sample, i64 begin, i64 count) const
{
    if (!packed_)
        return {{sample * seq_ + begin, count, begin}};
    std::vector<DocumentPiece> parts;
    for (const DocumentPiece& piece : packed_->sample(sample)) {
        const i64 from = std::max(begin, piece.at), to = std::min(begin + count, piece.at + piece.count);
        if (from < to)
            parts.push_back({piece.begin + from - piece.at, to - from, from});
    }
    return parts;
}

void StoreSamples::read_tokens(i64 sample, i64 begin, i64 count, i32* tokens) const
{
    if (packed_)
        std::fill_n(tokens, count, -1);
    for (const DocumentPiece& piece : pieces(sample, begin, count))
        store_->read(piece.begin, piece.count, tokens + piece.at - begin);
}

void StoreSamples::mask_tokens(i64 sample, i64 begin, i64 count, i32* tokens) const
{
    for (const DocumentPiece& piece : pieces(sample, begin, count)) {
        i32* const first = tokens + piece.at - begin;
        i64 done = 0;
        for (const TokenSpan& trained : store_->trained(piece.begin, piece.count)) {
            std::fill(first + done, first + trained.begin - piece.begin, -1);
            done = trained.end - piece.begin;
        }
        std::fill(first + done, first + piece.count, -1);
    }
}

std::unique_ptr<bool[]> StoreSamples::begins(i64 sample, i64 begin, i64 count) const
{
    auto marks = std::make_unique<bool[]>(static_cast<std::size_t>(count));
    const auto mark = [&](i64 at, bool begins) {
        if (at >= begin && at < begin + count)
            marks[static_cast<std::size_t>(at - begin)] = begins;
    };
    if (packed_) {
        for (const DocumentPiece& piece : packed_->sample(sample)) {
            mark(piece.at, true);
            mark(piece.at + piece.count, true); // the padding begins like a document
        }
    } else {
        store_->mark_begins(sample * seq_ + begin, count, marks.get());
    }
    mark(0, false); // nothing is before it
    return marks;
}

void StoreSamples::read(SampleInput input, i64 sample, i64 begin, i64 count, i32* out) const
{
    if (input == SampleInput::tokens) {
        read_tokens(sample, begin, count, out);
        std::replace(out, out + count, -1, std::max(store_->eos(), 0)); // a store may lack an eos
    } else if (input == SampleInput::targets) {
        read_tokens(sample, begin + 1, count, out);
        if (masks_)
            mask_tokens(sample, begin + 1, count, out);
        if (counts_boundaries_)
            return;
        const auto begun = begins(sample, begin + 1, count);
        for (i64 i = 0; i < count; ++i)
            if (begun[static_cast<std::size_t>(i)])
                out[i] = -1;
    } else if (input == SampleInput::positions && !by_documents_) {
        std::iota(out, out + count, static_cast<i32>(begin));
    } else { // where the document of a token begins follows from all tokens before it
        const auto begun = begins(sample, 0, begin + count);
        i64 start = 0;
        for (i64 i = 0; i < begin + count; ++i) {
            start = begun[static_cast<std::size_t>(i)] ? i : start;
            if (i >= begin)
                out[i - begin] = static_cast<i32>(input == SampleInput::starts ? start : i - start);
        }
    }
}

std::vector<i32> StoreSamples::tokens_of(i64 sample) const
{
    std::vector<i32> ids(static_cast<std::size_t>(seq_ + 1));
    read_tokens(sample, 0, seq_ + 1, ids.data());
    while (!ids.empty() && ids.back() < 0)
        ids.pop_back();
    return ids;
}

bool has_samples(const TokenStore& store, i64 seq, const DataConfig& config)
{
    return config.packing == SamplePacking::best_fit ? store.size() > 1 : window_count(store.size(), seq) > 0;
}

} // namespace trivium
