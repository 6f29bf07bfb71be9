#pragma once
// Attention's tensors on a device.
#include "kernels/attention.hpp"

#include "kernels/attention_support.hpp"
#include "support.hpp"

namespace trivium::kernels {

using Inputs = AttentionInputs<bf16>;

/// Everything on a device, results preset with NaN.
class OnDevice {
public:
    /// Scratch for the kernels on tensor cores, or more.
    explicit OnDevice(const Inputs& in, Bytes scratch = 0)
        : shape_(in.shape), q_(in.q), k_(in.k), v_(in.v), dout_(in.dout), o_(nothing(in.q)),
          dq_(nothing(in.q)), dk_(nothing(in.k)), dv_(nothing(in.k)),
          lse_(std::vector<float>(static_cast<std::size_t>(queries(in.shape)), NAN)), starts_(in.starts),
          sinks_(in.sinks), scratch_size_(std::max(scratch, attention_grad_scratch<bf16>(in.shape, 1))),
          scratch_(scratch_size_)
    {
    }

    /// Without scratch: the kernels with teams of threads would refuse it.
    void forward(const Exec& exec, const std::int32_t* start = nullptr)
    {
        attention<bf16>(exec, shape_, q_.data(), k_.data(), v_.data(), start, o_.data(), lse_.data(), {},
                        {starts(), in_use(sinks_)});
    }
    void backward(const Exec& exec) { attention_grad<bf16>(exec, shape_, grad(), scratch()); }

    AttentionGrad<bf16> grad() const
    {
        return {dout_.data(), q_.data(),  k_.data(),  v_.data(),  o_.data(),
                lse_.data(),  dq_.data(), dk_.data(), dv_.data(), starts()};
    }
    bf16* o() const { return o_.data(); }
    float* lse() const { return lse_.data(); }
    Scratch scratch() const { return {scratch_.data(), scratch_size_}; }

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

    const std::int32_t* starts() const { return in_use(starts_); }
    template <class T>
    static const T* in_use(const DeviceArray<T>& array)
    {
        return array.size() > 0 ? array.data() : nullptr;
    }

    AttentionShape shape_;
    DeviceArray<bf16> q_, k_, v_, dout_, o_, dq_, dk_, dv_;
    DeviceArray<float> lse_;
    DeviceArray<std::int32_t> starts_;
    DeviceArray<float> sinks_;
    Bytes scratch_size_;
    DeviceArray<char> scratch_;
};

inline void require_same(const OnDevice::Results& a, const OnDevice::Results& b)
{
    REQUIRE(same_bits(a.o, b.o));
    REQUIRE(same_bits(a.lse, b.lse));
    REQUIRE(same_bits(a.dq, b.dq));
    REQUIRE(same_bits(a.dk, b.dk));
    REQUIRE(same_bits(a.dv, b.dv));
}

/// All five against the naive reference.
inline void require_right(const Inputs& in, const OnDevice::Results& got)
{
    INFO(in.text());
    Doubles lse, dq, dk, dv;
    const Doubles o = reference::attention(in.sizes(), wide(in.q), wide(in.k), wide(in.v), &lse);
    require_close(got.o, o, tolerance<bf16>, "o");
    require_close(got.lse, lse, tolerance<float>, "lse");
    reference::attention_grad(in.sizes(), wide(in.dout), wide(in.q), wide(in.k), wide(in.v), wide(got.o), dq,
                              dk, dv);
    require_close_gradient(got.dq, dq, "dq");
    require_close_gradient(got.dk, dk, "dk");
    require_close_gradient(got.dv, dv, "dv");
}

} // namespace trivium::kernels
