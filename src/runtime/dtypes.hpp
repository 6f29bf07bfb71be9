#pragma once
// From the graph's element types to C++ types.
#include "base/check.hpp"
#include "ir/type.hpp"
#include "kernels/exec.hpp"

namespace trivium {

inline kernels::DType kernel_dtype(DType type)
{
    switch (type) {
    case DType::f64: return kernels::DType::f64;
    case DType::f32: return kernels::DType::f32;
    case DType::bf16: return kernels::DType::bf16;
    case DType::i32: break;
    }
    throw InternalError(__FILE__, __LINE__, "no kernel computes with i32");
}

/// Calls `f` with a value of the C++ type that stands for `type`: f(double{}), f(float{}) or f(bf16{}).
template <class F>
auto with_type(DType type, F&& f)
{
    switch (kernel_dtype(type)) {
    case kernels::DType::f64: return f(double{});
    case kernels::DType::f32: return f(float{});
    default: return f(bf16{});
    }
}

} // namespace trivium
