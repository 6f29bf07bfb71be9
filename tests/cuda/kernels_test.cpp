// One kernel of each way to run, on a device and on a stream, against the naive references.
#include "kernels/attention.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/loss.hpp"
#include "kernels/norm.hpp"
#include "kernels/optimizer.hpp"
#include "kernels/reference.hpp"
#include "kernels/support.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

TEST_CASE("a device has a name and memory; one past the last is refused")
{
    if (!device_ready())
        return;
    const Device device;
    CHECK_FALSE(device.name().empty());
    CHECK(device.memory() > 0);
    CHECK_THROWS_AS(Device(device_count()), UserError);
}

TEMPLATE_TEST_CASE("rows on a device: rms_norm", "", double, float, bf16)
{
    using T = TestType;
    if (!device_ready())
        return;
    const Stream stream{Device()};
    for (const i64 dim : {1, 33, 4096}) {
        const i64 rows = 5;
        const auto x = random<T>(rows * dim, "x"), w = random<T>(dim, "w");
        const DeviceArray<T> on_x(x), on_w(w), on_y(rows * dim);
        const DeviceArray<Acc<T>> on_rstd(rows);
        rms_norm(stream.exec(), {rows, dim, 1e-5}, on_x.data(), on_w.data(), on_y.data(), on_rstd.data());
        Doubles want_rstd;
        const Doubles want = reference::rms_norm(rows, dim, 1e-5, wide(x), wide(w), &want_rstd);
        require_close(on_y.read(stream), want, tolerance<T>, "y");
        require_close(on_rstd.read(stream), want_rstd, tolerance<Acc<T>>, "rstd");
    }
}

TEMPLATE_TEST_CASE("indices on a device: swiglu", "", double, float, bf16)
{
    using T = TestType;
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const i64 n = 3001;
    const auto gate = random<T>(n, "gate", 3), up = random<T>(n, "up");
    const DeviceArray<T> on_gate(gate), on_up(up), on_y(n);
    swiglu(stream.exec(), n, on_gate.data(), on_up.data(), on_y.data());
    Doubles want;
    for (std::size_t i = 0; i < gate.size(); ++i)
        want.push_back(reference::swiglu(wide(gate)[i], wide(up)[i]));
    require_close(on_y.read(stream), want, tolerance<T>, "y");
}

TEST_CASE("columns on a device: column_sum")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const i64 rows = 131, columns = 259;
    const auto x = random<float>(rows * columns, "x");
    const DeviceArray<float> on_x(x), on_sum(columns);
    column_sum(stream.exec(), rows, columns, on_x.data(), on_sum.data(), true);
    Doubles want(static_cast<std::size_t>(columns));
    for (std::size_t i = 0; i < x.size(); ++i)
        want[i % want.size()] += wide(x)[i];
    require_close(on_sum.read(stream), want, 1e-5, "sum");
}

TEST_CASE("a maximum and a sum over a row on a device: xent_stats")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const i64 rows = 7, vocab = 9001;
    const auto x = random<float>(rows * vocab, "logits", 20);
    const Tokens target = random_tokens(rows, "target", 0, vocab);
    const DeviceArray<float> on_x(x), on_lse(rows), on_picked(rows);
    const DeviceArray<std::int32_t> on_target(target);
    xent_stats(stream.exec(), {rows, vocab, 0}, on_x.data(), on_target.data(), on_lse.data(), on_picked.data());
    const Doubles logits = wide(x);
    Doubles want_lse, want_picked;
    for (i64 r = 0; r < rows; ++r) {
        want_lse.push_back(reference::log_sum_exp(logits.data() + r * vocab, vocab));
        want_picked.push_back(logits[static_cast<std::size_t>(r * vocab + target[static_cast<std::size_t>(r)])]);
    }
    require_close(on_lse.read(stream), want_lse, 1e-5, "lse");
    require_close(on_picked.read(stream), want_picked, 1e-5, "picked");
}

TEST_CASE("two kernels in a row on one stream: sum_squares")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const i64 n = 50001;
    const auto x = random<float>(n, "x", 1e-3);
    const DeviceArray<float> on_x(x);
    const DeviceArray<double> on_sum(1);
    const DeviceArray<char> scratch(sum_squares_scratch(n));
    sum_squares(stream.exec(), n, on_x.data(), on_sum.data(), {scratch.data(), sum_squares_scratch(n)});
    double want = 0;
    for (const double value : wide(x))
        want += value * value;
    require_close(on_sum.read(stream), {want}, 1e-12, "sum");
}

TEMPLATE_TEST_CASE("tasks on a device: attention", "", double, float, bf16)
{
    using T = TestType;
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const AttentionShape shape{.batch = 2, .q_len = 70, .kv_len = 70, .kv_heads = 2, .q_per_kv = 3, .head_dim = 24};
    const i64 queries = shape.batch * shape.q_len * shape.kv_heads * shape.q_per_kv;
    const i64 keys = shape.batch * shape.kv_len * shape.kv_heads;
    const auto q = random<T>(queries * shape.head_dim, "q");
    const auto k = random<T>(keys * shape.head_dim, "k"), v = random<T>(keys * shape.head_dim, "v");
    const DeviceArray<T> on_q(q), on_k(k), on_v(v), on_o(queries * shape.head_dim);
    const DeviceArray<Acc<T>> on_lse(queries);
    const Bytes size = attention_scratch<T>(shape, 1);
    const DeviceArray<char> scratch(size);
    attention<T>(stream.exec(), shape, on_q.data(), on_k.data(), on_v.data(), nullptr, on_o.data(), on_lse.data(),
                 {scratch.data(), size});
    Doubles want_lse;
    const Doubles want =
        reference::attention({shape.batch, shape.q_len, shape.kv_len, shape.kv_heads, shape.q_per_kv, shape.head_dim, 0,
                              1 / std::sqrt(static_cast<double>(shape.head_dim))},
                             wide(q), wide(k), wide(v), &want_lse);
    require_close(on_o.read(stream), want, tolerance<T>, "o");
    require_close(on_lse.read(stream), want_lse, tolerance<Acc<T>>, "lse");
}
