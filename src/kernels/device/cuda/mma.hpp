#pragma once
// Internal: the Block of tensor_block.hpp on a device, with instructions of sm_80 and later (PTX ISA, 9.7.14
// "Warp-level matrix instructions" and 9.7.9.25 "Asynchronous copy").
#include "base/bf16.hpp"
#include "tensor_block.hpp"

namespace trivium::kernels {

class CudaBlock {
public:
    __device__ CudaBlock()
    {
        extern __shared__ __align__(128) char shared_memory[];
        start_ = static_cast<u32>(__cvta_generic_to_shared(shared_memory));
    }

    TRV_DEVICE u32 thread() const { return threadIdx.x; }
    TRV_DEVICE u32 index() const { return blockIdx.x; }

    TRV_DEVICE void sync() const { __syncthreads(); }
    TRV_DEVICE void sync_warp() const { __syncwarp(); }

    TRV_DEVICE void copy_async(u32 to, const bf16* from, bool inside) const
    {
        asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(start_ + to),
                     "l"(__cvta_generic_to_global(from)), "r"(inside ? 16 : 0)
                     : "memory");
    }
    TRV_DEVICE void copy_async(u32 to, const float* from) const
    {
        copy_async(to, reinterpret_cast<const bf16*>(from), true);
    }
    TRV_DEVICE void commit() const { asm volatile("cp.async.commit_group;" ::: "memory"); }
    TRV_DEVICE void wait() const { asm volatile("cp.async.wait_group 0;" ::: "memory"); }

    TRV_DEVICE void load_matrices(u32 (&to)[4], u32 at) const
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(start_ + at)
                     : "memory");
    }
    TRV_DEVICE void load_transposed(u32 (&to)[4], u32 at) const
    {
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                     : "r"(start_ + at)
                     : "memory");
    }
    TRV_DEVICE Words load_shared(u32 at) const
    {
        Words w;
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w.word[0]), "=r"(w.word[1]), "=r"(w.word[2]), "=r"(w.word[3])
                     : "r"(start_ + at)
                     : "memory");
        return w;
    }
    TRV_DEVICE void store_shared(u32 at, u32 word) const
    {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(start_ + at), "r"(word) : "memory");
    }

    TRV_DEVICE Words load(const bf16* from) const { return *reinterpret_cast<const Words*>(from); }
    TRV_DEVICE float load_float(const float* from) const { return *from; }
    TRV_DEVICE void store(bf16* to, const Words& words) const { *reinterpret_cast<Words*>(to) = words; }
    TRV_DEVICE void store(float* to, float value) const { *to = value; }

    TRV_DEVICE void multiply(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) const
    {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
            "{%8, %9}, {%0, %1, %2, %3};"
            : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }

    TRV_DEVICE float shuffle_xor(float value, u32 mask) const
    {
        return __shfl_xor_sync(0xffffffffu, value, static_cast<int>(mask));
    }
    TRV_DEVICE float exp2(float x) const
    {
        float y;
        asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
    /// Two bf16, rounded to nearest even.
    TRV_DEVICE u32 pack(float low, float high) const
    {
        u32 both;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
        return both;
    }

private:
    u32 start_;
};

} // namespace trivium::kernels
