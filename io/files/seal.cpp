#include "io/files/seal.hpp"

#include "base/check.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "io/files/plain_file.hpp"

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

/// The whole block. The reader compares it with what would be written, so it detects every flipped bit.
std::string print_seal(std::string_view kind, const Seal& seal)
{
    std::string text = str(kind, "\nversion ", seal.version, "\nbytes ", seal.bytes, "\nskip ",
                           seal.skip_begin, " ", seal.skip_bytes, "\nxxh64 ", hex(seal.hash), "\n");
    text += str("seal ", hex(hash_bytes(text)), "\n");
    text.resize(static_cast<std::size_t>(seal_bytes), '\0');
    return text;
}

/// Adds bytes [begin, end) of the file.
void add_range(Hash64& hash, const PlainFile& file, Bytes begin, Bytes end)
{
    std::vector<char> block(std::size_t{1} << 20);
    while (begin < end) {
        const Bytes size = std::min(end - begin, static_cast<Bytes>(block.size()));
        file.read(begin, block.data(), size);
        hash.add(block.data(), size);
        begin += size;
    }
}

u64 hash_sealed(const PlainFile& file, const Seal& seal)
{
    Hash64 hash;
    add_range(hash, file, seal_bytes, seal.skip_begin);
    add_range(hash, file, seal.skip_begin + seal.skip_bytes, seal.bytes);
    return hash.digest();
}

} // namespace

void seal_file(const std::string& path, std::string_view kind, i64 version, Bytes skip_begin,
               Bytes skip_bytes)
{
    const PlainFile written = PlainFile::open(path, kind, PlainFile::Links::follow);
    Seal seal{version, written.size(), skip_begin, skip_bytes, 0};
    seal.hash = hash_sealed(written, seal);
    std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
    const std::string block = print_seal(kind, seal);
    if (!file.write(block.data(), seal_bytes) || !file.flush())
        throw_errno(path, "write");
}

i64 check_seal(const std::string& path, const Sealed& expected)
{
    const auto& [kind, version, remedy, update, oldest] = expected;
    file_size(path, kind); // reports a path that is not a file
    const PlainFile file = PlainFile::open(path, kind, PlainFile::Links::follow);
    const Bytes bytes = file.size();
    if (bytes == 0)
        throw UserError({path, "is empty", "", remedy});
    std::string block(static_cast<std::size_t>(std::min(bytes, seal_bytes)), '\0');
    file.read(0, block.data(), static_cast<Bytes>(block.size()));
    if (!block.starts_with(str(kind, "\n")))
        throw UserError({path, str("is not a ", kind),
                         block.starts_with("\x89HDF") ? "it is another HDF5 file" : "", remedy});
    if (bytes < seal_bytes)
        throw UserError({path, "is truncated", str("it has ", bytes, " bytes"), remedy});

    const std::string numbers = block.substr(kind.size() + 1);
    long long found_version = 0, found_bytes = 0, begin = 0, size = 0;
    Seal seal;
    const int fields = std::sscanf(numbers.c_str(), "version %lld\nbytes %lld\nskip %lld %lld\nxxh64 %16llx",
                                   &found_version, &found_bytes, &begin, &size, &seal.hash);
    seal = {found_version, found_bytes, begin, size, seal.hash};
    if (fields != 5 || block != print_seal(kind, seal))
        throw UserError({path, str("is a damaged ", kind),
                         "its first 512 bytes are not the ones that were written", remedy});
    if (seal.version < oldest || seal.version > version)
        throw UserError({path, str("is a ", kind, " of version ", seal.version),
                         str("this program reads version",
                             oldest == version ? str(" ", version) : str("s ", oldest, " to ", version)),
                         seal.version < version ? update : "use the program that wrote it, or a later one"});
    if (seal.bytes != bytes)
        throw UserError({path, bytes < seal.bytes ? "is truncated" : "has grown",
                         str("it has ", bytes, " bytes, ", seal.bytes, " were written"), remedy});
    if (seal.skip_begin < seal_bytes || seal.skip_bytes < 0 || seal.skip_begin > bytes - seal.skip_bytes ||
        hash_sealed(file, seal) != seal.hash)
        throw UserError(
            {path, str("is a damaged ", kind), "its bytes are not the ones that were written", remedy});
    return seal.version;
}

i64 version_in_seal(const std::string& path, std::string_view kind)
{
    std::string block(static_cast<std::size_t>(seal_bytes), '\0');
    std::ifstream file(path, std::ios::binary);
    long long version = 0;
    if (!file.read(block.data(), seal_bytes) || !block.starts_with(str(kind, "\n")) ||
        std::sscanf(block.c_str() + kind.size() + 1, "version %lld\n", &version) != 1)
        return 0;
    return version;
}

} // namespace trivium
