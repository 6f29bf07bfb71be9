#pragma once
// A byte range of a file, divided into blocks of a fixed size (the last one may be shorter). Each block has a
// hash, so any bytes can be read and verified without the rest. Writing and hashing take one pass.
#include "io/files/plain_file.hpp"

#include <map>
#include <vector>

namespace trivium {

inline constexpr Bytes default_block_bytes = Bytes{1} << 20;

/// Writes a byte range front to back.
class BlockWriter {
public:
    /// Starts at byte `begin` of `file`, which must outlive the writer. Blocks below 64 KiB are slow.
    BlockWriter(PlainFile& file, Bytes begin, Bytes block_bytes = default_block_bytes);
    /// Appends bytes. Whole blocks go to the file without a copy. IoError.
    void write(const std::byte* data, Bytes bytes);
    /// Writes the last, partial block. Does not sync the file. IoError.
    void finish();
    /// XXH3 of each block written so far.
    const std::vector<u64>& hashes() const { return hashes_; }

private:
    void write_block(const std::byte* block, Bytes bytes);

    PlainFile& file_;
    Bytes offset_, block_bytes_, writeback_end_;
    std::vector<std::byte> partial_; ///< the block that is not full yet
    std::vector<u64> hashes_;
};

/// Reads bytes of a range and verifies the blocks that contain them. Not thread-safe.
class BlockReader {
public:
    /// The range is [begin, begin + bytes) of `file`. `hashes`: one per block. If it is empty, nothing is
    /// verified (for files that are verified as a whole).
    BlockReader(PlainFile file, Bytes begin, Bytes bytes, std::vector<u64> hashes,
                Bytes block_bytes = default_block_bytes);

    Bytes bytes() const { return bytes_; }
    /// Reads [offset, offset + bytes) of the range; caches a few blocks. IoError if reading fails,
    /// DamagedCheckpoint if a block differs from what was written. \pre the bytes are inside the range
    void read(Bytes offset, void* data, Bytes bytes);
    /// Verifies blocks part, part + parts, part + 2 * parts, … Errors as read().
    void verify(i64 part, i64 parts);

private:
    Bytes size_of_block(i64 block) const;
    void check(i64 block, const std::byte* data) const;
    /// A whole block, verified, through the cache.
    const std::vector<std::byte>& cached_block(i64 block);

    PlainFile file_;
    Bytes begin_, bytes_, block_bytes_;
    std::vector<u64> hashes_;
    std::map<i64, std::vector<std::byte>> cache_;
    std::vector<i64> order_; ///< blocks in the cache, oldest first
    Bytes prefetched_ = 0;   ///< end of the bytes that the system was asked to read ahead
};

} // namespace trivium
