#include "train/token_score.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

/// The most probable first, ties by id.
bool before(const std::pair<i32, double>& a, const std::pair<i32, double>& b)
{
    return a.second != b.second ? a.second > b.second : a.first < b.first;
}

} // namespace

ScorePart score_part(std::span<const double> logits, i32 first, i32 token, i64 top)
{
    ScorePart part{*std::max_element(logits.begin(), logits.end()), 0, -INFINITY, {}};
    const auto count = static_cast<std::size_t>(std::max<i64>(top, 0));
    for (std::size_t i = 0; i < logits.size(); ++i) {
        part.sum += std::exp(logits[i] - part.most);
        const std::pair<i32, double> own(first + static_cast<i32>(i), logits[i]);
        if (own.first == token)
            part.picked = logits[i];
        if (part.top.size() == count && (count == 0 || !before(own, part.top.back())))
            continue;
        part.top.insert(std::upper_bound(part.top.begin(), part.top.end(), own, before), own);
        if (part.top.size() > count)
            part.top.pop_back();
    }
    return part;
}

TokenScore score_of(std::span<const ScorePart> parts, i32 token, i64 top)
{
    double most = -INFINITY, sum = 0, picked = -INFINITY;
    for (const ScorePart& part : parts) {
        most = std::max(most, part.most);
        picked = std::max(picked, part.picked);
    }
    TokenScore score{token, 0, {}};
    for (const ScorePart& part : parts) {
        sum += part.sum * std::exp(part.most - most);
        score.top.insert(score.top.end(), part.top.begin(), part.top.end());
    }
    const double lse = most + std::log(sum);
    score.logprob = picked - lse;
    std::sort(score.top.begin(), score.top.end(), before);
    score.top.resize(std::min(score.top.size(), static_cast<std::size_t>(std::max<i64>(top, 0))));
    for (auto& [id, logit] : score.top)
        logit -= lse;
    return score;
}

TokenScore score_of(std::span<const double> logits, i32 token, i64 top)
{
    const ScorePart whole = score_part(logits, 0, token, top);
    return score_of(std::span(&whole, 1), token, top);
}

namespace {

/// Length of the longest prefix of `text` that ends with a complete UTF-8 character.
std::size_t whole_characters(std::string_view text)
{
    for (std::size_t back = 1; back <= 4 && back <= text.size(); ++back) {
        const auto byte = static_cast<unsigned char>(text[text.size() - back]);
        if (byte < 0x80)
            break;
        if (byte >= 0xC0) {
            const std::size_t length = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
            return length > back ? text.size() - back : text.size();
        }
    }
    return text.size();
}

} // namespace

bool SampleText::append(i32 token)
{
    tokens_.push_back(token);
    text_ = tokenizer_->decode(tokens_);
    bool is_stopped = false;
    for (const std::string& stop : stop_)
        if (const std::size_t at = text_.find(stop); at != std::string::npos) {
            text_.resize(at);
            is_stopped = true;
        }
    return is_stopped;
}

std::size_t SampleText::final_end() const
{
    const std::string_view text = text_;
    std::size_t end = whole_characters(text);
    for (const std::string& stop : stop_)
        for (std::size_t n = std::min(stop.size() - 1, text.size()); n > 0; --n)
            if (text.ends_with(std::string_view(stop).substr(0, n))) {
                end = std::min(end, text.size() - n);
                break;
            }
    return end;
}

std::string_view SampleText::take(bool all)
{
    const std::size_t from = std::min(taken_, text_.size()), end = all ? text_.size() : final_end();
    taken_ = std::max(from, end);
    return std::string_view(text_).substr(from, taken_ - from);
}

} // namespace trivium
