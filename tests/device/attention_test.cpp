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
    for (auto [shape, with] : {std::pair<AttentionShape, With>{limited({2, 512, 512, 2, 2, 64}, 100), {}},
                               {limited({1, 400, 400, 2, 1, 128}, 0, 150), {}},
                               {limited({2, 300, 300, 1, 4, 128}, 0, 0, 5), {}},
                               {{2, 500, 500, 1, 2, 96}, {true, false}},
                               {{2, 200, 200, 2, 3, 32}, {false, true}},
                               {limited({2, 513, 513, 2, 2, 128}, 60, 200, 3), {true, true}}}) {
        shape.cudnn = false;
        const Inputs in(shape, 1, with);
        const OnDevice::Results got = run_once(stream, in);
        require_right(in, got);
        require_same(got, run_once(stream, in));
    }
}

TEST_CASE("attention on tensor cores: new tokens over a cache, and large scores")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    Inputs in({2, 5, 300, 2, 4, 128}, 2, {}, 199);
    const DeviceArray<std::int32_t> start(in.first_queries());
    Doubles lse;
    const Doubles o = reference::attention(in.sizes(), wide(in.q), wide(in.k), wide(in.v), &lse);
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
