#pragma once
// Internal: calls of oneDNN, with its errors and its threads.
#include "base/check.hpp"
#include "base/dtype.hpp"

#include <omp.h>
#include <oneapi/dnnl/dnnl.hpp>

namespace trivium::kernels {

/// Returns f(). Throws InternalError if oneDNN reports an error in f; `what` names the operation.
template <class F>
auto checked_dnnl(const char* what, F f)
{
    try {
        return f();
    } catch (const dnnl::error& error) {
        throw InternalError(__FILE__, __LINE__,
                            str("oneDNN: ", what, ": ", error.what(), " (status ", error.status, ")"));
    }
}

/// Sets the number of OpenMP threads of the calling thread for a scope: oneDNN reads it when it makes a
/// primitive and when it runs one.
class ThreadScope {
public:
    explicit ThreadScope(int threads) : before_(omp_get_max_threads())
    {
        if (threads != before_)
            omp_set_num_threads(threads);
    }
    ThreadScope(const ThreadScope&) = delete;
    ThreadScope& operator=(const ThreadScope&) = delete;
    ~ThreadScope()
    {
        if (omp_get_max_threads() != before_)
            omp_set_num_threads(before_);
    }

private:
    int before_;
};

inline const dnnl::engine& dnnl_engine()
{
    static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
    return cpu;
}

/// \pre type is f32 or bf16 (not checked)
inline dnnl::memory::data_type dnnl_type(DType type)
{
    return type == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;
}

} // namespace trivium::kernels
