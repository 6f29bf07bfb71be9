#include "runtime/samples.hpp"

#include "base/check.hpp"

namespace trivium {

SampleArray sample_numbers(i64 first)
{
    return {{DType::i32, {2}}, [first](i64 sample, const Box& box, void* to) {
                for (i64 i = 0; i < box.shape[0]; ++i)
                    static_cast<std::int32_t*>(to)[i] =
                        static_cast<std::int32_t>((first + sample) >> (32 * (box.offset[0] + i)));
            }};
}

void fill_input(const Graph& graph, const Value& input, const Batch& batch, i64 microbatch, void* to)
{
    const Shape& whole = whole_shape(input);
    TRV_CHECK(!whole.empty(), input.name, " has no dimension for samples");
    const TensorType type{input.type.dtype, {whole.begin() + 1, whole.end()}};
    const auto array = batch.arrays.find(input.name);
    if (array == batch.arrays.end() || array->second.type != type) {
        std::string known;
        for (const auto& [name, other] : batch.arrays)
            known += str(known.empty() ? "" : ", ", "'", name, "' (", other.type, ")");
        throw UserError({"the data", str("have no array '", input.name, "' of ", type, " per sample"),
                         "the model reads it; the arrays are " + (known.empty() ? "none" : known),
                         "use data that have it"});
    }
    const Box box = box_of(graph, input);
    const Box part{{box.offset.begin() + 1, box.offset.end()}, {box.shape.begin() + 1, box.shape.end()}};
    const Bytes row_bytes = element_count(part.shape) * size_of(type.dtype);
    const i64 first = batch.first + microbatch * whole[0] + box.offset[0];
    for (i64 row = 0; row < box.shape[0]; ++row)
        array->second.read(first + row, part, static_cast<std::byte*>(to) + row * row_bytes);
}

} // namespace trivium
