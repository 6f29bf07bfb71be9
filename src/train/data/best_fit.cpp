#include "train/data/best_fit.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace trivium {

namespace {

constexpr i64 samples_of_chunk = 1024;
constexpr i64 most_kept_pieces = i64{4} << 20; ///< in memory, of recent chunks: about 100 MB

} // namespace

std::vector<std::vector<std::size_t>> best_fit(std::span<const i64> lengths, i64 capacity)
{
    std::vector<std::size_t> order(lengths.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return lengths[a] > lengths[b]; });
    std::vector<std::vector<std::size_t>> bins;
    std::set<std::pair<i64, std::size_t>> rooms; // (room left, bin)
    for (const std::size_t item : order) {
        const i64 length = lengths[item];
        TRV_EXPECT(length >= 1 && length <= capacity, "a length of ", length, " of ", capacity);
        const auto fullest = rooms.lower_bound({length, 0});
        i64 room = capacity;
        std::size_t bin = bins.size();
        if (fullest == rooms.end()) {
            bins.emplace_back();
        } else {
            std::tie(room, bin) = *fullest;
            rooms.erase(fullest);
        }
        bins[bin].push_back(item);
        if (room > length)
            rooms.insert({room - length, bin});
    }
    return bins;
}

PackedDocuments::PackedDocuments(const TokenStore& store, i64 capacity)
    : store_(&store), capacity_(capacity), first_document_{0}, first_sample_{0},
      memo_(std::make_unique<Memo>())
{
    TRV_CHECK(capacity > 1, "samples of ", capacity);
    i64 begin = 0;
    for (i64 document = 1; document <= store.documents(); ++document) {
        const i64 end = store.document_begin(document);
        if (end - begin < samples_of_chunk * capacity && document < store.documents())
            continue;
        first_document_.push_back(document);
        begin = end;
    }
    for (std::size_t chunk = 0; chunk + 1 < first_document_.size(); ++chunk) {
        first_sample_.push_back(first_sample_.back() + static_cast<i64>(pack(chunk).size()));
        Activity::of_process().advance();
    }
}

PackedDocuments::Chunk PackedDocuments::pack(std::size_t chunk) const
{
    std::vector<i64> begins, lengths;
    for (i64 document = first_document_[chunk]; document < first_document_[chunk + 1]; ++document) {
        const i64 end = store_->document_begin(document + 1);
        i64 begin = store_->document_begin(document);
        for (bool whole = begin == end; !whole;) { // an empty one has no piece
            const i64 length = std::min(capacity_, end - begin);
            begins.push_back(begin);
            lengths.push_back(length);
            whole = begin + length == end;
            begin += length - 1;
        }
    }
    Chunk samples;
    for (const std::vector<std::size_t>& bin : best_fit(lengths, capacity_)) {
        std::vector<DocumentPiece>& pieces = samples.emplace_back();
        i64 at = 0;
        for (const std::size_t item : bin) {
            pieces.push_back({begins[item], lengths[item], at});
            at += lengths[item];
        }
    }
    return samples;
}

std::vector<DocumentPiece> PackedDocuments::sample(i64 sample) const
{
    TRV_CHECK(sample >= 0 && sample < samples(), "sample ", sample, " of ", samples());
    const auto chunk =
        static_cast<std::size_t>(std::ranges::upper_bound(first_sample_, sample) - first_sample_.begin() - 1);
    const auto number = static_cast<std::size_t>(sample - first_sample_[chunk]);
    const std::lock_guard lock(memo_->mutex);
    std::deque<Recent>& recent = memo_->recent;
    const auto known = std::ranges::find(recent, chunk, &Recent::chunk);
    if (known == recent.end()) {
        Chunk content = pack(chunk);
        i64 pieces = 0;
        for (const std::vector<DocumentPiece>& each : content)
            pieces += static_cast<i64>(each.size());
        recent.push_back({chunk, pieces, std::move(content)});
        for (memo_->pieces += pieces; memo_->pieces > most_kept_pieces && recent.size() > 1;
             recent.pop_front())
            memo_->pieces -= recent.front().pieces;
    } else if (known + 1 != recent.end()) {
        std::rotate(known, known + 1, recent.end());
    }
    return recent.back().content[number];
}

} // namespace trivium
