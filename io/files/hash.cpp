#include "io/files/hash.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"

#include <cstdio>
#include <fstream>
#include <vector>
#include <xxhash.h>

namespace trivium {

namespace {

XXH64_state_t* state_of(void* state) { return static_cast<XXH64_state_t*>(state); }

} // namespace

Hash64::Hash64() : state_(XXH64_createState())
{
    TRV_CHECK(state_ != nullptr, "xxHash has no memory");
    XXH64_reset(state_of(state_), 0);
}

Hash64::~Hash64() { XXH64_freeState(state_of(state_)); }

void Hash64::add(const void* data, Bytes bytes)
{
    XXH64_update(state_of(state_), data, static_cast<std::size_t>(bytes));
}

u64 Hash64::digest() const { return XXH64_digest(state_of(state_)); }

u64 hash_bytes(std::string_view bytes) { return XXH64(bytes.data(), bytes.size(), 0); }

u64 hash_file(const std::string& path)
{
    file_size(path); // reports a path that is not a file
    std::ifstream file(path, std::ios::binary);
    Hash64 hash;
    std::vector<char> block(std::size_t{4} << 20);
    while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0)
        hash.add(block.data(), file.gcount());
    if (!file.eof())
        throw IoError({path, "cannot be read", "", "check the disk; restore the file from a copy"});
    return hash.digest();
}

u64 hash_block(const void* data, Bytes bytes) { return XXH3_64bits(data, static_cast<std::size_t>(bytes)); }

u64 hash_of_hashes(const std::vector<u64>& hashes)
{
    return hash_block(hashes.data(), static_cast<Bytes>(hashes.size() * sizeof(u64)));
}

std::string hex(u64 value)
{
    char digits[17];
    std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(value));
    return digits;
}

} // namespace trivium
