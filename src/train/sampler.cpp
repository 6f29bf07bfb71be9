#include "train/sampler.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

std::int32_t Sampler::pick(std::span<const float> logits, i64 vocab)
{
    ranked_.clear();
    for (i64 i = 0; i < std::min<i64>(vocab, static_cast<i64>(logits.size())); ++i)
        ranked_.emplace_back(logits[static_cast<std::size_t>(i)], static_cast<std::int32_t>(i));
    // Most likely first; ties by id, so that the choice does not depend on the sort.
    std::sort(ranked_.begin(), ranked_.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    });
    if (config_.temperature <= 0)
        return ranked_[0].second;
    std::size_t kept = ranked_.size();
    if (config_.top_k > 0)
        kept = std::min(kept, static_cast<std::size_t>(config_.top_k));
    std::vector<double> weights;
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) {
        weights.push_back(std::exp((ranked_[i].first - ranked_[0].first) / config_.temperature));
        sum += weights.back();
    }
    double nucleus = 0;
    std::size_t end = 0;
    while (end < kept && (end == 0 || nucleus < config_.top_p * sum))
        nucleus += weights[end++];
    double at = random_.uniform_at(drawn_++) * nucleus;
    for (std::size_t i = 0; i + 1 < end; ++i)
        if ((at -= weights[i]) < 0)
            return ranked_[i].second;
    return ranked_[end - 1].second;
}

} // namespace trivium
