#include "kernels/attention.hpp"

#include "attention_support.hpp"
#include "reference.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

/// Which of the optional inputs a test gives.
struct With {
    bool documents = false, sinks = false;
};

reference::AttentionSizes sizes_of(const AttentionShape& shape, i64 start, With with = {})
{
    return {shape.batch,
            shape.q_len,
            shape.kv_len,
            shape.kv_heads,
            shape.q_per_kv,
            shape.head_dim,
            start,
            shape.scale != 0 ? shape.scale : 1 / std::sqrt(shape.head_dim),
            shape.window,
            shape.chunk,
            shape.cap,
            with.documents ? random_documents(shape, start) : Tokens{},
            with.sinks ? random<double>(shape.kv_heads * shape.q_per_kv, "sinks", 2) : Doubles{}};
}

/// The optional inputs of `sizes`.
template <class T>
class Extras {
public:
    explicit Extras(const reference::AttentionSizes& sizes)
        : starts_(sizes.starts), sinks_(sizes.sinks.begin(), sizes.sinks.end())
    {
    }
    AttentionExtras<T> get() const
    {
        return {starts_.empty() ? nullptr : starts_.data(), sinks_.empty() ? nullptr : sinks_.data()};
    }

private:
    Tokens starts_;
    std::vector<Acc<T>> sinks_;
};

/// A shape with a window, chunks and a cap.
AttentionShape limited(AttentionShape shape, i64 window, i64 chunk = 0, double cap = 0)
{
    shape.window = window;
    shape.chunk = chunk;
    shape.cap = cap;
    return shape;
}

i64 queries(const AttentionShape& shape)
{
    return shape.batch * shape.q_len * shape.kv_heads * shape.q_per_kv;
}

template <class T>
void check_forward(const AttentionShape& shape, i64 start, double scale = 1, With with = {})
{
    INFO("s " << shape.q_len << " t " << shape.kv_len << " g " << shape.kv_heads << " r " << shape.q_per_kv
              << " e " << shape.head_dim << " start " << start << " scale " << scale << " window "
              << shape.window << " chunk " << shape.chunk << " cap " << shape.cap << " documents "
              << with.documents << " sinks " << with.sinks);
    const i64 keys = shape.batch * shape.kv_len * shape.kv_heads * shape.head_dim;
    const auto q = random<T>(queries(shape) * shape.head_dim, "q", scale), k = random<T>(keys, "k", scale);
    auto v = random<T>(keys, "v");
    Doubles want_lse;
    const reference::AttentionSizes sizes = sizes_of(shape, start, with);
    const Extras<T> extras(sizes);
    const Doubles want = reference::attention(sizes, wide(q), wide(k), wide(v), &want_lse);
    const std::int32_t first = static_cast<std::int32_t>(start);
    const auto [o, lse] = stable([&](const Exec& exec) {
        std::vector<T> out(q.size());
        std::vector<Acc<T>> total(static_cast<std::size_t>(queries(shape)));
        const TestScratch scratch(attention_scratch<T>(shape, exec.threads));
        attention(exec, shape, q.data(), k.data(), v.data(), start ? &first : nullptr, out.data(),
                  total.data(), scratch, extras.get());
        return std::tuple(out, total);
    });
    // Large scores have a relative error of 1e-7, which exp propagates.
    const double room = scale > 2 && sizeof(T) == 4 ? 10 : 1;
    require_close(o, want, room * tolerance<T>, "o");
    require_close(lse, want_lse, tolerance<Acc<T>>, "lse");
}

template <class T>
auto gradients(const Exec& exec, const AttentionShape& shape, const std::vector<T>& q,
               const std::vector<T>& k, const std::vector<T>& v, const std::vector<T>& dout, With with = {})
{
    const Extras<T> extras(sizes_of(shape, 0, with));
    const auto [starts, sinks] = extras.get();
    std::vector<T> o(q.size()), dq(q.size()), dk(k.size()), dv(k.size());
    std::vector<Acc<T>> lse(static_cast<std::size_t>(queries(shape)));
    const TestScratch scratch(attention_scratch<T>(shape, exec.threads));
    const TestScratch scratch_grad(attention_grad_scratch<T>(shape, exec.threads));
    attention<T>(exec, shape, q.data(), k.data(), v.data(), nullptr, o.data(), lse.data(), scratch,
                 extras.get());
    attention_grad<T>(exec, shape,
                      {dout.data(), q.data(), k.data(), v.data(), o.data(), lse.data(), dq.data(), dk.data(),
                       dv.data(), starts},
                      scratch_grad);
    std::vector<Acc<T>> dsinks(static_cast<std::size_t>(sinks ? shape.kv_heads * shape.q_per_kv : 0),
                               Acc<T>(3));
    for (const bool overwrite : {true, false}) // which makes the sum twice the gradient
        if (sinks)
            attention_grad_sinks<T>(exec, shape, dout.data(), o.data(), lse.data(), sinks, dsinks.data(),
                                    overwrite);
    return std::tuple(dq, dk, dv, dsinks);
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
        const auto [dq, dk, dv, none] = gradients<T>({}, dense, q, k, v, dout);
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

namespace {

/// Shapes whose queries see some keys only, with all combinations of limits over the list.
const std::pair<AttentionShape, With> limited_cases[] = {
    {limited({1, 3, 3, 1, 1, 4}, 1), {}},
    {limited({2, 150, 150, 1, 2, 16}, 20), {}},
    {limited({1, 300, 300, 1, 1, 8}, 65), {}},
    {limited({2, 150, 150, 2, 1, 16}, 0, 40), {}},
    {limited({1, 131, 131, 1, 3, 5}, 0, 64), {}},
    {limited({1, 150, 150, 1, 2, 16}, 30, 50), {}},
    {limited({1, 70, 70, 2, 2, 16}, 0, 0, 2), {}},
    {limited({2, 200, 200, 1, 2, 16}, 0), {true, false}},
    {limited({1, 70, 70, 2, 3, 8}, 0), {false, true}},
    {limited({2, 200, 200, 1, 1, 32}, 25), {true, true}},
    {limited({2, 200, 200, 2, 2, 16}, 0, 16, 1.5), {true, false}},
    {limited({2, 140, 140, 2, 2, 17}, 33, 50, 3), {true, true}},
    {limited({1, 40, 40, 1, 2, 8}, 1000, 1000), {}}, // hides nothing
};

} // namespace

TEMPLATE_TEST_CASE("attention with windows, chunks, caps, documents and sinks", "", TRV_STORAGE_TYPES)
{
    for (const auto& [shape, with] : limited_cases)
        check_forward<TestType>(shape, 0, 1, with);
    check_forward<TestType>(limited({1, 100, 100, 1, 1, 16}, 10, 0, 30), 0, 4, {false, true});
}

TEMPLATE_TEST_CASE("attention with limits over a cache", "", TRV_STORAGE_TYPES)
{
    check_forward<TestType>(limited({2, 1, 300, 2, 4, 16}, 30), 199);
    check_forward<TestType>(limited({2, 1, 300, 2, 2, 16}, 0, 64), 191);
    check_forward<TestType>(limited({2, 1, 300, 2, 2, 16}, 0, 64), 192, 1, {false, true});
    check_forward<TestType>(limited({1, 90, 300, 1, 3, 31}, 20, 0, 2), 150, 1, {true, true});
    check_forward<TestType>(limited({2, 7, 300, 1, 2, 8}, 0, 50), 96, 1, {true, false});
}

TEST_CASE("attention without options has the bits of attention whose options hide nothing")
{
    const AttentionShape shape{1, 90, 90, 2, 2, 24};
    const auto q = random<float>(queries(shape) * 24, "q"), k = random<float>(90 * 2 * 24, "k");
    const Tokens starts(90, 0);
    const auto run = [&](const AttentionShape& of, const AttentionExtras<float>& extras) {
        std::vector<float> o(q.size()), lse(static_cast<std::size_t>(queries(of)));
        const TestScratch scratch(attention_scratch<float>(of, 1));
        start_runtime();
        attention<float>({1}, of, q.data(), k.data(), k.data(), nullptr, o.data(), lse.data(), scratch,
                         extras);
        return o;
    };
    const auto plain = run(shape, {});
    CHECK(same_bits(plain, run(limited(shape, 90, 90), {})));
    CHECK(same_bits(plain, run(shape, {starts.data(), nullptr})));
    CHECK_FALSE(same_bits(plain, run(limited(shape, 89), {})));
}

TEST_CASE("attention reads no tile of keys that is hidden from all of its queries")
{
    const auto check = [](const AttentionShape& shape, i64 start, bool documents, i64 unread) {
        const std::int32_t first = static_cast<std::int32_t>(start);
        const auto q = random<float>(queries(shape) * shape.head_dim, "q");
        auto k = random<float>(shape.kv_len * shape.key_row(), "k");
        const Tokens starts(static_cast<std::size_t>(shape.q_len), 130);
        const auto run = [&](const Exec& exec) {
            std::vector<float> o(q.size()), lse(static_cast<std::size_t>(queries(shape)));
            const TestScratch scratch(attention_scratch<float>(shape, exec.threads));
            attention<float>(exec, shape, q.data(), k.data(), k.data(), &first, o.data(), lse.data(), scratch,
                             {documents ? starts.data() : nullptr, nullptr});
            return std::tuple(o, lse);
        };
        const auto before = stable(run);
        std::fill_n(k.begin(), unread * shape.key_row(), NAN);
        CHECK(same_bits(std::get<0>(before), std::get<0>(stable(run))));
    };
    check(limited({1, 2, 300, 1, 2, 8}, 40), 250, false, 192);
    check(limited({1, 2, 300, 1, 2, 8}, 0, 100), 250, false, 192);
    check({1, 2, 300, 1, 2, 8}, 250, true, 128);
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
    for (const auto& [shape, with] : std::vector<std::pair<AttentionShape, With>>{
             {{1, 5, 5, 2, 1, 3}, {}},
             {{2, 4, 4, 1, 3, 5}, {}},
             {{1, 35, 35, 1, 2, 2}, {}},
             {{1, 70, 70, 1, 1, 1}, {}},
             {{1, 3, 6, 1, 1, 4}, {}},
             {limited({1, 20, 20, 2, 1, 3}, 4), {}},
             {limited({1, 70, 70, 1, 1, 1}, 3), {}},
             {limited({1, 20, 20, 1, 2, 2}, 0, 7), {}},
             {limited({1, 9, 9, 2, 2, 3}, 0, 0, 0.7), {}},
             {limited({2, 35, 35, 1, 2, 2}, 0), {true, false}},
             {limited({2, 6, 6, 2, 2, 3}, 0), {false, true}},
             {limited({2, 35, 35, 1, 2, 2}, 6, 9, 1.5), {true, true}}}) {
        const i64 keys = shape.batch * shape.kv_len * shape.kv_heads * shape.head_dim;
        const auto q = random<double>(queries(shape) * shape.head_dim, "q"),
                   dout = random<double>(q.size(), "dout");
        const auto k = random<double>(keys, "k"), v = random<double>(keys, "v");
        const auto [dq, dk, dv, dsinks] = stable([&, &limits = shape, &more = with](const Exec& exec) {
            return gradients(exec, limits, q, k, v, dout, more);
        });
        const auto sizes = sizes_of(shape, 0, with);
        const auto at = [&](const Doubles& x, const Doubles& y, const Doubles& z) {
            return dot(dout, reference::attention(sizes, x, y, z));
        };
        require_close(dq, slope([&](const Doubles& x) { return at(x, k, v); }, q), 1e-6, "dq");
        require_close(dk, slope([&](const Doubles& x) { return at(q, x, v); }, k), 1e-6, "dk");
        require_close(dv, slope([&](const Doubles& x) { return at(q, k, x); }, v), 1e-6, "dv");
        if (!with.sinks)
            continue;
        Doubles twice = slope(
            [&](const Doubles& x) {
                auto moved = sizes;
                moved.sinks = x;
                return dot(dout, reference::attention(moved, q, k, v));
            },
            sizes.sinks);
        for (double& value : twice)
            value *= 2;
        require_close(dsinks, twice, 1e-6, "dsinks");
    }
}

TEMPLATE_TEST_CASE("the gradient of attention in f32 and bf16 follows that in f64", "", float, bf16)
{
    using T = TestType;
    std::vector<std::pair<AttentionShape, With>> cases{
        {{2, 130, 130, 2, 2, 64}, {}}, {{1, 200, 200, 1, 1, 80}, {}}, {{1, 67, 67, 3, 1, 33}, {}}};
    cases.insert(cases.end(), std::begin(limited_cases), std::end(limited_cases));
    for (const auto& [shape, with] : cases) {
        const i64 keys = shape.batch * shape.kv_len * shape.kv_heads * shape.head_dim;
        const auto q = random<T>(queries(shape) * shape.head_dim, "q");
        const auto dout = random<T>(static_cast<i64>(q.size()), "dout");
        const auto k = random<T>(keys, "k"), v = random<T>(keys, "v");
        const auto [dq, dk, dv, dsinks] = stable([&, &limits = shape, &more = with](const Exec& exec) {
            return gradients(exec, limits, q, k, v, dout, more);
        });
        const auto [wq, wk, wv, wsinks] =
            gradients<double>({2}, shape, wide(q), wide(k), wide(v), wide(dout), with);
        const double room = 2 * tolerance<T>; // o is rounded to T
        const double least = 0.01;            // where queries see one key, all are 0
        require_close(dq, wq, room, "dq", least);
        require_close(dk, wk, room, "dk", least);
        require_close(dv, wv, tolerance<T>, "dv");
        require_close(dsinks, wsinks, room, "dsinks");
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
