#include "train/token_score.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trivium {

TokenScore score_of(std::span<const double> logits, i32 token, i64 top)
{
    const double most = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits)
        sum += std::exp(logit - most);
    const double lse = most + std::log(sum);
    TokenScore score{token, logits[static_cast<std::size_t>(token)] - lse, {}};
    const auto count = static_cast<std::size_t>(std::clamp<i64>(top, 0, static_cast<i64>(logits.size())));
    const auto before = [&](i32 a, i32 b) {
        const double x = logits[static_cast<std::size_t>(a)], y = logits[static_cast<std::size_t>(b)];
        return x != y ? x > y : a < b;
    };
    std::vector<i32> ids(count == 0 ? 0 : logits.size());
    std::iota(ids.begin(), ids.end(), 0);
    std::partial_sort(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(count), ids.end(), before);
    for (std::size_t i = 0; i < count; ++i)
        score.top.emplace_back(ids[i], logits[static_cast<std::size_t>(ids[i])] - lse);
    return score;
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
