// Attention by cuDNN against the naive reference: whole and in parts, the same bits again, in a graph, and
// together with the kernels on tensor cores, with which it shares o and lse.
#include "attention_on_device.hpp"
#include "kernels/cudnn_attention.hpp"
#include "kernels/tensor_attention.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

constexpr Bytes plenty = Bytes{64} << 20;

bool forward_by_cudnn(const Exec& exec, const AttentionShape& shape, const OnDevice& at)
{
    const AttentionGrad<bf16> g = at.grad();
    return cudnn_attention(exec, shape, g.q_bsgre, g.k_btge, g.v_btge, at.o(), at.lse(), at.scratch());
}

bool backward_by_cudnn(const Exec& exec, const AttentionShape& shape, const OnDevice& at)
{
    return cudnn_attention_grad(exec, shape, at.grad(), at.scratch());
}

OnDevice::Results run_by_cudnn(const Stream& stream, const Inputs& in, Bytes scratch = plenty)
{
    OnDevice device(in, scratch);
    REQUIRE(forward_by_cudnn(stream.exec(), in.shape, device));
    REQUIRE(backward_by_cudnn(stream.exec(), in.shape, device));
    return device.read(stream);
}

} // namespace

TEST_CASE("attention by cuDNN: forward, backward, and the same bits again")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    // batch, q_len, kv_len, kv_heads, q_per_kv, head_dim, scale
    for (const AttentionShape& shape :
         {AttentionShape{2, 256, 256, 2, 2, 64}, AttentionShape{1, 384, 384, 3, 1, 128},
          AttentionShape{3, 128, 128, 1, 3, 80}, AttentionShape{1, 512, 512, 1, 2, 128}}) {
        const Inputs in(shape);
        const OnDevice::Results got = run_by_cudnn(stream, in);
        require_right(in, got);
        for (int again = 0; again < 3; ++again)
            require_same(got, run_by_cudnn(stream, in));
    }
}

TEST_CASE("attention by cuDNN within a window of keys")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    for (const i64 window : {1, 100, 255})
        for (AttentionShape shape : {AttentionShape{2, 256, 256, 2, 2, 64}, {1, 384, 384, 1, 1, 128}}) {
            shape.window = window;
            const Inputs in(shape);
            require_right(in, run_by_cudnn(stream, in));
        }
}

TEST_CASE("attention by cuDNN that may add in any order")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    for (AttentionShape shape :
         {AttentionShape{2, 256, 256, 2, 2, 64}, AttentionShape{1, 512, 512, 2, 2, 128}}) {
        shape.deterministic = false;
        const Inputs in(shape);
        require_right(in, run_by_cudnn(stream, in));
    }
}

TEST_CASE("attention by cuDNN runs in parts if the scratch is too small for the whole batch")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const Inputs in({4, 256, 256, 2, 3, 64});
    // By cuDNN's documents one kv head of a sample needs slightly more than 576 KiB; a sample has two, the
    // batch eight.
    for (const Bytes kib : {700, 1300, 2600}) {
        INFO(kib << " KiB");
        const OnDevice::Results got = run_by_cudnn(stream, in, kib << 10);
        require_right(in, got);
        require_same(got, run_by_cudnn(stream, in, kib << 10));
    }
    const OnDevice device(in);
    CHECK(forward_by_cudnn(stream.exec(), in.shape, device));
    CHECK_FALSE(cudnn_attention_grad(stream.exec(), in.shape, device.grad(), {}));
    CHECK(std::isnan(static_cast<float>(device.read(stream).dq[0])));
}

TEST_CASE("cuDNN is not used for unsupported shapes")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    AttentionShape chunks{1, 128, 128, 1, 1, 64}, cap{1, 128, 128, 1, 1, 64};
    chunks.chunk = 64;
    cap.cap = 50;
    for (const AttentionShape& shape :
         {AttentionShape{1, 130, 130, 1, 1, 64}, AttentionShape{1, 128, 256, 1, 1, 64},
          AttentionShape{1, 128, 128, 1, 1, 136}, AttentionShape{1, 128, 128, 1, 1, 60},
          AttentionShape{0, 128, 128, 1, 1, 64}, chunks, cap}) {
        const OnDevice device(Inputs(shape), plenty);
        CHECK_FALSE(forward_by_cudnn(stream.exec(), shape, device));
        CHECK_FALSE(backward_by_cudnn(stream.exec(), shape, device));
    }
}

TEST_CASE("attention tries cuDNN first, then the kernels on tensor cores; each accepts the other's results")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const Exec exec = stream.exec();
    const Inputs in({2, 256, 256, 2, 2, 128});
    const OnDevice::Results by_cudnn = run_by_cudnn(stream, in);
    OnDevice device(in, plenty), small(in);
    const AttentionGrad<bf16> g = device.grad();
    attention<bf16>(exec, in.shape, g.q_bsgre, g.k_btge, g.v_btge, nullptr, device.o(), device.lse(),
                    device.scratch());
    device.backward(exec);
    require_same(device.read(stream), by_cudnn);

    REQUIRE(forward_by_cudnn(exec, in.shape, device));
    REQUIRE(tensor_attention_grad(exec, in.shape, device.grad(), device.scratch()));
    require_right(in, device.read(stream));

    REQUIRE(
        tensor_attention(exec, in.shape, g.q_bsgre, g.k_btge, g.v_btge, nullptr, device.o(), device.lse()));
    REQUIRE(backward_by_cudnn(exec, in.shape, device));
    require_right(in, device.read(stream));

    // Too little scratch for cuDNN.
    const Scratch little{device.scratch().data, tensor_attention_grad_scratch(in.shape)};
    REQUIRE(tensor_attention_grad(exec, in.shape, device.grad(), little));
    const OnDevice::Results on_tensor_cores = device.read(stream);
    small.forward(exec);
    attention_grad<bf16>(exec, in.shape, small.grad(), little);
    require_same(small.read(stream), on_tensor_cores);
    CHECK_FALSE(same_bits(on_tensor_cores.lse, by_cudnn.lse));
}

TEST_CASE("attention by cuDNN is the same bits from a graph")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const Inputs in({2, 256, 256, 2, 2, 128});
    for (const Bytes scratch : {plenty, Bytes{1} << 20}) {                // whole, and in four parts
        const OnDevice::Results want = run_by_cudnn(stream, in, scratch); // which also makes the plans
        OnDevice device(in, scratch);
        run_recorded(
            stream,
            [&] {
                CHECK((forward_by_cudnn(stream.exec(), in.shape, device) &&
                       backward_by_cudnn(stream.exec(), in.shape, device)));
            },
            2);
        require_same(device.read(stream), want);
    }
}
