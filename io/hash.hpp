#pragma once
// xxHash64: tells whether bytes are the ones that were written. Not a defence against malice.
#include "base/units.hpp"

#include <string>
#include <string_view>

namespace trivium {

/// A hash over bytes that come in pieces.
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

u64 hash_bytes(std::string_view bytes);
/// Hash of a whole file. Errors as read_file.
u64 hash_file(const std::string& path);
/// 16 hexadecimal digits.
std::string hex(u64 value);

} // namespace trivium
