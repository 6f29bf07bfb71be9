#include "io/tokens/hold_out.hpp"

#include "base/check.hpp"

#include <algorithm>

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
    std::size_t end = block;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
        ++end;
    return end;
}

} // namespace

HoldOut::HoldOut(double fraction) : fraction_(fraction)
{
    TRV_CHECK(fraction >= 0 && fraction < 1, "fraction = ", fraction);
}

bool HoldOut::Choice::next(double fraction, Bytes bytes, double part)
{
    seen += bytes;
    const bool is_valid = static_cast<double>(valid) + part * static_cast<double>(bytes) <=
                          fraction * static_cast<double>(seen);
    valid += is_valid ? bytes : 0;
    return is_valid;
}

void HoldOut::survey(Bytes document)
{
    TRV_CHECK(at_ == 0, "survey() after split()");
    if (count_ == 0 || document < smallest_bytes_) {
        smallest_ = count_;
        smallest_bytes_ = document;
    }
    valid_count_ += surveyed_.next(fraction_, document, 0.5) ? 1 : 0;
    ++count_;
}

double HoldOut::share() const
{
    if (count_ <= 1)
        return fraction_;
    const auto all = static_cast<double>(surveyed_.seen), smallest = static_cast<double>(smallest_bytes_);
    return valid_count_ == 0        ? smallest / all
           : valid_count_ == count_ ? 1 - smallest / all
                                    : static_cast<double>(surveyed_.valid) / all;
}

void HoldOut::split(std::string_view document, const Take& take)
{
    if (fraction_ <= 0)
        return take(false, document);
    if (at_ == count_)
        throw UserError({"the input", "changed while it was read",
                         str("the first pass found ", count_, " documents"), "run the command again"});
    if (count_ == 1) {
        ++at_;
        return split_one(document, take);
    }
    bool valid = split_.next(fraction_, static_cast<Bytes>(document.size()), 0.5);
    if (valid_count_ == 0 || valid_count_ == count_) // the smallest document alone is on its side
        valid = (at_ == smallest_) == (valid_count_ == 0);
    ++at_;
    take(valid, document);
}

void HoldOut::split_one(std::string_view document, const Take& take) const
{
    const auto block = static_cast<std::size_t>(std::clamp<Bytes>(surveyed_.seen / 256, 1 << 10, 1 << 20));
    Choice choice;
    // Adjacent blocks on the same side form one part.
    std::size_t begin = 0, at = 0;
    bool side = false;
    while (at < document.size()) {
        const std::size_t size = block_end(document.substr(at), block);
        const bool valid = choice.next(fraction_, static_cast<Bytes>(size), 1);
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
