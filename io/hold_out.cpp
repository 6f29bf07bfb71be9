#include "io/hold_out.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// Where a block that should have `block` bytes ends: after a line's end where one is near, never inside a character.
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

HoldOut::HoldOut(double fraction, Bytes total)
    : fraction_(fraction), block_(std::clamp<Bytes>(total / 256, 1 << 10, 1 << 20))
{
    TRV_CHECK(fraction >= 0 && fraction < 1, "fraction = ", fraction);
}

bool HoldOut::choose(Bytes bytes)
{
    seen_ += bytes;
    const bool valid = static_cast<double>(valid_ + bytes) <= fraction_ * static_cast<double>(seen_);
    valid_ += valid ? bytes : 0;
    return valid;
}

void HoldOut::split(std::string_view document, const Take& take)
{
    if (fraction_ <= 0) {
        take(false, document);
        return;
    }
    // Neighbouring blocks of one side stay one part.
    std::size_t begin = 0, at = 0;
    bool side = false;
    while (at < document.size()) {
        const std::size_t size = block_end(document.substr(at), static_cast<std::size_t>(block_));
        const bool valid = choose(static_cast<Bytes>(size));
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
