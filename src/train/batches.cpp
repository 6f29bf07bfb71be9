#include "train/batches.hpp"

#include "base/check.hpp"

#include <algorithm>

namespace trivium {

Batches::Batches(TokenStore store, i64 seq, std::optional<u64> seed)
    : store_(std::move(store)), seq_(seq), samples_(window_count(store_.size(), seq))
{
    TRV_EXPECT(samples_ > 0, store_.path(), " contains no sample");
    if (seed)
        order_.emplace(samples_, *seed);
}

Batch Batches::at(i64 first, i64 end) const
{
    return [this, first, end](BatchInput input, i64 sequence, std::span<std::int32_t> row) {
        const i64 sample = first + sequence, shift = input == BatchInput::targets ? 1 : 0;
        if (sample >= end)
            std::fill(row.begin(), row.end(), input == BatchInput::targets ? -1 : 0);
        else
            store_.read((order_ ? order_->at(sample) : sample) * seq_ + shift, seq_, row.data());
    };
}

} // namespace trivium
