#include "io/hugging_face/mxfp4.hpp"

#include "base/check.hpp"
#include "io/checkpoint/box.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace trivium {

namespace {

constexpr i64 block = 32;                  ///< numbers with one exponent
constexpr int bias = 127, no_number = 255; ///< of exponents

/// E2M1: a sign, two bits of exponent, one of mantissa.
constexpr std::array<float, 16> e2m1{0, 0.5F, 1, 1.5F, 2, 3, 4, 6, -0.F, -0.5F, -1, -1.5F, -2, -3, -4, -6};

float factor_of(std::byte exponent)
{
    const int e = std::to_integer<int>(exponent);
    return e == no_number ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.F, e - bias);
}

/// Matrices [in, out] of all experts; `theirs`: outputs of the stored tensor, of which those of a part are
/// each `every`-th one from `part`.
struct Mxfp4Source {
    const SafetensorsReader* from;
    const SafetensorsEntry *blocks, *scales;
    i64 in, out, theirs, every, part;
    i64 expert = -1; ///< whose values are in `values`
    std::vector<float> values{};

    void decode(i64 which)
    {
        const i64 groups = in / block, rows = theirs * groups;
        std::vector<std::byte> packed(static_cast<std::size_t>(rows * block / 2)),
            exponents(static_cast<std::size_t>(rows));
        from->read(*blocks, which * rows * block / 2, std::span(packed));
        from->read(*scales, which * rows, std::span(exponents));
        values.resize(static_cast<std::size_t>(in * out));
        for (i64 o = 0; o < out; ++o)
            for (i64 g = 0; g < groups; ++g) {
                const auto row = static_cast<std::size_t>((o * every + part) * groups + g);
                const float factor = factor_of(exponents[row]);
                for (i64 i = 0; i < block; ++i) {
                    const int pair =
                        std::to_integer<int>(packed[row * block / 2 + static_cast<std::size_t>(i / 2)]);
                    values[static_cast<std::size_t>((g * block + i) * out + o)] =
                        e2m1[static_cast<std::size_t>(i % 2 == 0 ? pair & 15 : pair >> 4)] * factor;
                }
            }
        expert = which;
    }

    void operator()(i64 first, std::span<float> to)
    {
        while (!to.empty()) {
            if (first / (in * out) != expert)
                decode(first / (in * out));
            const i64 within = first % (in * out),
                      count = std::min(in * out - within, static_cast<i64>(to.size()));
            std::copy_n(values.begin() + within, count, to.begin());
            to = to.subspan(static_cast<std::size_t>(count));
            first += count;
        }
    }
};

} // namespace

bool has_mxfp4(const HuggingFaceTensor& tensor, const SafetensorsReader& files, const std::string& place)
{
    const Mxfp4Names names(tensor.name);
    const SafetensorsEntry *blocks = files.find(names.blocks), *scales = files.find(names.scales);
    if (!blocks || !scales || tensor.shape.size() != 3)
        return false;
    const i64 in = tensor.shape[1];
    const Shape groups{tensor.shape[0], tensor.shape[2], in / block};
    Shape bytes = groups;
    bytes.push_back(block / 2);
    const auto require = [&](const SafetensorsEntry& entry, const Shape& shape) {
        if (entry.type != "U8" || entry.shape != shape || in % block != 0)
            throw UserError(
                {place,
                 str("tensor ", entry.name, " has the shape ", print_shape(entry.shape), " and the type ",
                     entry.type),
                 str("according to config.json it has the shape ", print_shape(shape), " and the type U8"),
                 "get the folder again from where it came from, config.json with its tensors"});
    };
    require(*blocks, bytes);
    require(*scales, groups);
    return true;
}

ValueSource mxfp4_values(const HuggingFaceTensor& tensor, std::size_t part, const SafetensorsReader& from)
{
    const Mxfp4Names names(tensor.name);
    return Mxfp4Source{.from = &from,
                       .blocks = from.find(names.blocks),
                       .scales = from.find(names.scales),
                       .in = tensor.shape[1],
                       .out = tensor.ours[part].columns,
                       .theirs = tensor.shape[2],
                       .every = static_cast<i64>(tensor.ours.size()),
                       .part = static_cast<i64>(part)};
}

} // namespace trivium
