#include "io/seal.hpp"

#include "base/check.hpp"
#include "io/files.hpp"
#include "io/hash.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <vector>

namespace trivium {

namespace {

struct Seal {
    i64 version = 0;
    Bytes bytes = 0, skip_begin = 0, skip_bytes = 0;
    unsigned long long hash = 0;
};

/// The whole block: reading is comparing with what would be written, so that no flipped bit goes unseen.
std::string print_seal(std::string_view kind, const Seal& seal)
{
    std::string text = str(kind, "\nversion ", seal.version, "\nbytes ", seal.bytes, "\nskip ", seal.skip_begin, " ", seal.skip_bytes,
                           "\nxxh64 ", hex(seal.hash), "\n");
    text += str("seal ", hex(hash_bytes(text)), "\n");
    text.resize(static_cast<std::size_t>(seal_bytes), '\0');
    return text;
}

/// Adds bytes [begin, end) of the file.
void add_range(Hash64& hash, std::ifstream& file, const std::string& path, Bytes begin, Bytes end)
{
    std::vector<char> block(std::size_t{1} << 20);
    file.seekg(begin);
    while (begin < end) {
        const Bytes size = std::min(end - begin, static_cast<Bytes>(block.size()));
        if (!file.read(block.data(), size))
            throw IoError({path, "cannot be read", "", "check the disk; restore the file from a copy"});
        hash.add(block.data(), size);
        begin += size;
    }
}

u64 hash_sealed(const std::string& path, const Seal& seal)
{
    std::ifstream file(path, std::ios::binary);
    Hash64 hash;
    add_range(hash, file, path, seal_bytes, seal.skip_begin);
    add_range(hash, file, path, seal.skip_begin + seal.skip_bytes, seal.bytes);
    return hash.digest();
}

} // namespace

void seal_file(const std::string& path, std::string_view kind, i64 version, Bytes skip_begin, Bytes skip_bytes)
{
    Seal seal{version, file_size(path), skip_begin, skip_bytes, 0};
    seal.hash = hash_sealed(path, seal);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const std::string block = print_seal(kind, seal);
    if (!file.write(block.data(), seal_bytes) || !file.flush())
        throw_errno(path, "write");
}

void check_seal(const std::string& path, std::string_view kind, i64 version, const std::string& remedy)
{
    const Bytes bytes = file_size(path, kind);
    std::string block(static_cast<std::size_t>(std::min(bytes, seal_bytes)), '\0');
    std::ifstream file(path, std::ios::binary);
    if (!file.read(block.data(), static_cast<std::streamsize>(block.size())))
        throw IoError({path, "cannot be read", "", "check the disk; restore the file from a copy"});
    if (!block.starts_with(str(kind, "\n")))
        throw UserError({path, bytes == 0 ? "is empty" : str("is no ", kind), "", remedy});
    if (bytes < seal_bytes)
        throw UserError({path, "is truncated", str("it has ", bytes, " bytes"), remedy});

    const char* const numbers = block.data() + kind.size() + 1; // it ends in zeros, or is refused below
    block.back() = '\0';
    long long found_version = 0, found_bytes = 0, begin = 0, size = 0;
    Seal seal;
    const int fields = std::sscanf(numbers, "version %lld\nbytes %lld\nskip %lld %lld\nxxh64 %16llx", &found_version, &found_bytes, &begin, &size, &seal.hash);
    seal = {found_version, found_bytes, begin, size, seal.hash};
    file.seekg(0);
    std::string again(block.size(), '\0');
    file.read(again.data(), seal_bytes);
    if (fields != 5 || again != print_seal(kind, seal))
        throw UserError({path, str("is a damaged ", kind), "its first 512 bytes are not the ones that were written", remedy});
    if (seal.version != version)
        throw UserError({path, str("is a ", kind, " of version ", seal.version), str("this program reads version ", version), remedy});
    if (seal.bytes != bytes)
        throw UserError({path, bytes < seal.bytes ? "is truncated" : "has grown", str("it has ", bytes, " bytes, ", seal.bytes, " were written"), remedy});
    if (seal.skip_begin < seal_bytes || seal.skip_bytes < 0 || seal.skip_begin > bytes - seal.skip_bytes || hash_sealed(path, seal) != seal.hash)
        throw UserError({path, str("is a damaged ", kind), "its bytes are not the ones that were written", remedy});
}

} // namespace trivium
