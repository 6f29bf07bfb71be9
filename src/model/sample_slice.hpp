#pragma once
// What a report shows of a sample.
#include "ir/type.hpp"

#include <vector>

namespace trivium {

/// The elements start[d] + i * stride[d] of each dimension d, i < shape[d].
struct SampleSlice {
    std::vector<i64> start, stride;
    Shape shape;

    Shape extent() const; ///< from the first to the last element, without strides
};

/// The slice of a tensor of shape `sample` that is shown: its last two dimensions as a picture. Of the others
/// index 0 of the first dimension (channels) and the middle index of the rest. If the last but one has extent
/// 1, the last one is a curve. Long dimensions are thinned: at most 128 rows and columns, or 512 points. \pre
/// at least one dimension
SampleSlice slice_of_sample(const Shape& sample);

/// Of a slice's shape: [rows, columns] of a picture, [points] of a curve.
Shape picture_shape(const Shape& slice);

} // namespace trivium
