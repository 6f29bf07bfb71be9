// Attention with cuDNN graphs, through NVIDIA's header-only frontend.
#include "kernels/cudnn_attention.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "check.hpp"
#include "kernels/device/aligned.hpp"
#include "kernels/device/stream.hpp"

#include <array>
#include <cmath>
#include <cstring> // needed by the frontend
#include <map>
#include <memory>
#include <mutex>
#include <tuple>
#include <unordered_map>
#include <vector>

#define CUDNN_FRONTEND_SKIP_JSON_LIB // plans are not serialised
#include <cudnn_frontend.h>

namespace trivium::kernels {

namespace {

namespace fe = cudnn_frontend;
using Attributes = fe::graph::Tensor_attributes;

/// Checks every call of cuDNN.
void check(bool good, const char* call, const std::string& reason)
{
    if (!good)
        throw IoError({"cuDNN", str(call, " failed"), reason,
                       "configure with -DTRIVIUM_CUDNN=OFF to build without cuDNN"});
}

void check(cudnnStatus_t status, const char* call)
{
    check(status == CUDNN_STATUS_SUCCESS, call, cudnnGetErrorString(status));
}

void check(fe::error_t error, const char* call) { check(error.is_good(), call, error.get_message()); }

/// The tensors of a graph by number.
enum Tensor : std::int64_t {
    tensor_q = 1,
    tensor_k,
    tensor_v,
    tensor_o,
    tensor_lse,
    tensor_dout,
    tensor_dq,
    tensor_dk,
    tensor_dv
};

/// Elements between the tokens of a tensor other than lse.
i64 stride_of(const AttentionShape& shape, Tensor t)
{
    const AttentionRows s = shape.strides();
    switch (t) {
    case tensor_q: return s.q;
    case tensor_k: return s.k;
    case tensor_v: return s.v;
    case tensor_dq: return s.dq;
    case tensor_dk: return s.dk;
    case tensor_dv: return s.dv;
    default: return shape.query_row();
    }
}

bool of_keys(Tensor t) { return t == tensor_k || t == tensor_v || t == tensor_dk || t == tensor_dv; }

/// The part of the batch that one run of a plan processes: some samples, or some kv heads of one sample.
struct Part {
    i64 batch = 0, kv_heads = 0;
};

/// All parts that divide the batch evenly, largest first.
std::vector<Part> parts_of(const AttentionShape& shape)
{
    std::vector<Part> parts;
    for (i64 n = shape.batch; n >= 1; --n)
        if (shape.batch % n == 0)
            parts.push_back({n, shape.kv_heads});
    for (i64 n = shape.kv_heads - 1; n >= 1; --n)
        if (shape.kv_heads % n == 0)
            parts.push_back({1, n});
    return parts;
}

struct Plan {
    Part part;
    std::unique_ptr<fe::graph::Graph> graph; ///< null if cuDNN has none
    Bytes workspace = 0;
};

/// Builds the graph of a part. In cuDNN a tensor is [batch, heads, length, head_dim] with strides, and query
/// head h belongs to kv head h / q_per_kv, which is our memory layout. Its mask keeps the keys t <= i, and
/// with a window those with t + window > i; its statistics are natural logarithms.
class GraphOf {
public:
    GraphOf(const AttentionShape& shape, const Part& part) : shape_(shape), part_(part)
    {
        graph_->set_io_data_type(fe::DataType_t::BFLOAT16)
            .set_intermediate_data_type(fe::DataType_t::FLOAT)
            .set_compute_data_type(fe::DataType_t::FLOAT);
    }

    std::unique_ptr<fe::graph::Graph> forward()
    {
        auto attributes = fe::graph::SDPA_attributes()
                              .set_name("attention")
                              .set_generate_stats(true)
                              .set_causal_mask(true)
                              .set_attn_scale(scale());
        if (shape_.window > 0)
            attributes.set_sliding_window_length(static_cast<int>(shape_.window));
        const auto [o, lse] = graph_->sdpa(in(tensor_q), in(tensor_k), in(tensor_v), attributes);
        out(tensor_o, *o);
        out(tensor_lse, *lse);
        return std::move(graph_);
    }

    std::unique_ptr<fe::graph::Graph> backward()
    {
        auto attributes = fe::graph::SDPA_backward_attributes()
                              .set_name("attention_grad")
                              .set_deterministic_algorithm(shape_.deterministic)
                              .set_causal_mask(true)
                              .set_attn_scale(scale());
        if (shape_.window > 0)
            attributes.set_sliding_window_length(static_cast<int>(shape_.window));
        const auto [dq, dk, dv] =
            graph_->sdpa_backward(in(tensor_q), in(tensor_k), in(tensor_v), in(tensor_o), in(tensor_dout),
                                  in(tensor_lse), attributes);
        out(tensor_dq, *dq);
        out(tensor_dk, *dk);
        out(tensor_dv, *dv);
        return std::move(graph_);
    }

private:
    float scale() const
    {
        const double size = static_cast<double>(shape_.head_dim);
        return static_cast<float>(shape_.scale == 0 ? 1 / std::sqrt(size) : shape_.scale);
    }

    void describe(Tensor t, Attributes& at) const
    {
        const i64 per_key = of_keys(t) ? 1 : shape_.q_per_kv;
        const i64 heads = part_.kv_heads * per_key, length = of_keys(t) ? shape_.kv_len : shape_.q_len;
        const i64 row = stride_of(shape_, t);
        at.set_uid(t);
        if (t == tensor_lse)
            at.set_dim({part_.batch, heads, length, 1})
                .set_stride({heads * length, length, 1, 1})
                .set_data_type(fe::DataType_t::FLOAT);
        else
            at.set_dim({part_.batch, heads, length, shape_.head_dim})
                .set_stride({length * row, shape_.head_dim, row, 1})
                .set_data_type(fe::DataType_t::BFLOAT16);
    }

    std::shared_ptr<Attributes> in(Tensor t)
    {
        Attributes at;
        describe(t, at);
        return graph_->tensor(at);
    }

    void out(Tensor t, Attributes& at) const
    {
        describe(t, at);
        at.set_output(true);
    }

    AttentionShape shape_;
    Part part_;
    std::unique_ptr<fe::graph::Graph> graph_ = std::make_unique<fe::graph::Graph>();
};

/// Plans for one device.
class Plans {
public:
    Plans() { check(cudnnCreate(&handle_), "cudnnCreate"); }

    cudnnHandle_t handle() const { return handle_; }

    /// The first part whose plan fits the scratch; made on the first call.
    const Plan& plan(const AttentionShape& s, bool backward, Bytes scratch)
    {
        const AttentionRows& r = s.rows;
        const Key key{s.batch,
                      s.q_len,
                      s.kv_heads,
                      s.q_per_kv,
                      s.head_dim,
                      s.window,
                      s.scale,
                      backward,
                      s.deterministic,
                      scratch,
                      {r.q, r.k, r.v, r.dq, r.dk, r.dv}};
        const auto found = plans_.find(key);
        return found != plans_.end() ? found->second
                                     : plans_.emplace(key, choose(s, backward, scratch)).first->second;
    }

private:
    using Key = std::tuple<i64, i64, i64, i64, i64, i64, double, bool, bool, Bytes, std::array<i64, 6>>;

    Plan choose(const AttentionShape& shape, bool backward, Bytes scratch) const
    {
        double per_group = 0; // bytes, from the last plan
        for (const Part& part : parts_of(shape)) {
            if (static_cast<double>(part.batch * part.kv_heads) * per_group > static_cast<double>(scratch))
                continue;
            Plan plan = make(shape, part, backward);
            if (!plan.graph || plan.workspace <= scratch)
                return plan;
            per_group = static_cast<double>(plan.workspace) / static_cast<double>(part.batch * part.kv_heads);
        }
        return {};
    }

    Plan make(const AttentionShape& shape, const Part& part, bool backward) const
    {
        GraphOf graph_of(shape, part);
        Plan plan{part, backward ? graph_of.backward() : graph_of.forward()};
        fe::error_t error = plan.graph->build(handle_, {fe::HeurMode_t::A});
        if (error.is_bad()) {
            log_debug(str("cuDNN has no ", backward ? "attention_grad" : "attention", " of b ", part.batch,
                          ", s ", shape.q_len, ", g ", part.kv_heads, ", r ", shape.q_per_kv, ", e ",
                          shape.head_dim, ", window ", shape.window, ": ", error.get_message()));
            return {};
        }
        check(plan.graph->get_workspace_size(plan.workspace), "get_workspace_size");
        return plan;
    }

    cudnnHandle_t handle_ = nullptr;
    std::map<Key, Plan> plans_;
};

/// Plans of the current device. Never destroyed, because the driver may be unloaded before static objects.
Plans& plans()
{
    static std::map<int, Plans>& of_devices = *new std::map<int, Plans>;
    int device = 0;
    check_cuda(cudaGetDevice(&device), "cudaGetDevice");
    return of_devices[device];
}

using Addresses = std::vector<std::pair<Tensor, const void*>>;

/// Runs the plan on each part of the batch in turn.
bool run(const Exec& exec, const AttentionShape& shape, bool backward, const Addresses& tensors,
         Scratch scratch)
{
    static std::mutex one_at_a_time; // a handle has one stream
    const std::lock_guard lock(one_at_a_time);
    Plans& device = plans();
    const Plan& plan = device.plan(shape, backward, scratch.size);
    if (!plan.graph)
        return false;
    check(cudnnSetStream(device.handle(), static_cast<cudaStream_t>(stream_of(exec))), "cudnnSetStream");
    for (i64 b = 0; b < shape.batch; b += plan.part.batch)
        for (i64 g = 0; g < shape.kv_heads; g += plan.part.kv_heads) {
            std::unordered_map<std::int64_t, void*> at;
            for (const auto& [t, address] : tensors) {
                const i64 groups = b * shape.kv_heads, length = of_keys(t) ? shape.kv_len : shape.q_len;
                const i64 per_key = of_keys(t) ? 1 : shape.q_per_kv;
                const i64 skip = t == tensor_lse
                                     ? 4 * (groups + g) * per_key * length
                                     : 2 * (b * length * stride_of(shape, t) + g * per_key * shape.head_dim);
                at[t] = const_cast<char*>(static_cast<const char*>(address)) + skip;
            }
            check(plan.graph->execute(device.handle(), at, scratch.data),
                  backward ? "attention_grad" : "attention");
        }
    return true;
}

/// Requires lengths in whole blocks of 128: for others, some versions of cuDNN read the lengths on the host.
bool applies(const AttentionShape& s)
{
    return s.cudnn && s.head_dim > 0 && s.head_dim % 8 == 0 && s.head_dim <= 128 && s.q_len == s.kv_len &&
           s.kv_len > 0 && s.kv_len % 128 == 0 && s.batch > 0 && s.kv_heads > 0 && s.q_per_kv > 0 &&
           s.scale >= 0 && s.window < s.kv_len && s.chunk == 0 && s.cap == 0;
}

} // namespace

bool cudnn_attention(const Exec& exec, const AttentionShape& shape, const bf16* q_bsgre, const bf16* k_btge,
                     const bf16* v_btge, bf16* o_bsgre, float* lse_bgrs, Scratch scratch)
{
    return applies(shape) && aligned(q_bsgre, k_btge, v_btge, o_bsgre, lse_bgrs, scratch.data) &&
           run(exec, shape, false,
               {{tensor_q, q_bsgre},
                {tensor_k, k_btge},
                {tensor_v, v_btge},
                {tensor_o, o_bsgre},
                {tensor_lse, lse_bgrs}},
               scratch);
}

bool cudnn_attention_grad(const Exec& exec, const AttentionShape& shape, const AttentionGrad<bf16>& args,
                          Scratch scratch)
{
    return applies(shape) &&
           aligned(args.dout_bsgre, args.q_bsgre, args.k_btge, args.v_btge, args.o_bsgre, args.lse_bgrs,
                   args.dq_bsgre, args.dk_btge, args.dv_btge, scratch.data) &&
           run(exec, shape, true,
               {{tensor_q, args.q_bsgre},
                {tensor_k, args.k_btge},
                {tensor_v, args.v_btge},
                {tensor_o, args.o_bsgre},
                {tensor_lse, args.lse_bgrs},
                {tensor_dout, args.dout_bsgre},
                {tensor_dq, args.dq_bsgre},
                {tensor_dk, args.dk_btge},
                {tensor_dv, args.dv_btge}},
               scratch);
}

} // namespace trivium::kernels
