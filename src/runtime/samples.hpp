#pragma once
// Named arrays of samples: what a data source has, and what the inputs of a graph read from it.
#include "ir/graph.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace trivium {

/// An array of a data source: a tensor per sample.
struct SampleArray {
    TensorType type; ///< of each sample's tensor
    /// Writes the elements in `box` of the tensor of sample `sample` to `to`, row-major and dense.
    std::function<void(i64 sample, const Box& box, void* to)> read;
};

/// Samples that all ranks process together: row r is sample `first` + r.
struct Batch {
    std::map<std::string, SampleArray> arrays; ///< by name; of the whole source
    i64 first = 0;
};

/// `length` integers per sample, of which `at(sample, i)` computes number i.
template <class At>
SampleArray sequence_array(i64 length, At at)
{
    return {{DType::i32, {length}}, [at](i64 sample, const Box& box, void* to) {
                for (i64 i = 0; i < box.shape[0]; ++i)
                    static_cast<std::int32_t*>(to)[i] =
                        static_cast<std::int32_t>(at(sample, box.offset[0] + i));
            }};
}

/// The numbers of the samples as two words each (value_name::samples); sample 0 has the number `first`.
SampleArray sample_numbers(i64 first = 0);

/// Writes the shard of `input` that the rank of `graph` holds, of one microbatch, to `to`. Dimension 0 of an
/// input is the row of the microbatch; the others are those of the batch's array of its name. Any of them may
/// be sharded. Throws UserError if the batch has no such array of that type, and the errors of
/// SampleArray::read.
void fill_input(const Graph& graph, const Value& input, const Batch& batch, i64 microbatch, void* to);

} // namespace trivium
