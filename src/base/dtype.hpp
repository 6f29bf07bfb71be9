#pragma once
// Element types: one list for graphs, kernels, communicators and files.
#include "base/bf16.hpp"
#include "base/check.hpp"
#include "base/units.hpp"

#include <optional>
#include <string_view>
#include <type_traits>

namespace trivium {

/// Tensors of a graph have one of the first four types; files have the others, too.
enum class DType : std::uint8_t { f64, f32, bf16, i32, u8, u16, u32, i64, u64, i8, i16, f16 };

/// 8-bit formats to which the operands of a product may be rounded. e4m3 has 4 exponent bits and is finite to
/// 448; e5m2 has 5 and is finite to 57344. Rounding saturates, so infinities do not occur.
enum class Fp8 : std::uint8_t { none, e4m3, e5m2 };

struct DTypeInfo {
    DType type;
    const char* name;
    Bytes size;
};
inline constexpr DTypeInfo dtypes[] = {
    {DType::f64, "f64", 8}, {DType::f32, "f32", 4}, {DType::bf16, "bf16", 2}, {DType::i32, "i32", 4},
    {DType::u8, "u8", 1},   {DType::u16, "u16", 2}, {DType::u32, "u32", 4},   {DType::i64, "i64", 8},
    {DType::u64, "u64", 8}, {DType::i8, "i8", 1},   {DType::i16, "i16", 2},   {DType::f16, "f16", 2},
};

constexpr Bytes size_of(DType type) { return dtypes[static_cast<int>(type)].size; }
constexpr const char* name_of(DType type) { return dtypes[static_cast<int>(type)].name; }
/// Whether a graph may have tensors of `type`.
constexpr bool is_tensor_type(DType type) { return type <= DType::i32; }
/// Whether `type` is a floating-point type.
constexpr bool is_floating(DType type) { return type <= DType::bf16 || type == DType::f16; }
/// The type in which sums over values of `type` are kept: f32 for bf16, otherwise `type`.
constexpr DType accumulator_of(DType type) { return type == DType::bf16 ? DType::f32 : type; }

/// The tensor type called `name`; nullopt for any other name.
constexpr std::optional<DType> tensor_type_named(std::string_view name)
{
    for (const DTypeInfo& row : dtypes)
        if (is_tensor_type(row.type) && name == row.name)
            return row.type;
    return {};
}

/// The element type of a C++ type. \pre T is double, float, bf16 or std::int32_t (not checked)
template <class T>
inline constexpr DType dtype_of = T::has_no_element_type;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<std::int32_t> = DType::i32;

/// accumulator_of() for C++ types: the type of arithmetic on T.
template <class T>
using Acc = std::conditional_t<std::is_same_v<T, bf16>, float, T>;

/// Calls `f` with a value of the C++ type that stands for `type`: f(double{}), f(float{}) or f(bf16{}).
/// Throws InternalError for any other type.
template <class F>
auto with_type(DType type, F&& f)
{
    TRV_CHECK(type <= DType::bf16, "no kernel computes with ", name_of(type));
    switch (type) {
    case DType::f64: return f(double{});
    case DType::f32: return f(float{});
    default: return f(bf16{});
    }
}

/// with_type() for every tensor type: also f(std::int32_t{}) for i32.
template <class F>
auto with_tensor_type(DType type, F&& f)
{
    return type == DType::i32 ? f(std::int32_t{}) : with_type(type, f);
}

} // namespace trivium
