#include "kernels/epilogue.hpp"

#include "base/check.hpp"
#include "kernels/elementwise.hpp"

namespace trivium::kernels {

namespace {

template <class T>
void finish(const Exec& exec, const ProductShape& shape, T* c, const T* bias, T* pre)
{
    switch (shape.epilogue) {
    case Epilogue::none: break;
    case Epilogue::bias: bias_add(exec, shape.m, shape.n, c, bias, c); break;
    case Epilogue::bias_gelu:
        bias_add(exec, shape.m, shape.n, pre, bias, pre);
        gelu(exec, shape.m * shape.n, pre, c);
        break;
    case Epilogue::gelu_grad: gelu_grad(exec, shape.m * shape.n, c, pre, c); break;
    case Epilogue::add: add(exec, shape.m * shape.n, pre, c, c); break;
    }
}

} // namespace

void check_product(const ProductShape& shape, int threads)
{
    TRV_CHECK(threads >= 1 && shape.m >= 0 && shape.n >= 0 && shape.k >= 0 && shape.batch >= 0, "m ", shape.m,
              ", n ", shape.n, ", k ", shape.k, ", batch ", shape.batch, ", threads ", threads);
    TRV_CHECK(is_floating(shape.in) &&
                  (shape.out == shape.in || (shape.in == DType::bf16 && shape.out == DType::f32)),
              "no product of ", name_of(shape.in), " into ", name_of(shape.out));
    TRV_CHECK(shape.epilogue == Epilogue::none || (shape.batch == 1 && shape.out == shape.in),
              "an epilogue requires batch 1 and out = in; batch ", shape.batch);
    TRV_CHECK((shape.fp8_a == Fp8::none) == (shape.fp8_b == Fp8::none) &&
                  (shape.fp8_a == Fp8::none || (shape.batch == 1 && shape.in == DType::bf16)),
              "FP8 requires both operands, batch 1 and bf16; batch ", shape.batch);
    TRV_CHECK((shape.row_a == 0 && shape.row_b == 0) ||
                  (shape.batch == 1 && shape.fp8_a == Fp8::none &&
                   shape.row_of_a() >= (shape.transpose_a ? shape.m : shape.k) &&
                   shape.row_of_b() >= (shape.transpose_b ? shape.k : shape.n)),
              "row strides ", shape.row_a, " and ", shape.row_b, " require batch 1, no FP8 and wide rows; m ",
              shape.m, ", n ", shape.n, ", k ", shape.k, ", batch ", shape.batch);
}

void* product_target(const ProductShape& shape, void* c, const EpilogueOperands& operands)
{
    return shape.epilogue == Epilogue::bias_gelu ? operands.pre_mn : c;
}

void finish_product(const Exec& exec, const ProductShape& shape, void* c, const EpilogueOperands& operands)
{
    const auto finish_as = [&](auto type) {
        using T = decltype(type);
        finish<T>(exec, shape, static_cast<T*>(c), static_cast<const T*>(operands.bias_n),
                  static_cast<T*>(operands.pre_mn));
    };
    with_type(shape.out, finish_as);
}

} // namespace trivium::kernels
