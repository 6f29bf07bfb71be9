#pragma once
// Shared by the tests of attention, on the host, emulated and on a device.
#include "kernels/attention.hpp"
#include "reference.hpp"
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

/// A shape with a window, chunks and a cap.
inline AttentionShape limited(AttentionShape shape, i64 window, i64 chunk = 0, double cap = 0)
{
    shape.window = window;
    shape.chunk = chunk;
    shape.cap = cap;
    return shape;
}

/// A shape whose values have another width than queries and keys.
inline AttentionShape with_values(AttentionShape shape, i64 value_dim)
{
    shape.value_dim = value_dim;
    return shape;
}

/// Queries of all heads.
inline i64 queries(const AttentionShape& shape)
{
    return shape.batch * shape.q_len * shape.kv_heads * shape.q_per_kv;
}

/// Which of the optional inputs a test gives.
struct With {
    bool documents = false, sinks = false;
};

/// Random inputs of attention and of its gradient. `size`: standard deviation of q and k.
template <class T>
struct AttentionInputs {
    AttentionShape shape;
    std::int32_t start;
    Tokens lengths{}; ///< of each sequence, in place of `start`
    std::vector<T> q, k, v, dout;
    Tokens starts{};
    std::vector<Acc<T>> sinks{};

    AttentionInputs(const AttentionShape& of, double size = 1, With with = {}, std::int32_t first = 0)
        : shape(of), start(first), q(random<T>(queries(of) * of.head_dim, "q", size)),
          k(random<T>(of.batch * of.kv_len * of.key_row(), "k", size)),
          v(random<T>(of.batch * of.kv_len * of.value_row(), "v")),
          dout(random<T>(queries(of) * of.width_of_values(), "dout"))
    {
        if (with.documents)
            starts = random_documents(of, first);
        if (with.sinks)
            sinks = random<Acc<T>>(of.kv_heads * of.q_per_kv, "sinks", 2);
    }
    reference::AttentionSizes sizes() const
    {
        return {shape.batch,
                shape.q_len,
                shape.kv_len,
                shape.kv_heads,
                shape.q_per_kv,
                shape.head_dim,
                start,
                shape.scale != 0 ? shape.scale : 1 / std::sqrt(static_cast<double>(shape.head_dim)),
                shape.window,
                shape.chunk,
                shape.cap,
                starts,
                {sinks.begin(), sinks.end()},
                shape.value_dim};
    }
    /// Of each sequence; empty: 0.
    Tokens first_queries() const
    {
        return !lengths.empty() ? lengths
               : start == 0     ? Tokens{}
                                : Tokens(static_cast<std::size_t>(shape.batch), start);
    }
    AttentionExtras<T> extras() const
    {
        return {starts.empty() ? nullptr : starts.data(), sinks.empty() ? nullptr : sinks.data()};
    }
    std::string text() const
    {
        return str("b ", shape.batch, " s ", shape.q_len, " t ", shape.kv_len, " g ", shape.kv_heads, " r ",
                   shape.q_per_kv, " e ", shape.head_dim, " u ", shape.width_of_values(), " scale ",
                   shape.scale, " window ", shape.window, " chunk ", shape.chunk, " cap ", shape.cap,
                   " start ", start, starts.empty() ? "" : ", documents", sinks.empty() ? "" : ", sinks");
    }
};

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
