#pragma once
// Hashes of an array's numbers, by block.
#include "io/files/hash.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace trivium {

struct BlockHashes {
    Bytes block_bytes = 0;
    std::vector<u64> values; ///< XXH3 of each block; the last one may be shorter

    bool fits(i64 block, const void* data, Bytes bytes) const
    {
        return hash_block(data, bytes) == values[static_cast<std::size_t>(block)];
    }
};

/// Hashes bytes that come front to back.
class BlockHasher {
public:
    explicit BlockHasher(Bytes block_bytes) : block_bytes_(static_cast<std::size_t>(block_bytes)) {}

    void add(const void* data, Bytes bytes)
    {
        const auto* from = static_cast<const std::byte*>(data);
        for (auto left = static_cast<std::size_t>(bytes); left > 0;) {
            const std::size_t take = std::min(left, block_bytes_ - partial_.size());
            if (take == block_bytes_) {
                values_.push_back(hash_block(from, static_cast<Bytes>(take)));
            } else {
                partial_.insert(partial_.end(), from, from + take);
                if (partial_.size() == block_bytes_)
                    finish();
            }
            from += take;
            left -= take;
        }
    }
    /// Hashes the last, partial block. Returns all hashes.
    const std::vector<u64>& finish()
    {
        if (!partial_.empty())
            values_.push_back(hash_block(partial_.data(), static_cast<Bytes>(partial_.size())));
        partial_.clear();
        return values_;
    }

private:
    std::size_t block_bytes_;
    std::vector<std::byte> partial_; ///< the block that is not full yet
    std::vector<u64> values_;
};

} // namespace trivium
