#pragma once
// The device of this process as the tests of communicators use one.
#include "../ranks/ground.hpp"
#include "kernels/device/memory.hpp"
#include "mpi/nccl.hpp"
#include "runtime/device.hpp"
#include "runtime/device/staging.hpp"

#include <map>

class RealDevice final : public TestDevice {
public:
    /// All ranks of the grid make one.
    explicit RealDevice(const trivium::Grid& grid)
        : device_(trivium::device_index(grid, trivium::device_count())), slow_(grid.world().size() > 2),
          nccl_(trivium::make_nccl(grid))
    {
    }

    std::shared_ptr<trivium::DeviceBackend> backend() override { return nccl_; }
    bool slow() const override { return slow_; }
    void* stream(int number) override { return at(number).exec().stream; }
    void wait(int number) override { at(number).wait(); }
    std::shared_ptr<std::byte> allocate(trivium::Bytes bytes) override
    {
        const auto block = std::make_shared<trivium::kernels::DeviceBlock>("a test", bytes);
        return {block, block->data()};
    }
    void write(std::byte* to, const std::vector<std::byte>& from, int number) override
    {
        at(number).wait(); // the copy waits for all work of the device, and so does what follows it
        trivium::copy_to_device(to, from.data(), static_cast<trivium::Bytes>(from.size()));
    }
    std::vector<std::byte> read(const std::byte* from, trivium::Bytes bytes) override
    {
        std::vector<std::byte> content(static_cast<std::size_t>(bytes));
        trivium::copy_to_host(content.data(), from, bytes);
        return content;
    }

private:
    const trivium::Stream& at(int number) { return streams_.try_emplace(number, device_).first->second; }

    trivium::Device device_;
    bool slow_;
    std::shared_ptr<trivium::DeviceBackend> nccl_;
    std::map<int, trivium::Stream> streams_;
};
