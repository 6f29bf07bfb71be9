#pragma once
// The ids of words that occurred before: a table of fixed size, in which a new word replaces another one.
#include "base/units.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace trivium {

class WordCache {
public:
    static constexpr std::size_t longest_word = 32; ///< bytes; longer words are not kept
    static constexpr std::size_t most_ids = 7;

    /// A word's place in the table. It is in one line of the processor's cache.
    struct alignas(64) Entry {
        std::array<u64, 4> key{};
        std::array<std::int32_t, most_ids> ids{};
        std::uint8_t length = 0; ///< of the word; 0: free
        std::uint8_t count = 0;

        std::span<const std::int32_t> found() const { return {ids.data(), count}; }
    };

    WordCache() : entries_(std::size_t{1} << bits) {}

    /// The place of a word; `hit`: it has the word's ids. Otherwise set() may keep them there. \pre 1 to
    /// longest_word bytes
    Entry& find(std::string_view word, bool& hit)
    {
        const std::array<u64, 4> key = key_of(word);
        u64 hash = (key[0] ^ key[2] * 0x9e3779b97f4a7c15u) * 0xff51afd7ed558ccdu;
        hash ^= (key[1] ^ key[3] * 0xc4ceb9fe1a85ec53u) * 0x2545f4914f6cdd1du + word.size();
        Entry& entry = entries_[hash * 0x9e3779b97f4a7c15u >> (64 - bits)];
        const u64 differs = (entry.key[0] ^ key[0]) | (entry.key[1] ^ key[1]) | (entry.key[2] ^ key[2]) |
                            (entry.key[3] ^ key[3]) | (entry.length ^ word.size());
        hit = differs == 0;
        return entry;
    }

    static void set(Entry& entry, std::string_view word, std::span<const std::int32_t> ids)
    {
        if (ids.size() > most_ids)
            return;
        entry.key = key_of(word);
        entry.length = static_cast<std::uint8_t>(word.size());
        entry.count = static_cast<std::uint8_t>(ids.size());
        std::copy(ids.begin(), ids.end(), entry.ids.begin());
    }

private:
    static constexpr int bits = 15; ///< 2 MB

    static u64 load(const char* at)
    {
        u64 value = 0;
        std::memcpy(&value, at, sizeof value);
        return value;
    }

    /// With the length, it tells all words apart: their bytes, some of them twice.
    static std::array<u64, 4> key_of(std::string_view word)
    {
        const char* const at = word.data();
        const std::size_t n = word.size();
        if (n > 16)
            return {load(at), load(at + 8), load(at + n - 16), load(at + n - 8)};
        if (n >= 8)
            return {load(at), load(at + n - 8), 0, 0};
        if (n >= 4) {
            std::uint32_t low = 0, high = 0;
            std::memcpy(&low, at, 4);
            std::memcpy(&high, at + n - 4, 4);
            return {low | u64{high} << 32, 0, 0, 0};
        }
        const auto byte = [&](std::size_t i) { return u64{static_cast<unsigned char>(at[i])}; };
        return {byte(0) | byte(n / 2) << 8 | byte(n - 1) << 16, 0, 0, 0};
    }

    std::vector<Entry> entries_;
};

} // namespace trivium
