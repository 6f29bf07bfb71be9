#include "io/files/blocks.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "io/files/damaged.hpp"
#include "io/files/hash.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

namespace {

constexpr Bytes writeback_bytes = Bytes{8} << 20; ///< starts a writeback; it overlaps with our hashing
constexpr Bytes readahead_bytes = Bytes{8} << 20;
constexpr std::size_t max_cached_blocks = 4;

} // namespace

BlockWriter::BlockWriter(PlainFile& file, Bytes begin, Bytes block_bytes)
    : file_(file), offset_(begin), block_bytes_(block_bytes), writeback_end_(begin)
{
}

void BlockWriter::write(const std::byte* data, Bytes bytes)
{
    while (bytes > 0) {
        const auto filled = static_cast<Bytes>(partial_.size());
        const Bytes take = std::min(bytes, block_bytes_ - filled);
        if (take == block_bytes_)
            write_block(data, take);
        else {
            partial_.reserve(static_cast<std::size_t>(block_bytes_));
            partial_.insert(partial_.end(), data, data + take);
            if (filled + take == block_bytes_)
                finish();
        }
        data += take;
        bytes -= take;
    }
}

void BlockWriter::finish()
{
    if (!partial_.empty())
        write_block(partial_.data(), static_cast<Bytes>(partial_.size()));
    partial_.clear();
}

void BlockWriter::write_block(const std::byte* block, Bytes bytes)
{
    hashes_.push_back(hash_block(block, bytes));
    file_.write(offset_, block, bytes);
    Activity::of_process().advance();
    offset_ += bytes;
    if (offset_ - writeback_end_ >= writeback_bytes) {
        file_.begin_writeback(writeback_end_, offset_ - writeback_end_);
        writeback_end_ = offset_;
    }
}

BlockReader::BlockReader(PlainFile file, Bytes begin, Bytes bytes, std::vector<u64> hashes, Bytes block_bytes)
    : file_(std::move(file)), begin_(begin), bytes_(bytes), block_bytes_(block_bytes),
      hashes_(std::move(hashes))
{
    TRV_CHECK(hashes_.empty() || static_cast<i64>(hashes_.size()) == ceil_div(bytes, block_bytes),
              file_.path(), " has ", hashes_.size(), " hashes");
}

Bytes BlockReader::size_of_block(i64 block) const
{
    return std::min(block_bytes_, bytes_ - block * block_bytes_);
}

void BlockReader::check(i64 block, const std::byte* data) const
{
    Activity::of_process().advance();
    if (!hashes_.empty() &&
        hash_block(data, size_of_block(block)) != hashes_[static_cast<std::size_t>(block)])
        throw DamagedCheckpoint(file_.path(),
                                str("bytes ", begin_ + block * block_bytes_, " to ",
                                    begin_ + block * block_bytes_ + size_of_block(block) - 1,
                                    " are not the ones that were written (their hash differs)"));
}

const std::vector<std::byte>& BlockReader::cached_block(i64 block)
{
    if (const auto known = cache_.find(block); known != cache_.end())
        return known->second;
    std::vector<std::byte> content;
    if (order_.size() == max_cached_blocks) {
        const auto oldest = cache_.find(order_.front());
        content = std::move(oldest->second);
        cache_.erase(oldest);
        order_.erase(order_.begin());
    }
    content.resize(static_cast<std::size_t>(size_of_block(block)));
    file_.read(begin_ + block * block_bytes_, content.data(), size_of_block(block));
    check(block, content.data());
    order_.push_back(block);
    return cache_[block] = std::move(content);
}

void BlockReader::read(Bytes offset, void* data, Bytes bytes)
{
    TRV_CHECK(offset >= 0 && bytes >= 0 && bytes <= bytes_ && offset <= bytes_ - bytes, file_.path(), ": ",
              offset, " + ", bytes, " of ", bytes_);
    for (auto* to = static_cast<std::byte*>(data); bytes > 0;) {
        const i64 block = offset / block_bytes_;
        const Bytes from = offset % block_bytes_, take = std::min(bytes, size_of_block(block) - from);
        if (offset + bytes > prefetched_ || offset + readahead_bytes < prefetched_) {
            prefetched_ = offset + readahead_bytes;
            file_.will_read(begin_ + offset, std::min(readahead_bytes, bytes_ - offset));
        }
        if (take == size_of_block(block)) { // no copy through the cache
            file_.read(begin_ + offset, to, take);
            check(block, to);
        } else
            std::memcpy(to, cached_block(block).data() + from, static_cast<std::size_t>(take));
        to += take;
        offset += take;
        bytes -= take;
    }
}

void BlockReader::verify(i64 part, i64 parts)
{
    std::vector<std::byte> content(static_cast<std::size_t>(std::min(block_bytes_, bytes_)));
    for (i64 block = part; block * block_bytes_ < bytes_; block += parts) {
        file_.read(begin_ + block * block_bytes_, content.data(), size_of_block(block));
        check(block, content.data());
    }
}

} // namespace trivium
