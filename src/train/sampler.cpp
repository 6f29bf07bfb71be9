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
    const auto likeliest = *std::min_element(ranked_.begin(), ranked_.end(), before);
    if (config_.temperature <= 0)
        return picked(likeliest.second);
    std::size_t sorted = 0; // so many are in order: of a large vocabulary, few are needed
    const auto ranked = [&](std::size_t i) {
        while (i >= sorted) {
            const auto begin = ranked_.begin() + static_cast<std::ptrdiff_t>(sorted);
            const std::size_t wanted = std::max<std::size_t>(64, 8 * sorted);
            sorted = wanted < ranked_.size() / 8 ? wanted : ranked_.size();
            if (sorted < ranked_.size())
                std::partial_sort(begin, ranked_.begin() + static_cast<std::ptrdiff_t>(sorted), ranked_.end(),
                                  before);
            else
                std::sort(begin, ranked_.end(), before);
        }
        return ranked_[i];
    };
    const auto weight = [&](double logit) {
        return std::exp((logit - likeliest.first) / config_.temperature);
    };
    const std::size_t kept = config_.top_k > 0
                                 ? std::min(ranked_.size(), static_cast<std::size_t>(config_.top_k))
                                 : ranked_.size();
    double sum = 0;
    for (std::size_t i = 0; i < kept; ++i)
        sum += weight(kept < ranked_.size() ? ranked(i).first : ranked_[i].first);
    double nucleus = sum; // of the first `end`
    std::size_t end = kept;
    if (config_.top_p < 1 || config_.min_p > 0) {
        nucleus = 0;
        for (end = 0; end < kept; nucleus += weight(ranked(end++).first))
            if (end > 0 && (nucleus >= config_.top_p * sum || weight(ranked(end).first) < config_.min_p))
                break;
    }
    double at = random_.uniform_at(drawn_++) * nucleus;
    for (std::size_t i = 0; i + 1 < end; ++i)
        if ((at -= weight(ranked(i).first)) < 0)
            return picked(ranked(i).second);
    return picked(ranked(end - 1).second);
}

} // namespace trivium
