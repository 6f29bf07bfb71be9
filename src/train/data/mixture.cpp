#include "train/data/mixture.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trivium {

namespace {

__extension__ using Wide = __int128;

constexpr std::size_t most_recent_blocks = 16;

/// weights * scale, if these are integers but for rounding, with a sum in the limits.
std::vector<i64> scaled_weights(std::span<const double> weights, double scale)
{
    std::vector<i64> integers;
    double sum = 0;
    for (const double weight : weights) {
        const double number = weight * scale, near = std::round(number);
        sum += near;
        if (std::abs(number - near) > 1e-12 * number || sum > 0x1p40)
            return {};
        integers.push_back(static_cast<i64>(near));
    }
    return integers;
}

std::vector<i64> padded(std::vector<i64> numbers, std::size_t size)
{
    numbers.resize(size, 0);
    return numbers;
}

} // namespace

std::vector<i64> integer_weights(std::span<const double> weights)
{
    std::vector<i64> integers;
    for (double scale = 1; integers.empty() && scale <= 1e9; scale *= 10)
        integers = scaled_weights(weights, scale);
    if (integers.empty()) {
        const double most = *std::ranges::max_element(weights);
        double sum = 0; // of numbers up to 1: the weights may be huge
        for (const double weight : weights)
            sum += weight / most;
        for (const double weight : weights)
            integers.push_back(static_cast<i64>(std::llround(weight / most / sum * 0x1p40)));
    }
    i64 common = 0;
    for (const i64 weight : integers)
        common = std::gcd(common, weight);
    TRV_CHECK(common > 0, "no weight is above 0");
    for (i64& weight : integers)
        weight /= common;
    return integers;
}

MixtureHistory continue_mixture(MixtureHistory before, const std::vector<MixtureSource>& sources,
                                std::span<const i64> weights, i64 first, std::vector<std::size_t>& place)
{
    std::vector<MixtureSource>& known = before.sources;
    MixtureSegment next{first, std::vector<i64>(known.size(), 0), {}};
    place.clear();
    for (std::size_t i = 0; i < sources.size(); ++i) {
        auto at = std::ranges::find(known, sources[i].data, &MixtureSource::data);
        if (at == known.end())
            at = known.insert(known.end(), {sources[i].path, sources[i].data, 0});
        at->path = sources[i].path;
        place.push_back(static_cast<std::size_t>(at - known.begin()));
        next.weights.resize(known.size(), 0);
        next.weights[place.back()] = weights[i];
    }
    for (const MixtureSource& source : known)
        next.counts.push_back(source.samples);
    if (before.segments.empty() || padded(before.segments.back().weights, known.size()) != next.weights)
        before.segments.push_back(std::move(next));
    return before;
}

MixtureOrder::MixtureOrder(const MixtureHistory& history, i64 first)
    : first_(first), memo_(std::make_unique<Memo>())
{
    TRV_CHECK(!history.segments.empty() && first >= history.segments.back().first, "sample ", first,
              " is before its mixture");
    const MixtureSegment& segment = history.segments.back();
    weights_ = padded(segment.weights, history.sources.size());
    const std::vector<i64> begun = padded(segment.counts, history.sources.size());
    sum_ = segment.weight_sum();
    TRV_CHECK(sum_ > 0 && sum_ <= most_weight, "the weights have the sum ", sum_);
    Credits start;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
        if (weights_[i] > 0)
            active_.push_back(i);
        const i64 samples = history.sources[i].samples;
        const Wide credit = Wide{first - segment.first} * weights_[i] - Wide{samples - begun[i]} * sum_;
        TRV_CHECK(credit >= -Wide{sum_} && credit <= Wide{sum_},
                  "the counts of a mixture do not fit its weights");
        start.credits.push_back(static_cast<i64>(credit));
        start.counts.push_back(samples);
    }
    memo_->before.push_back(std::move(start));
}

/// Of the sources that may have the sample without being ahead of their share by too much, the one that must
/// have its next sample first.
std::size_t MixtureOrder::deal(Credits& state) const
{
    const auto slack = static_cast<i64>(2 * active_.size() - 2);
    std::size_t best = active_.front();
    if (slack > 0) {
        bool found = false;
        Wide least = 0; // (1 - 1 / slack - credit) * slack, of `best`; divided by its weight, the time left
        for (const std::size_t i : active_) {
            state.credits[i] += weights_[i];
            const Wide credit = Wide{slack} * state.credits[i];
            if (credit < sum_)
                continue;
            const Wide left = Wide{slack - 1} * sum_ - credit;
            if (!found || left * weights_[best] < least * weights_[i]) {
                found = true;
                best = i;
                least = left;
            }
        }
        state.credits[best] -= sum_;
    }
    ++state.counts[best];
    return best;
}

const MixtureOrder::Credits& MixtureOrder::before_block(i64 number) const
{
    std::vector<Credits>& before = memo_->before;
    while (static_cast<i64>(before.size()) <= number) {
        Credits state = before.back();
        for (i64 i = 0; i < block; ++i)
            deal(state);
        before.push_back(std::move(state));
    }
    return before[static_cast<std::size_t>(number)];
}

MixtureOrder::Place MixtureOrder::at(i64 sample) const
{
    TRV_EXPECT(sample >= first_, "sample ", sample, " is before ", first_);
    const i64 number = (sample - first_) / block;
    const auto in_block = static_cast<std::size_t>((sample - first_) % block);
    const std::lock_guard lock(memo_->mutex);
    std::deque<Block>& recent = memo_->recent;
    const auto known = std::ranges::find(recent, number, &Block::number);
    if (known != recent.end())
        return known->places[in_block];
    Block made{number, {}};
    Credits state = before_block(number);
    for (i64 i = 0; i < block; ++i) {
        const std::size_t source = deal(state);
        made.places.push_back({source, state.counts[source] - 1});
    }
    if (recent.size() == most_recent_blocks)
        recent.pop_front();
    recent.push_back(std::move(made));
    return recent.back().places[in_block];
}

std::vector<i64> MixtureOrder::counts_before(i64 sample) const
{
    TRV_EXPECT(sample >= first_, "sample ", sample, " is before ", first_);
    const std::lock_guard lock(memo_->mutex);
    Credits state = before_block((sample - first_) / block);
    for (i64 i = 0; i < (sample - first_) % block; ++i)
        deal(state);
    return state.counts;
}

} // namespace trivium
