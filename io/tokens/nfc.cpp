#include "io/tokens/nfc.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utf8proc.h>

namespace trivium {

namespace {

constexpr std::size_t block_bytes = std::size_t{1} << 20; ///< the library needs about 4 times as much memory

/// Characters below U+0300 are unchanged by NFC, alone and next to each other.
bool is_inert(std::string_view text)
{
    return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xcc; });
}

void append_nfc(std::string_view text, std::string& to)
{
    if (is_inert(text)) {
        to += text;
        return;
    }
    utf8proc_uint8_t* composed = nullptr;
    const utf8proc_ssize_t size = utf8proc_map(
        reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
        &composed, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(composed, &std::free);
    TRV_CHECK(size >= 0, "utf8proc: ", utf8proc_errmsg(size));
    to.append(reinterpret_cast<const char*>(composed), static_cast<std::size_t>(size));
}

} // namespace

std::string to_nfc(std::string_view text)
{
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        // A newline neither composes nor is reordered, so the text before it can be normalized separately.
        const std::size_t end =
            text.size() <= block_bytes ? std::string_view::npos : text.find('\n', block_bytes);
        append_nfc(text.substr(0, end), result);
        text.remove_prefix(std::min(end, text.size()));
    }
    return result;
}

} // namespace trivium
