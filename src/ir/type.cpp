#include "ir/type.hpp"

#include "base/check.hpp"

#include <ostream>

namespace trivium {

namespace {

struct DTypeRow {
    std::string_view name;
    Bytes size;
    DType accumulator;
};

constexpr DTypeRow dtype_rows[] = {
    {"f64", 8, DType::f64}, {"f32", 4, DType::f32}, {"bf16", 2, DType::f32}, {"i32", 4, DType::i32}};

const DTypeRow& row(DType type) { return dtype_rows[static_cast<int>(type)]; }

} // namespace

Bytes size_of(DType type) { return row(type).size; }
std::string_view name_of(DType type) { return row(type).name; }
DType accumulator_of(DType type) { return row(type).accumulator; }

DType dtype_of(std::string_view name)
{
    for (int i = 0; i < 4; ++i)
        if (dtype_rows[i].name == name)
            return static_cast<DType>(i);
    throw UserError({"element type", str("does not know '", name, "'"), "", "use f64, f32, bf16 or i32"});
}

i64 element_count(const Shape& shape)
{
    i64 count = 1;
    for (const i64 extent : shape)
        count *= extent;
    return count;
}

std::string to_string(const TensorType& type)
{
    std::string text = std::string(name_of(type.dtype)) + "[";
    for (std::size_t i = 0; i < type.shape.size(); ++i)
        text += (i ? "," : "") + std::to_string(type.shape[i]);
    return text + "]";
}

std::ostream& operator<<(std::ostream& out, const TensorType& type) { return out << to_string(type); }

} // namespace trivium
