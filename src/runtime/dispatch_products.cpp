// Products: a rule becomes one matrix product with its epilogue, compiled once per shape, or sums over
// factors. Convolutions: prepared once per shape.
#include "base/check.hpp"
#include "ir/general/general_rules.hpp"
#include "ir/general/op_view.hpp"
#include "ir/ops/product_form.hpp"
#include "kernels/experts/grouped_product.hpp"
#include "kernels/gemm.hpp"
#include "kernels/general/convolution.hpp"
#include "kernels/general/einsum.hpp"
#include "runtime/expert_shapes.hpp"
#include "runtime/general_shapes.hpp"

#include <map>
#include <tuple>

namespace trivium {

struct Dispatch::Products {
    std::map<kernels::ProductShape, std::unique_ptr<kernels::Product>> made;
    using Key = std::tuple<kernels::ConvKind, kernels::ConvShape, DType, Bytes>; ///< with the scratch
    std::map<Key, std::unique_ptr<kernels::Convolution>> convolutions;
    using GroupedKey = std::tuple<kernels::GroupedKind, kernels::GroupedShape, Bytes>; ///< with the scratch
    std::map<GroupedKey, std::unique_ptr<kernels::GroupedProduct>> grouped;
};

namespace {

kernels::Epilogue epilogue_of(OpKind kind)
{
    switch (kind) {
    case OpKind::matmul_bias: return kernels::Epilogue::bias;
    case OpKind::matmul_bias_gelu: return kernels::Epilogue::bias_gelu;
    case OpKind::matmul_gelu_grad: return kernels::Epilogue::gelu_grad;
    case OpKind::matmul_add: return kernels::Epilogue::add;
    default: return kernels::Epilogue::none;
    }
}

kernels::EpilogueOperands epilogue_operands(const Binding& b, kernels::Epilogue epilogue)
{
    switch (epilogue) {
    case kernels::Epilogue::none: break;
    case kernels::Epilogue::bias: return {b.operands[2], nullptr};
    case kernels::Epilogue::bias_gelu: return {b.operands[2], b.results[1]};
    case kernels::Epilogue::gelu_grad:
    case kernels::Epilogue::add: return {nullptr, b.operands[2]};
    }
    return {};
}

/// The rule's form as a single matrix product, if the libraries compute it: not of i32.
std::optional<ProductForm> library_form(const FactorRule& rule, const Binding& binding)
{
    if ((*binding.graph)[binding.op->operands[0]].type.dtype == DType::i32)
        return {};
    return find_product_form(rule);
}

kernels::EinsumShape einsum_shape(const FactorRule& rule)
{
    const FactorList& result = rule.results[0];
    std::vector<int> order = result; // the reduced factors last
    for (std::size_t i = 0; i < 2; ++i)
        for (const int f : rule.operands[i])
            if (std::find(order.begin(), order.end(), f) == order.end())
                order.push_back(f);
    kernels::EinsumShape s;
    TRV_CHECK(order.size() <= 16, "a product over ", order.size(), " factors; the kernel has room for 16");
    s.factors = static_cast<int>(order.size());
    s.reduced = s.factors - static_cast<int>(result.size());
    for (std::size_t i = 0; i < order.size(); ++i)
        s.size[i] = rule[order[i]].size;
    const auto put_strides = [&](i64(&strides)[16], const FactorList& dims) {
        i64 stride = 1;
        for (std::size_t d = dims.size(); d-- > 0; stride *= rule[dims[d]].size)
            strides[std::find(order.begin(), order.end(), dims[d]) - order.begin()] += stride;
    };
    put_strides(s.a, rule.operands[0]);
    put_strides(s.b, rule.operands[1]);
    put_strides(s.c, result);
    return s;
}

Call bind_einsum(const Binding& binding, const FactorRule& rule)
{
    const Args a{binding};
    TRV_CHECK(binding.op->kind == OpKind::matmul, "op '", info(*binding.op).name,
              "' is not a single matrix product");
    const DType in = a.in_type(0).dtype, out = a.out_type(0).dtype;
    TRV_CHECK(a.in_type(1).dtype == in && (out == in || out == accumulator_of(in)), "a product of ",
              a.in_type(0), " and ", a.in_type(1), " into ", a.out_type(0));
    const kernels::EinsumShape s = einsum_shape(rule);
    return with_tensor_type(in, [&](auto from) {
        using T = decltype(from);
        const auto into = [&](auto to) {
            using To = decltype(to);
            return call_of(kernels::einsum<T, To>, s, a.in<T>(0), a.in<T>(1), a.out<To>(0), a.over());
        };
        return out == in ? into(T{}) : into(kernels::Acc<T>{});
    });
}

/// The shape of the convolution that the op is, or whose gradient it is. `x`, `w`, `y`: the shapes of its
/// tensors on this rank.
kernels::ConvShape convolution_shape(const Args& a, const Shape& x, const Shape& w, const Shape& y)
{
    const auto dims = general::window_dims(OpView(*a.b.graph, *a.b.op), {w.begin() + 2, w.end()});
    kernels::ConvShape s;
    s.spatial = static_cast<int>(dims.size());
    s.b = x[0];
    s.c = x[1];
    s.o = y[1];
    s.groups = std::max<i64>(1, a.number_or(Attr::groups, 1));
    put(s.in, x, 2);
    put(s.k, w, 2);
    put(s.out, y, 2);
    put_windows(s, dims);
    return s;
}

} // namespace

Dispatch::Dispatch(int threads) : threads_(threads), products_(std::make_unique<Products>()) {}
Dispatch::~Dispatch() = default;

Call Dispatch::bind_product(const Binding& binding)
{
    const Graph& graph = *binding.graph;
    const Op& op = *binding.op;
    const std::string place = op.scope + "." + info(op).name;
    const FactorRule rule = rule_of(graph, op);
    const std::optional<ProductForm> library = library_form(rule, binding);
    if (!library)
        return bind_einsum(binding, rule);
    const ProductForm& form = *library;
    const Fp8Formats formats = op.attrs->fp8.value_or(Fp8Formats{Fp8::none, Fp8::none});
    const int first = form.swapped ? 1 : 0, second = 1 - first;
    const kernels::ProductShape shape{.m = form.m,
                                      .n = form.n,
                                      .k = form.k,
                                      .transpose_a = form.trans_a,
                                      .transpose_b = form.trans_b,
                                      .in = graph[op.operands[0]].type.dtype,
                                      .out = graph[op.results[0]].type.dtype,
                                      .batch = form.batch,
                                      .stride_a = form.m * form.k,
                                      .stride_b = form.k * form.n,
                                      .stride_c = form.m * form.n,
                                      .row_a = Args{binding}.in_row(first),
                                      .row_b = Args{binding}.in_row(second),
                                      .epilogue = epilogue_of(op.kind),
                                      .fp8_a = formats[first],
                                      .fp8_b = formats[second]};
    std::unique_ptr<kernels::Product>& product = products_->made[shape];
    if (!product)
        product = std::make_unique<kernels::Product>(shape, threads_, binding.scratch.size);
    TRV_CHECK(product->scratch_bytes() <= binding.scratch.size, place, " needs ", product->scratch_bytes(),
              " bytes of scratch; the machine file allows ", binding.scratch.size);
    const void *a = binding.operands[first], *b = binding.operands[second];
    return [ready = product.get(), a, b, c = binding.results[0], overwrite = binding.overwrite,
            scratch = binding.scratch, more = epilogue_operands(binding, shape.epilogue)](
               const kernels::Exec& exec) { ready->run(exec, a, b, c, overwrite, scratch, more); };
}

Call Dispatch::bind_convolution(const Binding& binding)
{
    using kernels::ConvKind;
    const Args a{binding};
    const OpKind op = binding.op->kind;
    const ConvKind kind = op == OpKind::convolution          ? ConvKind::forward
                          : op == OpKind::convolution_grad_x ? ConvKind::grad_x
                                                             : ConvKind::grad_w;
    // Operands: x, w; dy, w; dy, x.
    const Shape &first = a.in_shape(0), &second = a.in_shape(1), &result = a.out_shape(0);
    const kernels::ConvShape shape = kind == ConvKind::forward  ? convolution_shape(a, first, second, result)
                                     : kind == ConvKind::grad_x ? convolution_shape(a, result, second, first)
                                                                : convolution_shape(a, second, result, first);
    const DType type = a.in_type(0).dtype;
    TRV_CHECK(a.in_type(1).dtype == type && a.out_type(0).dtype == type, "a convolution of ", a.in_type(0),
              " with ", a.in_type(1));
    std::unique_ptr<kernels::Convolution>& made =
        products_->convolutions[{kind, shape, type, binding.scratch.size}];
    if (!made)
        made = std::make_unique<kernels::Convolution>(kind, shape, type, threads_, binding.scratch.size);
    const void *x = binding.operands[0], *y = binding.operands[1];
    void* const z = binding.results[0];
    if (made->scratch_bytes() > binding.scratch.size)
        return call_of(kernels::plain_convolution, kind, shape, type, x, y, z);
    return [ready = made.get(), x, y, z, scratch = binding.scratch](const kernels::Exec& e) {
        ready->run(e, x, y, z, scratch);
    };
}

Call Dispatch::bind_grouped_product(const Binding& binding)
{
    using kernels::GroupedKind;
    const Args a{binding};
    const OpKind op = binding.op->kind;
    const GroupedKind kind = op == OpKind::grouped_matmul             ? GroupedKind::forward
                             : op == OpKind::grouped_matmul_grad_rows ? GroupedKind::grad_rows
                                                                      : GroupedKind::grad_weight;
    const Shape& weight = kind == GroupedKind::grad_weight ? a.out_shape(0) : a.in_shape(1);
    const kernels::GroupedShape shape{grouped_rows(a, 2), weight[1], weight[2], a.in_type(0).dtype,
                                      a.out_type(0).dtype};
    std::unique_ptr<kernels::GroupedProduct>& made = products_->grouped[{kind, shape, binding.scratch.size}];
    if (!made)
        made = std::make_unique<kernels::GroupedProduct>(kind, shape, threads_, binding.scratch.size);
    const void *x = binding.operands[0], *y = binding.operands[1];
    return [ready = made.get(), x, y, counts = a.ids(2), z = binding.results[0],
            overwrite = a.over() || kind != GroupedKind::grad_weight, scratch = binding.scratch](
               const kernels::Exec& exec) { ready->run(exec, x, y, counts, z, overwrite, scratch); };
}

} // namespace trivium
