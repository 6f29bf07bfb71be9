#pragma once
// A stretch of a file in blocks of a fixed size, the last one shorter, each with its hash: so a part can be
// read and verified without the rest. The hashes are made in the pass that writes.
#include "io/files/plain_file.hpp"

#include <map>
#include <memory>
#include <vector>

namespace trivium {

inline constexpr Bytes default_block_bytes = Bytes{1} << 20;

/// Writes a stretch front to back.
class BlockWriter {
public:
    /// From `begin` of `file` on, which outlives it. Disks do not like blocks of less than 64 KiB.
    BlockWriter(PlainFile& file, Bytes begin, Bytes block_bytes = default_block_bytes);
    /// Where the bytes lie in memory: whole blocks go to the file without a copy. IoError.
    void write(const std::byte* data, Bytes bytes);
    /// The rest. IoError.
    void finish();
    /// XXH3 of each block.
    const std::vector<u64>& hashes() const { return hashes_; }

private:
    void put(const std::byte* block, Bytes bytes);

    PlainFile& file_;
    Bytes at_, block_bytes_, written_back_;
    std::vector<std::byte> begun_; ///< a block that is not full
    std::vector<u64> hashes_;
};

/// Reads any part of a stretch; what it gives is what was written.
class BlockReader {
public:
    /// `bytes` of `file` from `begin` on. No hashes: read without verification (what is verified as a whole
    /// file).
    BlockReader(PlainFile file, Bytes begin, Bytes bytes, std::vector<u64> hashes,
                Bytes block_bytes = default_block_bytes);

    Bytes bytes() const { return bytes_; }
    /// [offset, offset + bytes) of the stretch. Holds a few blocks besides. IoError where reading fails,
    /// DamagedCheckpoint where a block is not the one that was written. \pre it is inside
    void read(Bytes offset, void* data, Bytes bytes);
    /// Every `parts`th block from `part` on is as it was written. Errors as read().
    void verify(i64 part, i64 parts);

private:
    Bytes size_of_block(i64 block) const;
    void check(i64 block, const std::byte* data) const;
    /// A whole block, read and checked.
    const std::vector<std::byte>& kept(i64 block);

    PlainFile file_;
    Bytes begin_, bytes_, block_bytes_;
    std::vector<u64> hashes_;
    std::map<i64, std::vector<std::byte>> kept_;
    std::vector<i64> order_; ///< of kept_, the oldest first
    Bytes announced_ = 0;    ///< what the system was told of
};

} // namespace trivium
