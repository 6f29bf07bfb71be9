#pragma once
// Shared by the tests of attention, on the host, emulated and on a device.
#include "kernels/attention.hpp"
#include "support.hpp"

#include <algorithm>

namespace trivium::kernels {

/// For each query the first key of its document: documents of 1 to 60 keys.
inline Tokens random_documents(const AttentionShape& shape, i64 start)
{
    const Tokens lengths = random_tokens(shape.batch * shape.kv_len, "documents", 1, 61);
    Tokens starts;
    for (i64 b = 0; b < shape.batch; ++b) {
        std::vector<std::int32_t> first(static_cast<std::size_t>(shape.kv_len));
        for (i64 t = 0, document = 0; t < shape.kv_len; document = t)
            for (std::int32_t n = lengths[static_cast<std::size_t>(b * shape.kv_len + t)];
                 n > 0 && t < shape.kv_len; --n)
                first[static_cast<std::size_t>(t++)] = static_cast<std::int32_t>(document);
        starts.insert(starts.end(), first.begin() + start, first.begin() + start + shape.q_len);
    }
    return starts;
}

/// Gradients of attention are compared relative to at least this size: where queries see one key, dq and dk
/// are 0.
inline constexpr double least_gradient = 0.01;

/// Gradients in bf16: if the gradients of rounded probabilities cancel, single elements may exceed the
/// tolerance of bf16, but the whole tensor does not.
inline void require_close_gradient(const std::vector<bf16>& got, const Doubles& want, const char* what)
{
    require_close(got, want, 2.5 * tolerance<bf16>, what, least_gradient);
    double error = 0, square = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
        error += std::pow(static_cast<double>(static_cast<float>(got[i])) - want[i], 2);
        square += want[i] * want[i];
    }
    square = std::max(square, least_gradient * least_gradient * static_cast<double>(want.size()));
    INFO(what << ": root mean square error " << std::sqrt(error / square));
    REQUIRE(error <= 0.004 * 0.004 * square);
}

} // namespace trivium::kernels
