#pragma once
// CUDA's device as the tests of communicators use one.
#include "../ranks/ground.hpp"
#include "kernels/device/cuda_check.hpp"
#include "mpi/nccl.hpp"
#include "runtime/device.hpp"

#include <map>

class CudaDevice final : public TestDevice {
public:
    /// All ranks of the grid make one.
    explicit CudaDevice(const trivium::Grid& grid)
        : device_(trivium::device_index(grid, trivium::device_count())), slow_(grid.world().size() > 2),
          nccl_(trivium::make_nccl(grid))
    {
    }
    ~CudaDevice() override
    {
        for (const auto& [number, stream] : streams_)
            cudaStreamDestroy(stream);
    }

    std::shared_ptr<trivium::DeviceBackend> backend() override { return nccl_; }
    bool slow() const override { return slow_; }
    void* stream(int number) override
    {
        const auto [place, made] = streams_.try_emplace(number);
        if (made)
            check(cudaStreamCreateWithFlags(&place->second, cudaStreamNonBlocking), "cudaStreamCreate");
        return place->second;
    }
    void wait(int number) override
    {
        check(cudaStreamSynchronize(static_cast<cudaStream_t>(stream(number))), "cudaStreamSynchronize");
    }
    std::shared_ptr<std::byte> allocate(trivium::Bytes bytes) override
    {
        void* memory = nullptr;
        check(cudaMalloc(&memory, static_cast<std::size_t>(bytes)), "cudaMalloc");
        return {static_cast<std::byte*>(memory), [](std::byte* data) { cudaFree(data); }};
    }
    void write(std::byte* to, const std::vector<std::byte>& from, int number) override
    {
        check(cudaMemcpyAsync(to, from.data(), from.size(), cudaMemcpyHostToDevice,
                              static_cast<cudaStream_t>(stream(number))),
              "cudaMemcpy");
    }
    std::vector<std::byte> read(const std::byte* from, trivium::Bytes bytes) override
    {
        std::vector<std::byte> content(static_cast<std::size_t>(bytes));
        check(cudaMemcpy(content.data(), from, content.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
        return content;
    }

private:
    static void check(cudaError_t status, const char* call) { trivium::kernels::check_cuda(status, call); }

    trivium::Device device_;
    bool slow_;
    std::shared_ptr<trivium::DeviceBackend> nccl_;
    std::map<int, cudaStream_t> streams_;
};
