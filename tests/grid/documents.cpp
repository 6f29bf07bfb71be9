#include "grid/documents.hpp"

#include "base/check.hpp"
#include "draw.hpp"
#include "train/data/best_fit.hpp"

#include <algorithm>

namespace trivium::grids {

namespace {

/// Tokens [begin, begin + count) of the batch are one document, or a part of it in each sequence. Its last
/// token is followed by another document.
void place(runs::TokenBatch& batch, i64 begin, i64 count)
{
    for (i64 i = begin; i < begin + count; ++i)
        batch.starts[static_cast<std::size_t>(i)] =
            static_cast<std::int32_t>(std::max<i64>(begin - i / batch.seq * batch.seq, 0));
    batch.targets[static_cast<std::size_t>(begin + count - 1)] = -1;
}

} // namespace

void draw_documents(runs::TokenBatch& batch, SamplePacking packing, u64 seed)
{
    const i64 seq = batch.seq, least = seq / 3, tokens = static_cast<i64>(batch.tokens.size());
    batch.starts.resize(batch.tokens.size());
    Draw draw(seed);
    std::vector<i64> lengths;
    for (i64 left = tokens; left > 0; left -= lengths.back())
        lengths.push_back(std::min(left, least + below(draw, seq - least + 1)));
    i64 begin = 0;
    if (packing == SamplePacking::concatenate) {
        for (const i64 length : lengths) {
            place(batch, begin, length);
            begin += length;
        }
        return;
    }
    for (const std::vector<std::size_t>& bin : best_fit(lengths, seq)) { // at least as many as sequences
        if (begin == tokens)
            break;
        i64 at = begin;
        begin += seq;
        for (const std::size_t document : bin) {
            place(batch, at, lengths[document]);
            at += lengths[document];
        }
        if (at < begin) { // padding
            place(batch, at, begin - at);
            std::fill(batch.targets.begin() + at, batch.targets.begin() + begin, -1);
        }
    }
}

runs::TokenBatch documents_apart(const runs::TokenBatch& batch, i64 rows)
{
    runs::TokenBatch apart;
    apart.seq = batch.seq;
    apart.first_sample = batch.first_sample;
    apart.tokens.assign(static_cast<std::size_t>(rows * batch.seq), 0);
    apart.targets.assign(apart.tokens.size(), -1);
    i64 row = -1;
    for (std::size_t i = 0; i < batch.tokens.size(); ++i) {
        const i64 column = static_cast<i64>(i) % batch.seq - batch.starts[i]; // in its document
        row += column == 0 ? 1 : 0;
        TRV_CHECK(row < rows, "more than ", rows, " documents");
        const auto to = static_cast<std::size_t>(row * batch.seq + column);
        apart.tokens[to] = batch.tokens[i];
        apart.targets[to] = batch.targets[i];
    }
    return apart;
}

} // namespace trivium::grids
