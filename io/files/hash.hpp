#pragma once
// Hashes that tell whether bytes are the ones that were written. Not a defence against malice.
#include "base/units.hpp"

#include <string>
#include <string_view>

namespace trivium {

/// xxHash64 over bytes that come in pieces.
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
/// XXH3, 64 bits, seed 0: of blocks in memory, faster than the disk by far.
u64 hash_block(const void* data, Bytes bytes);
/// 16 hexadecimal digits.
std::string hex(u64 value);

} // namespace trivium
