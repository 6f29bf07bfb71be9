#include "train/data/batches.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

#include <algorithm>

namespace trivium {

Batches::Batches(StoreSamples store) { stores_.push_back(std::move(store)); }

Batches::Batches(std::vector<StoreSamples> stores, u64 seed) : stores_(std::move(stores))
{
    for (const StoreSamples& store : stores_)
        orders_.emplace_back(store.samples(), seed);
}

void Batches::mix(MixtureHistory history, const std::vector<std::size_t>& place, i64 first)
{
    history_ = std::move(history);
    mixture_.emplace(history_, first);
    store_of_source_.assign(history_.sources.size(), 0);
    for (std::size_t store = 0; store < place.size(); ++store)
        store_of_source_[place[store]] = store;
}

MixtureHistory Batches::history(i64 sample) const
{
    MixtureHistory history = history_;
    if (mixture_) {
        const std::vector<i64> counts = mixture_->counts_before(sample);
        for (std::size_t i = 0; i < counts.size(); ++i)
            history.sources[i].samples = counts[i];
    }
    return history;
}

std::string Batches::content() const
{
    std::string text;
    for (const StoreSamples& store : stores_)
        text += (text.empty() ? "" : "; ") + store.store().content();
    return text;
}

i64 Batches::samples() const
{
    i64 samples = 0;
    for (const StoreSamples& store : stores_)
        samples += store.samples();
    return samples;
}

std::pair<const StoreSamples*, i64> Batches::find(i64 sample) const
{
    std::size_t store = 0;
    if (mixture_) {
        const MixtureOrder::Place place = mixture_->at(sample);
        store = store_of_source_[place.source];
        sample = place.index;
    }
    return {&stores_[store], orders_.empty() ? sample : orders_[store].at(sample)};
}

Batch Batches::at(i64 first, i64 end) const
{
    const auto input = [this, end](SampleInput what, i32 padding) {
        const auto read = [=, this](i64 sample, const Box& box, void* to) {
            auto* numbers = static_cast<i32*>(to);
            if (sample >= end) {
                for (i64 i = 0; i < box.shape[0]; ++i)
                    numbers[i] =
                        what == SampleInput::positions ? static_cast<i32>(box.offset[0] + i) : padding;
                return;
            }
            const auto [store, own] = find(sample);
            store->read(what, own, box.offset[0], box.shape[0], numbers);
        };
        return SampleArray{{DType::i32, {stores_.front().seq()}}, read};
    };
    return {{{value_name::tokens, input(SampleInput::tokens, 0)},
             {value_name::targets, input(SampleInput::targets, -1)},
             {value_name::positions, input(SampleInput::positions, 0)},
             {value_name::starts, input(SampleInput::starts, 0)},
             {value_name::samples, sample_numbers()}},
            first};
}

} // namespace trivium
