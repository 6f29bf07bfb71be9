#include "io/tokens/hold_out.hpp"

#include "base/check.hpp"
#include "io/files/utf8.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trivium {

namespace {

/// The end of a block of about `block` bytes: after a newline if one is near, never inside a character.
std::size_t block_end(std::string_view text, std::size_t block)
{
    if (text.size() <= block + block / 2)
        return text.size();
    const std::size_t newline = text.find('\n', block);
    if (newline < block + block / 2)
        return newline + 1;
    return character_begin(text, block);
}

} // namespace

HoldOut::HoldOut(double fraction) : fraction_(fraction)
{
    TRV_CHECK(fraction >= 0 && fraction < 1, "fraction = ", fraction);
}

void HoldOut::survey(Bytes document)
{
    TRV_CHECK(at_ == 0, "survey() after split()");
    sizes_.push_back(document);
    bytes_ += document;
    valid_.clear();
}

void HoldOut::choose()
{
    if (!valid_.empty() || sizes_.empty())
        return;
    std::vector<u64> order(sizes_.size());
    std::iota(order.begin(), order.end(), u64{0});
    const auto size = [&](std::size_t place) { return static_cast<double>(sizes_[order[place]]); };
    std::stable_sort(order.begin(), order.end(), [&](u64 a, u64 b) { return sizes_[a] < sizes_[b]; });
    // The smaller side is sampled, the other one has the rest.
    const bool swapped = fraction_ > 0.5;
    const double fraction = swapped ? 1 - fraction_ : fraction_;
    valid_.assign(sizes_.size(), swapped);
    const auto samples = static_cast<std::size_t>(static_cast<double>(sizes_.size()) * fraction + 0.5);
    double owed = 0; // bytes that the documents chosen so far lack
    for (std::size_t sample = 0; sample < samples; ++sample) {
        const auto boundary = [&](std::size_t n) {
            return std::min(sizes_.size(),
                            static_cast<std::size_t>(std::ceil(static_cast<double>(n) / fraction - 1e-6)));
        };
        const std::size_t begin = boundary(sample),
                          end = sample + 1 == samples ? sizes_.size() : boundary(sample + 1);
        double mean = 0;
        for (std::size_t i = begin; i < end; ++i)
            mean += size(i) / static_cast<double>(end - begin);
        const std::size_t middle = (begin + end) / 2;
        std::size_t best = begin;
        for (std::size_t i = begin; i < end; ++i) {
            const auto distance = [&](std::size_t place) {
                return std::pair(std::abs(size(place) - mean - owed),
                                 place < middle ? middle - place : place - middle);
            };
            if (distance(i) < distance(best))
                best = i;
        }
        owed += mean - size(best);
        valid_[order[best]] = !swapped;
    }
    if (samples == 0)
        choose_of_few(order[0]);
    for (std::size_t i = 0; i < sizes_.size(); ++i)
        valid_bytes_ += valid_[i] ? sizes_[i] : 0;
}

void HoldOut::choose_of_few(std::size_t smallest)
{
    Bytes seen = 0, held_out = 0;
    for (std::size_t i = 0; i < sizes_.size(); ++i) {
        seen += sizes_[i];
        valid_[i] = static_cast<double>(held_out) + 0.5 * static_cast<double>(sizes_[i]) <=
                    fraction_ * static_cast<double>(seen);
        held_out += valid_[i] ? sizes_[i] : 0;
    }
    const auto count = std::count(valid_.begin(), valid_.end(), true);
    if (count == 0 || count == documents())
        valid_[smallest] = count == 0;
}

double HoldOut::share()
{
    choose();
    return documents() <= 1 ? fraction_ : static_cast<double>(valid_bytes_) / static_cast<double>(bytes_);
}

void HoldOut::split(std::string_view document, const Take& take)
{
    if (fraction_ <= 0)
        return take(false, document);
    if (at_ == sizes_.size())
        throw UserError({"the input", "changed while it was read",
                         str("the first pass found ", documents(), " documents"), "run the command again"});
    choose();
    const bool valid = valid_[at_++];
    if (documents() == 1)
        return split_one(document, take);
    take(valid, document);
}

void HoldOut::split_one(std::string_view document, const Take& take) const
{
    const auto block = static_cast<std::size_t>(std::clamp<Bytes>(bytes_ / 256, 1 << 10, 1 << 20));
    Bytes seen = 0, held_out = 0;
    // Adjacent blocks on the same side form one part.
    std::size_t begin = 0, at = 0;
    bool side = false;
    while (at < document.size()) {
        const std::size_t size = block_end(document.substr(at), block);
        seen += static_cast<Bytes>(size);
        const bool valid =
            static_cast<double>(held_out + static_cast<Bytes>(size)) <= fraction_ * static_cast<double>(seen);
        held_out += valid ? static_cast<Bytes>(size) : 0;
        if (at > begin && valid != side) {
            take(side, document.substr(begin, at - begin));
            begin = at;
        }
        side = valid;
        at += size;
    }
    if (at > begin)
        take(side, document.substr(begin));
}

} // namespace trivium
