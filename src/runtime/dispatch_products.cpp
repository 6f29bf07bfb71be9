// Products: a rule becomes one matrix product with its epilogue, compiled once per shape.
#include "base/check.hpp"
#include "ir/product_form.hpp"
#include "kernels/gemm.hpp"
#include "runtime/dispatch.hpp"

#include <map>
#include <tuple>

namespace trivium {

struct Dispatch::Products {
    using Key = std::tuple<i64, i64, i64, i64, bool, bool, DType, DType, kernels::Epilogue, Fp8, Fp8>;
    std::map<Key, std::unique_ptr<kernels::Product>> made;
};

namespace {

kernels::Epilogue epilogue_of(OpKind kind)
{
    switch (kind) {
    case OpKind::matmul_bias: return kernels::Epilogue::bias;
    case OpKind::matmul_bias_gelu: return kernels::Epilogue::bias_gelu;
    case OpKind::matmul_gelu_grad: return kernels::Epilogue::gelu_grad;
    default: return kernels::Epilogue::none;
    }
}

kernels::EpilogueOperands epilogue_operands(const Binding& b, kernels::Epilogue epilogue)
{
    switch (epilogue) {
    case kernels::Epilogue::none: break;
    case kernels::Epilogue::bias: return {b.operands[2], nullptr};
    case kernels::Epilogue::bias_gelu: return {b.operands[2], b.results[1]};
    case kernels::Epilogue::gelu_grad: return {nullptr, b.operands[2]};
    }
    return {};
}

} // namespace

Dispatch::Dispatch(int threads) : threads_(threads), products_(std::make_unique<Products>()) {}
Dispatch::~Dispatch() = default;

Call Dispatch::bind_product(const Binding& binding)
{
    const Graph& graph = *binding.graph;
    const Op& op = *binding.op;
    const std::string place = op.scope + "." + info(op).name;
    const ProductForm form = product_form(rule_of(graph, op), place);
    const DType in = graph[op.operands[0]].type.dtype, out = graph[op.results[0]].type.dtype;
    const kernels::Epilogue epilogue = epilogue_of(op.kind);
    const Fp8Formats formats = op.attrs.fp8.value_or(Fp8Formats{Fp8::none, Fp8::none});
    const Fp8 fp8_a = formats[form.swapped ? 1 : 0], fp8_b = formats[form.swapped ? 0 : 1];
    std::unique_ptr<kernels::Product>& product = products_->made[{
        form.batch, form.m, form.n, form.k, form.trans_a, form.trans_b, in, out, epilogue, fp8_a, fp8_b}];
    if (!product) {
        kernels::ProductShape shape;
        shape.m = form.m;
        shape.n = form.n;
        shape.k = form.k;
        shape.transpose_a = form.trans_a;
        shape.transpose_b = form.trans_b;
        shape.in = in;
        shape.out = out;
        shape.batch = form.batch;
        shape.stride_a = form.m * form.k;
        shape.stride_b = form.k * form.n;
        shape.stride_c = form.m * form.n;
        shape.epilogue = epilogue;
        shape.fp8_a = fp8_a;
        shape.fp8_b = fp8_b;
        product = std::make_unique<kernels::Product>(shape, threads_, binding.scratch.size);
    }
    TRV_CHECK(product->scratch_bytes() <= binding.scratch.size, place, " needs ", product->scratch_bytes(),
              " bytes of scratch; the machine file allows ", binding.scratch.size);
    const void *a = binding.operands[form.swapped ? 1 : 0], *b = binding.operands[form.swapped ? 0 : 1];
    return [ready = product.get(), a, b, c = binding.results[0], overwrite = binding.overwrite,
            scratch = binding.scratch, more = epilogue_operands(binding, epilogue)](
               const kernels::Exec& exec) { ready->run(exec, a, b, c, overwrite, scratch, more); };
}

} // namespace trivium
