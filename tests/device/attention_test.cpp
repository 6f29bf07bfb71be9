// Attention on the tensor cores of a device, against the naive reference; and the same bits again.
#include "attention_on_device.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

OnDevice::Results run_once(const Stream& stream, const Inputs& in)
{
    OnDevice device(in);
    device.forward(stream.exec());
    device.backward(stream.exec());
    return device.read(stream);
}

} // namespace

TEST_CASE("attention on tensor cores: forward, backward, and the same bits again")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    // batch, q_len, kv_len, kv_heads, q_per_kv, head_dim
    for (const AttentionShape& shape :
         {AttentionShape{1, 3, 3, 1, 1, 64}, AttentionShape{2, 200, 200, 2, 2, 64},
          AttentionShape{1, 1000, 1000, 1, 4, 64}, AttentionShape{2, 64, 64, 1, 1, 128},
          AttentionShape{1, 130, 160, 2, 3, 128}, AttentionShape{3, 513, 513, 2, 1, 128},
          AttentionShape{1, 130, 130, 2, 2, 96}, AttentionShape{1, 260, 260, 2, 1, 32}}) {
        INFO("b " << shape.batch << " s " << shape.q_len << " t " << shape.kv_len << " g " << shape.kv_heads
                  << " r " << shape.q_per_kv << " e " << shape.head_dim);
        const Inputs in(shape);
        const OnDevice::Results got = run_once(stream, in);
        require_right(in, got);
        require_same(got, run_once(stream, in));
    }
}

TEST_CASE("attention on tensor cores: windows, chunks, caps, documents and sinks")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const auto check = [&](AttentionShape shape, i64 window, i64 chunk, double cap, bool documents,
                           bool sinks) {
        shape.cudnn = false;
        shape.window = window;
        shape.chunk = chunk;
        shape.cap = cap;
        INFO("e " << shape.head_dim << " window " << window << " chunk " << chunk << " cap " << cap
                  << " documents " << documents << " sinks " << sinks);
        const Inputs in(shape, 1, documents, sinks);
        const OnDevice::Results got = run_once(stream, in);
        require_right(in, got);
        require_same(got, run_once(stream, in));
    };
    check({2, 512, 512, 2, 2, 64}, 100, 0, 0, false, false);
    check({1, 400, 400, 2, 1, 128}, 0, 150, 0, false, false);
    check({2, 300, 300, 1, 4, 128}, 0, 0, 5, false, false);
    check({2, 500, 500, 1, 2, 96}, 0, 0, 0, true, false);
    check({2, 200, 200, 2, 3, 32}, 0, 0, 0, false, true);
    check({2, 513, 513, 2, 2, 128}, 60, 200, 3, true, true);
}

TEST_CASE("attention on tensor cores: new tokens over a cache, and large scores")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const DeviceArray<std::int32_t> start(std::vector<std::int32_t>{199});
    Inputs in({2, 5, 300, 2, 4, 128}, 2);
    Doubles lse;
    const Doubles o = reference::attention(in.sizes(199), wide(in.q), wide(in.k), wide(in.v), &lse);
    for (i64 b = 0; b < 2; ++b) // nothing is read beyond what the last query sees
        for (i64 i = 204 * 2 * 128; i < 300 * 2 * 128; ++i)
            for (auto* array : {&in.k, &in.v})
                (*array)[static_cast<std::size_t>(b * 300 * 2 * 128 + i)] = bf16(NAN);
    OnDevice device(in);
    device.forward(stream.exec(), start.data());
    const OnDevice::Results got = device.read(stream);
    require_close(got.o, o, tolerance<bf16>, "o");
    require_close(got.lse, lse, tolerance<float>, "lse");
}

TEST_CASE("attention on tensor cores has the same bits from a graph")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const Inputs in({1, 300, 300, 2, 2, 128});
    const OnDevice::Results want = run_once(stream, in); // which also loads the kernels
    OnDevice device(in);
    run_recorded(stream, [&] {
        device.forward(stream.exec());
        device.backward(stream.exec());
    });
    require_same(device.read(stream), want);
}
