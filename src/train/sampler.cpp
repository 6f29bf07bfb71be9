#include "train/sampler.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

Sampler::Sampler(const SamplerConfig& config)
    : config_(config), random_(config.seed, config.sample == 0 ? "generate" : str("generate ", config.sample))
{
}

void Sampler::saw(std::int32_t token)
{
    const auto at = static_cast<std::size_t>(token);
    if (seen_.size() <= at)
        seen_.resize(at + 1);
    seen_[at] = true;
}

std::int32_t Sampler::pick(std::span<const double> logits, i64 vocab)
{
    ranked_.clear();
    for (std::size_t i = 0; i < std::min(static_cast<std::size_t>(vocab), logits.size()); ++i) {
        double logit = logits[i];
        if (i < seen_.size() && seen_[i])
            logit = logit > 0 ? logit / config_.repetition_penalty : logit * config_.repetition_penalty;
        ranked_.emplace_back(logit, static_cast<std::int32_t>(i));
    }
    // Most likely first; ties by id, so that the choice does not depend on the sort.
    const auto before = [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first > b.first : a.second < b.second;
    };
    const auto picked = [&](std::int32_t token) {
        saw(token);
        return token;
    };
    if (config_.temperature <= 0)
        return picked(std::min_element(ranked_.begin(), ranked_.end(), before)->second);
    std::sort(ranked_.begin(), ranked_.end(), before);
    std::size_t kept = ranked_.size();
    if (config_.top_k > 0)
        kept = std::min(kept, static_cast<std::size_t>(config_.top_k));
    std::vector<double> weights;
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i) {
        weights.push_back(std::exp((ranked_[i].first - ranked_[0].first) / config_.temperature));
        sum += weights.back();
    }
    double nucleus = 0; // of the first `end`
    std::size_t end = 0;
    while (end < kept && (end == 0 || (nucleus < config_.top_p * sum && weights[end] >= config_.min_p)))
        nucleus += weights[end++];
    double at = random_.uniform_at(drawn_++) * nucleus;
    for (std::size_t i = 0; i + 1 < end; ++i)
        if ((at -= weights[i]) < 0)
            return picked(ranked_[i].second);
    return picked(ranked_[end - 1].second);
}

} // namespace trivium
