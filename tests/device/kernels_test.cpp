// Kernels on a stream and in a graph; kernels_on_device tests their results.
#include "kernels/attention.hpp"
#include "kernels/embedding.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/reference.hpp"
#include "kernels/support.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

TEST_CASE("a device has a name; one past the last is refused")
{
    if (!device_ready())
        return;
    const Device device;
    CHECK_FALSE(device.name().empty());
    CHECK_THROWS_AS(Device(device_count()), UserError);
}

TEST_CASE("kernels have the same bits from a graph, repeatedly")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const i64 rows = 300, dim = 1600, n = rows * dim;
    const auto x = random<bf16>(n, "x"), w = random<bf16>(dim, "w");
    const auto g = random<float>(n, "g");
    const DeviceArray<bf16> on_x(x), on_w(w), on_y(n);
    const DeviceArray<float> on_rstd(rows), on_sum(dim), on_table(400 * dim), on_g(g), on_lse(rows),
        on_picked(rows);
    const DeviceArray<std::int32_t> on_tokens(random_tokens(rows, "tokens", 0, 400));
    const DeviceArray<double> hyper(Doubles{0.1, 0.9, 0.95, 1e-8, 1, 1}), factor(Doubles{1}), squares(2),
        totals(3);
    const DeviceArray<char> scratch(2 * sum_squares_scratch(n));
    // Nothing here allocates or waits; otherwise the capture fails.
    const auto all = [&](const DeviceArray<float>& p, const DeviceArray<float>& m,
                         const DeviceArray<float>& v) {
        const Exec exec = stream.exec();
        rms_norm(exec, {rows, dim, 1e-5}, on_x.data(), on_w.data(), on_y.data(), on_rstd.data());
        column_sum(exec, rows, dim, on_y.data(), on_sum.data(), true);
        embedding_grad(exec, {rows, 400, dim, 0}, on_y.data(), on_tokens.data(), on_table.data(), true);
        xent_stats(exec, {rows, dim, 0}, on_y.data(), on_tokens.data(), on_lse.data(), on_picked.data());
        const SquaresOf<float> arrays[] = {{on_g.data(), n, squares.data()},
                                           {on_table.data(), 400 * dim, squares.data() + 1}};
        sum_squares<float>(exec, {arrays, 1}, {scratch.data(), sum_squares_scratch(n)});
        sum_squares<float>(exec, {arrays + 1, 1}, {scratch.data(), 2 * sum_squares_scratch(n)});
        const StackPart parts[] = {{0, squares.data()}, {2, squares.data() + 1}};
        stack(exec, 3, parts, totals.data());
        const AdamwShard<float> shards[] = {{p.data(), m.data(), v.data(), on_g.data(), n, 0.1}};
        adamw<float, float>(exec, shards, hyper.data(), factor.data());
    };
    const DeviceArray<float> p(g), m(n), v(n), p2(g), m2(n), v2(n);
    all(p, m, v);
    const auto want_p = p.read(stream), want_table = on_table.read(stream), want_sum = on_sum.read(stream);
    const auto want_totals = totals.read(stream);
    run_recorded(stream, [&] { all(p2, m2, v2); });
    CHECK(same_bits(p2.read(stream), want_p));
    CHECK(same_bits(on_table.read(stream), want_table));
    CHECK(same_bits(on_sum.read(stream), want_sum));
    CHECK(same_bits(totals.read(stream), want_totals));
}

TEMPLATE_TEST_CASE("tasks on a device: attention", "", double, float, bf16)
{
    using T = TestType;
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const AttentionShape shape{
        .batch = 2, .q_len = 70, .kv_len = 70, .kv_heads = 2, .q_per_kv = 3, .head_dim = 24};
    const i64 queries = shape.batch * shape.q_len * shape.kv_heads * shape.q_per_kv;
    const i64 keys = shape.batch * shape.kv_len * shape.kv_heads;
    const auto q = random<T>(queries * shape.head_dim, "q");
    const auto k = random<T>(keys * shape.head_dim, "k"), v = random<T>(keys * shape.head_dim, "v");
    const DeviceArray<T> on_q(q), on_k(k), on_v(v), on_o(queries * shape.head_dim);
    const DeviceArray<Acc<T>> on_lse(queries);
    const Bytes size = attention_scratch<T>(shape, 1);
    const DeviceArray<char> scratch(size);
    attention<T>(stream.exec(), shape, on_q.data(), on_k.data(), on_v.data(), nullptr, on_o.data(),
                 on_lse.data(), {scratch.data(), size});
    Doubles want_lse;
    const Doubles want =
        reference::attention({shape.batch, shape.q_len, shape.kv_len, shape.kv_heads, shape.q_per_kv,
                              shape.head_dim, 0, 1 / std::sqrt(static_cast<double>(shape.head_dim))},
                             wide(q), wide(k), wide(v), &want_lse);
    require_close(on_o.read(stream), want, tolerance<T>, "o");
    require_close(on_lse.read(stream), want_lse, tolerance<Acc<T>>, "lse");
}
