#include "mpi/nccl/moves.hpp"

#include "base/check.hpp"
#include "mpi/nccl/tiles.hpp"

namespace trivium {

void check_cuda_call(cudaError_t status, const char* call)
{
    if (status != cudaSuccess)
        throw IoError({"CUDA", str(call, " failed"), cudaGetErrorString(status),
                       "run `nvidia-smi` to see the state of the device and who uses it"});
}

namespace {

__device__ tiles::Thread me() { return {blockIdx.x, gridDim.x, static_cast<int>(threadIdx.x)}; }

__global__ void __launch_bounds__(tiles::threads)
    copy_kernel(const __grid_constant__ tiles::Batch<tiles::DeviceCopy> all)
{
    tiles::copy_thread(all, me());
}

template <class T, class Op>
__global__ void __launch_bounds__(tiles::threads)
    combine_kernel(const __grid_constant__ tiles::Batch<tiles::DeviceCombine> all,
                   const __grid_constant__ tiles::Slots slots)
{
    tiles::combine_thread<T, Op>(all, slots, me());
}

template <class T, class Op>
void combine_of(const Combination& combination, cudaStream_t stream)
{
    tiles::combine<T>(
        combination, [&](const tiles::Batch<tiles::DeviceCombine>& all, const tiles::Slots& slots, i64 grid) {
            combine_kernel<T, Op><<<static_cast<unsigned>(grid), tiles::threads, 0, stream>>>(all, slots);
            check_cuda_call(cudaGetLastError(), "the launch of a sum");
        });
}

} // namespace

void copy_on_device(std::span<const CopyBlock> blocks, cudaStream_t stream)
{
    tiles::copy(blocks, [&](const tiles::Batch<tiles::DeviceCopy>& all, i64 grid) {
        copy_kernel<<<static_cast<unsigned>(grid), tiles::threads, 0, stream>>>(all);
        check_cuda_call(cudaGetLastError(), "the launch of a copy");
    });
}

void combine_on_device(const Combination& combination, cudaStream_t stream)
{
    tiles::with_combination(combination, [&](auto element, auto op) {
        combine_of<decltype(element), decltype(op)>(combination, stream);
    });
}

} // namespace trivium
