// Attention on the tensor cores of a device, against the naive reference; and the same bits again.
#include "kernels/attention.hpp"

#include "kernels/attention_support.hpp"
#include "kernels/reference.hpp"
#include "support.hpp"

using namespace trivium;
using namespace trivium::kernels;

namespace {

struct Inputs {
    AttentionShape shape;
    std::vector<bf16> q, k, v, dout;

    explicit Inputs(const AttentionShape& of, double size = 1) : shape(of)
    {
        const i64 queries = of.batch * of.q_len * of.kv_heads * of.q_per_kv * of.head_dim;
        const i64 keys = of.batch * of.kv_len * of.kv_heads * of.head_dim;
        q = random<bf16>(queries, "q", size);
        k = random<bf16>(keys, "k", size);
        v = random<bf16>(keys, "v");
        dout = random<bf16>(queries, "dout");
    }
    i64 rows() const { return static_cast<i64>(q.size()) / shape.head_dim; }
    reference::AttentionSizes sizes(i64 start = 0) const
    {
        return {shape.batch,    shape.q_len,    shape.kv_len, shape.kv_heads,
                shape.q_per_kv, shape.head_dim, start,        1 / std::sqrt(static_cast<double>(shape.head_dim))};
    }
};

/// Everything on a device, results preset with NaN.
class OnDevice {
public:
    explicit OnDevice(const Inputs& in)
        : shape_(in.shape), q_(in.q), k_(in.k), v_(in.v), dout_(in.dout), o_(nothing(in.q)), dq_(nothing(in.q)),
          dk_(nothing(in.k)), dv_(nothing(in.k)), lse_(std::vector<float>(static_cast<std::size_t>(in.rows()), NAN)),
          scratch_size_(attention_grad_scratch<bf16>(in.shape, 1)), scratch_(scratch_size_)
    {
    }

    /// Without scratch: what works by teams of threads would refuse.
    void forward(const Exec& exec, const std::int32_t* start = nullptr)
    {
        attention<bf16>(exec, shape_, q_.data(), k_.data(), v_.data(), start, o_.data(), lse_.data(), {});
    }
    void backward(const Exec& exec)
    {
        attention_grad<bf16>(exec, shape_,
                             {dout_.data(), q_.data(), k_.data(), v_.data(), o_.data(), lse_.data(), dq_.data(),
                              dk_.data(), dv_.data()},
                             {scratch_.data(), scratch_size_});
    }
    struct Results {
        std::vector<bf16> o, dq, dk, dv;
        std::vector<float> lse;
    };
    Results read(const Stream& stream) const
    {
        return {o_.read(stream), dq_.read(stream), dk_.read(stream), dv_.read(stream), lse_.read(stream)};
    }

private:
    static std::vector<bf16> nothing(const std::vector<bf16>& like)
    {
        return std::vector<bf16>(like.size(), bf16(NAN));
    }

    AttentionShape shape_;
    DeviceArray<bf16> q_, k_, v_, dout_, o_, dq_, dk_, dv_;
    DeviceArray<float> lse_;
    Bytes scratch_size_;
    DeviceArray<char> scratch_;
};

void require_same(const OnDevice::Results& a, const OnDevice::Results& b)
{
    REQUIRE(same_bits(a.o, b.o));
    REQUIRE(same_bits(a.lse, b.lse));
    REQUIRE(same_bits(a.dq, b.dq));
    REQUIRE(same_bits(a.dk, b.dk));
    REQUIRE(same_bits(a.dv, b.dv));
}

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
         {AttentionShape{1, 3, 3, 1, 1, 64}, AttentionShape{2, 200, 200, 2, 2, 64}, AttentionShape{1, 1000, 1000, 1, 4, 64},
          AttentionShape{2, 64, 64, 1, 1, 128}, AttentionShape{1, 130, 160, 2, 3, 128},
          AttentionShape{3, 513, 513, 2, 1, 128}, AttentionShape{1, 130, 130, 2, 2, 96},
          AttentionShape{1, 260, 260, 2, 1, 32}}) {
        INFO("b " << shape.batch << " s " << shape.q_len << " t " << shape.kv_len << " g " << shape.kv_heads << " r "
                  << shape.q_per_kv << " e " << shape.head_dim);
        const Inputs in(shape);
        const OnDevice::Results got = run_once(stream, in);
        Doubles lse, dq, dk, dv;
        const Doubles o = reference::attention(in.sizes(), wide(in.q), wide(in.k), wide(in.v), &lse);
        require_close(got.o, o, tolerance<bf16>, "o");
        require_close(got.lse, lse, tolerance<float>, "lse");
        reference::attention_grad(in.sizes(), wide(in.dout), wide(in.q), wide(in.k), wide(in.v), wide(got.o), dq, dk,
                                  dv);
        require_close_gradient(got.dq, dq, "dq");
        require_close_gradient(got.dk, dk, "dk");
        require_close_gradient(got.dv, dv, "dv");
        require_same(got, run_once(stream, in));
    }
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

TEST_CASE("attention on tensor cores is the same bits from a graph of CUDA")
{
    if (!device_ready())
        return;
    const Stream stream{Device()};
    const auto native = static_cast<cudaStream_t>(stream.native());
    const Inputs in({1, 300, 300, 2, 2, 128});
    const OnDevice::Results want = run_once(stream, in); // which also loads the kernels
    OnDevice device(in);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t ready = nullptr;
    check_cuda(cudaStreamBeginCapture(native, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    device.forward(stream.exec());
    device.backward(stream.exec());
    check_cuda(cudaStreamEndCapture(native, &graph), "cudaStreamEndCapture");
    check_cuda(cudaGraphInstantiate(&ready, graph, 0), "cudaGraphInstantiate");
    check_cuda(cudaGraphLaunch(ready, native), "cudaGraphLaunch");
    const OnDevice::Results got = device.read(stream);
    cudaGraphExecDestroy(ready);
    cudaGraphDestroy(graph);
    require_same(got, want);
}
