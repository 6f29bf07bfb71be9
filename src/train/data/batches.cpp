#include "train/data/batches.hpp"

#include "base/check.hpp"
#include "ir/names.hpp"

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
    const auto window = [this, end](i64 shift, std::int32_t padding) {
        const auto read = [=, this](i64 sample, const Box& box, void* to) {
            auto* ids = static_cast<std::int32_t*>(to);
            const i64 begin = box.offset[0] + shift, count = box.shape[0];
            if (sample >= end)
                std::fill_n(ids, count, padding);
            else
                store_.read((order_ ? order_->at(sample) : sample) * seq_ + begin, count, ids);
        };
        return SampleArray{{DType::i32, {seq_}}, read};
    };
    return {{{value_name::tokens, window(0, 0)},
             {value_name::targets, window(1, -1)},
             {value_name::positions, position_array(seq_)},
             {value_name::samples, sample_numbers()}},
            first};
}

} // namespace trivium
