#include "train/data/batches.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

#include <algorithm>

namespace trivium {

Batches::Batches(std::unique_ptr<const SampleSource> source) { sources_.push_back(std::move(source)); }

Batches::Batches(SampleSources sources, u64 seed) : sources_(std::move(sources))
{
    for (const auto& source : sources_)
        orders_.emplace_back(source->samples(), seed);
}

void Batches::read_ahead(i64 samples)
{
    ahead_ = samples;
    reader_ = std::make_unique<ReadAhead>();
}

void Batches::mix(MixtureHistory history, const std::vector<std::size_t>& place, i64 first)
{
    history_ = std::move(history);
    mixture_.emplace(history_, first);
    source_of_place_.assign(history_.sources.size(), 0);
    for (std::size_t source = 0; source < place.size(); ++source)
        source_of_place_[place[source]] = source;
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
    for (const auto& source : sources_)
        text += (text.empty() ? "" : "; ") + source->content();
    return text;
}

i64 Batches::samples() const
{
    i64 samples = 0;
    for (const auto& source : sources_)
        samples += source->samples();
    return samples;
}

std::pair<const SampleSource*, i64> Batches::find(i64 sample) const
{
    std::size_t source = 0;
    if (mixture_) {
        const MixtureOrder::Place place = mixture_->at(sample);
        source = source_of_place_[place.source];
        sample = place.index;
    }
    return {sources_[source].get(), orders_.empty() ? sample : orders_[source].at(sample)};
}

Batch Batches::at(i64 first, i64 end) const
{
    Batch batch{{}, first};
    const std::vector<SampleSource::Array>& arrays = source().arrays();
    for (std::size_t array = 0; array < arrays.size(); ++array)
        batch.arrays[arrays[array].name] = {
            arrays[array].type, [this, array, end](i64 sample, const Box& box, void* to) {
                if (sample >= end)
                    return source().pad(array, box, to);
                const auto [source, own] = find(sample);
                if (!reader_)
                    return source->read(array, own, box, to);
                const auto [next, later] = find(sample + ahead_);
                reader_->read({source, array, own, box}, to, {next, array, later, box});
            }};
    batch.arrays.try_emplace(value_name::samples, sample_numbers());
    batch.arrays.try_emplace(
        value_name::valid, SampleArray{{valid_, {}}, [end, type = valid_](i64 sample, const Box&, void* to) {
                                           with_type(type, [&](auto t) {
                                               using T = decltype(t);
                                               *static_cast<T*>(to) = T(sample < end ? 1.0F : 0.0F);
                                           });
                                       }});
    return batch;
}

} // namespace trivium
