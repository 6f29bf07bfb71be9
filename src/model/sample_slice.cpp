#include "model/sample_slice.hpp"

#include "base/check.hpp"

namespace trivium {

namespace {

bool is_curve(const Shape& shape) { return shape.size() == 1 || shape[shape.size() - 2] == 1; }

} // namespace

Shape SampleSlice::extent() const
{
    Shape all = shape;
    for (std::size_t d = 0; d < all.size(); ++d)
        all[d] = (shape[d] - 1) * stride[d] + 1;
    return all;
}

SampleSlice slice_of_sample(const Shape& sample)
{
    const std::size_t dims = sample.size();
    TRV_CHECK(dims > 0, "a sample has one number");
    const i64 most = is_curve(sample) ? 512 : 128;
    SampleSlice slice;
    for (std::size_t d = 0; d < dims; ++d) {
        const bool whole = d + 2 >= dims;
        const i64 step = whole ? ceil_div(sample[d], most) : 1;
        slice.start.push_back(whole || d == 0 ? 0 : sample[d] / 2);
        slice.stride.push_back(step);
        slice.shape.push_back(whole ? ceil_div(sample[d], step) : 1);
    }
    return slice;
}

Shape picture_shape(const Shape& slice) { return {slice.end() - (is_curve(slice) ? 1 : 2), slice.end()}; }

} // namespace trivium
