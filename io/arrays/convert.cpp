#include "io/arrays/convert.hpp"

#include "base/f16.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace trivium {

namespace {

/// Calls `f` with a value of the C++ type of numbers in files.
template <class F>
auto with_stored_type(DType type, F&& f)
{
    switch (type) {
    case DType::f64: return f(double{});
    case DType::f32: return f(float{});
    case DType::bf16: return f(bf16{});
    case DType::f16: return f(f16{});
    case DType::u8: return f(std::uint8_t{});
    case DType::i8: return f(std::int8_t{});
    case DType::u16: return f(std::uint16_t{});
    case DType::i16: return f(std::int16_t{});
    case DType::u32: return f(std::uint32_t{});
    case DType::i32: return f(std::int32_t{});
    case DType::u64: return f(u64{});
    case DType::i64: break;
    }
    return f(i64{});
}

template <class T>
inline constexpr bool is_half = std::is_same_v<T, bf16> || std::is_same_v<T, f16>;

/// A number as one of T, through the type in which that is one rounding for what fits f32.
template <class T, class S>
T rounded(S number)
{
    if constexpr (is_half<S>)
        return rounded<T>(static_cast<float>(number));
    else if constexpr (is_half<T>)
        return T(static_cast<float>(number));
    else
        return static_cast<T>(number);
}

template <class S, class T>
i64 convert_as(const Conversion& c, const S* from, i64 count, T* to)
{
    if constexpr (std::is_same_v<T, std::int32_t>) {
        if constexpr (std::is_integral_v<S>) {
            for (i64 i = 0; i < count; ++i) {
                if (!std::in_range<std::int32_t>(from[i]))
                    return i;
                to[i] = static_cast<std::int32_t>(from[i]);
            }
            return count;
        } else {
            throw InternalError(__FILE__, __LINE__, "floating-point numbers to i32");
        }
    } else {
        if (c.scales())
            for (i64 i = 0; i < count; ++i)
                to[i] = rounded<T>(rounded<double>(from[i]) * c.scale + c.offset);
        else
            for (i64 i = 0; i < count; ++i)
                to[i] = rounded<T>(from[i]);
        return first_not_finite(dtype_of<T>, to, count);
    }
}

/// Of numbers that are not finite exactly if all bits of `exponent` are set.
template <class Word>
i64 first_with(Word exponent, const void* numbers, i64 count)
{
    constexpr i64 block = 64; // constant, so that the compiler uses vectors
    const auto* bytes = static_cast<const unsigned char*>(numbers);
    const auto is_bad = [&](i64 i) {
        Word word;
        std::memcpy(&word, bytes + static_cast<std::size_t>(i) * sizeof word, sizeof word);
        return static_cast<Word>((word & exponent) == exponent);
    };
    i64 begin = 0;
    for (; begin + block <= count; begin += block) {
        Word bad = 0;
        for (i64 i = 0; i < block; ++i)
            bad = static_cast<Word>(bad | is_bad(begin + i));
        if (bad != 0)
            break;
    }
    for (; begin < count; ++begin)
        if (is_bad(begin) != 0)
            return begin;
    return count;
}

} // namespace

i64 convert(const Conversion& c, const void* from, i64 count, void* to)
{
    if (c.copies()) {
        std::memcpy(to, from, static_cast<std::size_t>(count * size_of(c.to)));
        return first_not_finite(c.to, to, count);
    }
    return with_stored_type(c.from, [&](auto s) {
        return with_tensor_type(c.to, [&](auto t) {
            return convert_as(c, static_cast<const decltype(s)*>(from), count, static_cast<decltype(t)*>(to));
        });
    });
}

i64 first_not_finite(DType type, const void* numbers, i64 count)
{
    switch (type) {
    case DType::f64: return first_with(u64{0x7ff} << 52, numbers, count);
    case DType::f32: return first_with(std::uint32_t{0x7f800000}, numbers, count);
    case DType::bf16: return first_with(std::uint16_t{0x7f80}, numbers, count);
    case DType::f16: return first_with(std::uint16_t{0x7c00}, numbers, count);
    default: return count;
    }
}

double number_at(DType type, const void* numbers, i64 index)
{
    return with_stored_type(type, [&](auto s) {
        using Stored = decltype(s);
        std::memcpy(&s, static_cast<const unsigned char*>(numbers) + index * i64{sizeof(Stored)}, sizeof s);
        return rounded<double>(s);
    });
}

} // namespace trivium
