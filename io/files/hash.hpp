#pragma once
// Hashes that detect accidental damage. They do not protect against an attacker.
#include "base/units.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace trivium {

/// Incremental xxHash64.
class Hash64 {
public:
    Hash64();
    Hash64(const Hash64&) = delete;
    Hash64& operator=(const Hash64&) = delete;
    ~Hash64();
    void add(const void* data, Bytes bytes);
    u64 digest() const;

private:
    void* state_;
};

/// xxHash64.
u64 hash_bytes(std::string_view bytes);
/// xxHash64 of a whole file. Errors as read_file.
u64 hash_file(const std::string& path);
/// XXH3, 64 bits, seed 0, of a block in memory. Much faster than a disk.
u64 hash_block(const void* data, Bytes bytes);
/// hash_block of hashes.
u64 hash_of_hashes(const std::vector<u64>& hashes);
/// Which of `count` pieces is number `i` of `taken` that are evenly spread, the first and the last among
/// them. \pre 0 <= i < taken <= count
inline i64 spread_index(i64 i, i64 taken, i64 count)
{
    return taken == 1 ? 0 : i * (count - 1) / (taken - 1);
}
/// 16 hexadecimal digits.
std::string hex(u64 value);

} // namespace trivium
