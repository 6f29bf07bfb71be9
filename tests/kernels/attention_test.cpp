#include "kernels/attention.hpp"

#include "reference.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

reference::AttentionSizes sizes_of(const AttentionShape& shape, i64 start)
{
    return {shape.batch,    shape.q_len,
            shape.kv_len,   shape.kv_heads,
            shape.q_per_kv, shape.head_dim,
            start,          shape.scale != 0 ? shape.scale : 1 / std::sqrt(shape.head_dim)};
}

i64 queries(const AttentionShape& shape)
{
    return shape.batch * shape.q_len * shape.kv_heads * shape.q_per_kv;
}

template <class T>
void check_forward(const AttentionShape& shape, i64 start, double scale = 1)
{
    INFO("s " << shape.q_len << " t " << shape.kv_len << " g " << shape.kv_heads << " r " << shape.q_per_kv
              << " e " << shape.head_dim << " start " << start << " scale " << scale);
    const i64 keys = shape.batch * shape.kv_len * shape.kv_heads * shape.head_dim;
    const auto q = random<T>(queries(shape) * shape.head_dim, "q", scale), k = random<T>(keys, "k", scale);
    auto v = random<T>(keys, "v");
    Doubles want_lse;
    const Doubles want = reference::attention(sizes_of(shape, start), wide(q), wide(k), wide(v), &want_lse);
    const std::int32_t first = static_cast<std::int32_t>(start);
    const auto [o, lse] = stable([&](const Exec& exec) {
        std::vector<T> out(q.size());
        std::vector<Acc<T>> total(static_cast<std::size_t>(queries(shape)));
        const TestScratch scratch(attention_scratch<T>(shape, exec.threads));
        attention(exec, shape, q.data(), k.data(), v.data(), start ? &first : nullptr, out.data(),
                  total.data(), scratch);
        return std::tuple(out, total);
    });
    // Large scores have a relative error of 1e-7, which exp propagates.
    const double room = scale > 2 && sizeof(T) == 4 ? 10 : 1;
    require_close(o, want, room * tolerance<T>, "o");
    require_close(lse, want_lse, tolerance<Acc<T>>, "lse");
}

template <class T>
auto gradients(const Exec& exec, const AttentionShape& shape, const std::vector<T>& q,
               const std::vector<T>& k, const std::vector<T>& v, const std::vector<T>& dout)
{
    std::vector<T> o(q.size()), dq(q.size()), dk(k.size()), dv(k.size());
    std::vector<Acc<T>> lse(static_cast<std::size_t>(queries(shape)));
    const TestScratch scratch(attention_scratch<T>(shape, exec.threads));
    const TestScratch scratch_grad(attention_grad_scratch<T>(shape, exec.threads));
    attention<T>(exec, shape, q.data(), k.data(), v.data(), nullptr, o.data(), lse.data(), scratch);
    attention_grad<T>(
        exec, shape,
        {dout.data(), q.data(), k.data(), v.data(), o.data(), lse.data(), dq.data(), dk.data(), dv.data()},
        scratch_grad);
    return std::tuple(dq, dk, dv);
}

} // namespace

TEMPLATE_TEST_CASE("attention", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>({1, 1, 1, 1, 1, 1}, 0);
    check_forward<TestType>({2, 3, 3, 2, 1, 5}, 0);
    check_forward<TestType>({1, 65, 65, 1, 3, 17}, 0);
    check_forward<TestType>({2, 130, 130, 2, 2, 64}, 0);
    check_forward<TestType>({1, 200, 200, 1, 1, 80}, 0);
    check_forward<TestType>({1, 127, 127, 1, 1, 127}, 0);
    check_forward<TestType>({1, 70, 70, 1, 1, 16, 0.5}, 0);
}

TEMPLATE_TEST_CASE("attention of columns has the bits of dense attention", "", TRV_STORAGE_TYPES)
{
    using T = TestType;
    for (const AttentionShape& dense :
         {AttentionShape{2, 3, 3, 2, 1, 8}, {1, 65, 65, 1, 3, 16}, {2, 70, 70, 2, 2, 64}}) {
        const i64 q_row = dense.query_row(), k_row = dense.key_row(), row = q_row + 2 * k_row + 8;
        const i64 tokens = dense.batch * dense.q_len;
        const auto whole = random<T>(tokens * row, "qkv"), dout = random<T>(tokens * q_row, "dout");
        const auto part = [&](const std::vector<T>& of, i64 first, i64 columns) {
            std::vector<T> made;
            for (i64 t = 0; t < tokens; ++t)
                made.insert(made.end(), of.begin() + t * row + first, of.begin() + t * row + first + columns);
            return made;
        };
        const auto q = part(whole, 0, q_row), k = part(whole, q_row, k_row),
                   v = part(whole, q_row + k_row, k_row);
        const auto [dq, dk, dv] = gradients<T>({}, dense, q, k, v, dout);
        AttentionShape shape = dense;
        shape.rows = {row, row, row, row, row, row};
        std::vector<T> o(dout.size()), want_o(dout.size()), gradient(whole.size(), T(3));
        std::vector<Acc<T>> lse(static_cast<std::size_t>(queries(shape))), want_lse(lse);
        const TestScratch scratch(
            std::max(attention_scratch<T>(shape, 1), attention_grad_scratch<T>(shape, 1)));
        attention<T>({}, dense, q.data(), k.data(), v.data(), nullptr, want_o.data(), want_lse.data(),
                     scratch);
        const T *const from = whole.data(), *const keys = from + q_row;
        attention<T>({}, shape, from, keys, keys + k_row, nullptr, o.data(), lse.data(), scratch);
        REQUIRE(same_bits(o, want_o));
        REQUIRE(same_bits(lse, want_lse));
        T *const to = gradient.data(), *const to_keys = to + q_row;
        attention_grad<T>(
            {}, shape,
            {dout.data(), from, keys, keys + k_row, o.data(), lse.data(), to, to_keys, to_keys + k_row},
            scratch);
        REQUIRE(same_bits(part(gradient, 0, q_row), dq));
        REQUIRE(same_bits(part(gradient, q_row, k_row), dk));
        REQUIRE(same_bits(part(gradient, q_row + k_row, k_row), dv));
        for (const T& rest : part(gradient, q_row + 2 * k_row, 8)) // nothing else is written
            REQUIRE(static_cast<Acc<T>>(rest) == Acc<T>(3));
    }
}

TEMPLATE_TEST_CASE("attention with large scores", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>({1, 100, 100, 1, 1, 16}, 0, 4);
    check_forward<TestType>({1, 100, 100, 1, 1, 16}, 0, 1e-3);
}

TEMPLATE_TEST_CASE("attention of new tokens over a cache", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>({2, 1, 300, 2, 1, 64}, 0);
    check_forward<TestType>({2, 1, 300, 2, 4, 64}, 199);
    check_forward<TestType>({1, 5, 300, 1, 3, 31}, 62);
    check_forward<TestType>({1, 100, 164, 2, 1, 8}, 64);
}

TEST_CASE("attention does not read the cache beyond what is visible")
{
    const AttentionShape shape{1, 2, 200, 1, 2, 8};
    const std::int32_t start = 70;
    const auto q = random<float>(2 * 2 * 8, "q");
    auto k = random<float>(200 * 8, "k");
    const auto run = [&](const Exec& exec) {
        std::vector<float> o(q.size()), lse(4);
        const TestScratch scratch(attention_scratch<float>(shape, exec.threads));
        attention(exec, shape, q.data(), k.data(), k.data(), &start, o.data(), lse.data(), scratch);
        return std::tuple(o, lse);
    };
    const auto before = stable(run);
    for (std::size_t i = 72 * 8; i < k.size(); ++i)
        k[i] = NAN;
    CHECK(same_bits(std::get<0>(before), std::get<0>(stable(run))));
}

TEST_CASE("the gradient of attention agrees with differences")
{
    for (const AttentionShape& shape :
         {AttentionShape{1, 5, 5, 2, 1, 3}, AttentionShape{2, 4, 4, 1, 3, 5},
          AttentionShape{1, 35, 35, 1, 2, 2}, AttentionShape{1, 70, 70, 1, 1, 1},
          AttentionShape{1, 3, 6, 1, 1, 4}}) {
        const i64 keys = shape.batch * shape.kv_len * shape.kv_heads * shape.head_dim;
        const auto q = random<double>(queries(shape) * shape.head_dim, "q"),
                   dout = random<double>(q.size(), "dout");
        const auto k = random<double>(keys, "k"), v = random<double>(keys, "v");
        const auto [dq, dk, dv] =
            stable([&](const Exec& exec) { return gradients(exec, shape, q, k, v, dout); });
        const auto sizes = sizes_of(shape, 0);
        const auto at = [&](const Doubles& x, const Doubles& y, const Doubles& z) {
            return dot(dout, reference::attention(sizes, x, y, z));
        };
        require_close(dq, slope([&](const Doubles& x) { return at(x, k, v); }, q), 1e-6, "dq");
        require_close(dk, slope([&](const Doubles& x) { return at(q, x, v); }, k), 1e-6, "dk");
        require_close(dv, slope([&](const Doubles& x) { return at(q, k, x); }, v), 1e-6, "dv");
    }
}

TEMPLATE_TEST_CASE("the gradient of attention in f32 and bf16 follows that in f64", "", float, bf16)
{
    using T = TestType;
    for (const AttentionShape& shape :
         {AttentionShape{2, 130, 130, 2, 2, 64}, AttentionShape{1, 200, 200, 1, 1, 80},
          AttentionShape{1, 67, 67, 3, 1, 33}}) {
        const i64 keys = shape.batch * shape.kv_len * shape.kv_heads * shape.head_dim;
        const auto q = random<T>(queries(shape) * shape.head_dim, "q");
        const auto dout = random<T>(static_cast<i64>(q.size()), "dout");
        const auto k = random<T>(keys, "k"), v = random<T>(keys, "v");
        const auto [dq, dk, dv] =
            stable([&](const Exec& exec) { return gradients(exec, shape, q, k, v, dout); });
        const auto [wq, wk, wv] = gradients<double>({2}, shape, wide(q), wide(k), wide(v), wide(dout));
        require_close(dq, wq, tolerance<T>, "dq");
        require_close(dk, wk, tolerance<T>, "dk");
        require_close(dv, wv, tolerance<T>, "dv");
    }
}

TEST_CASE("attention works with less scratch than requested, but not with none")
{
    start_runtime();
    const AttentionShape shape{1, 300, 300, 2, 1, 8};
    const i64 n = 300 * 2 * 8;
    const auto q = random<float>(n, "q");
    std::vector<float> a(static_cast<std::size_t>(n)), b(a), lse(600);
    const TestScratch one(attention_scratch<float>(shape, 1)), three(attention_scratch<float>(shape, 3));
    attention({3}, shape, q.data(), q.data(), q.data(), nullptr, a.data(), lse.data(), one);
    attention({3}, shape, q.data(), q.data(), q.data(), nullptr, b.data(), lse.data(), three);
    CHECK(same_bits(a, b));
    CHECK_THROWS_AS(
        attention({1}, shape, q.data(), q.data(), q.data(), nullptr, a.data(), lse.data(), {nullptr, 64}),
        InternalError);
}
