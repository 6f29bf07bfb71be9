#include "ground.hpp"

#include "mpi/device_collective.hpp"

#include <algorithm>
#include <new>

using namespace trivium;

namespace {

class HostGround final : public Ground {
public:
    explicit HostGround(Comm& comm) : comm_(comm) {}
    Comm& comm() override { return comm_; }
    bool on_device() const override { return false; }
    std::shared_ptr<std::byte> allocate(Bytes bytes) override
    {
        constexpr std::align_val_t alignment{64};
        return {static_cast<std::byte*>(operator new(static_cast<std::size_t>(bytes), alignment)),
                [=](std::byte* data) { operator delete(data, alignment); }};
    }
    void write(std::byte* to, const std::vector<std::byte>& from) override
    {
        std::copy(from.begin(), from.end(), to);
    }
    std::vector<std::byte> read(const std::byte* from, Bytes bytes) override { return {from, from + bytes}; }
    std::unique_ptr<Move> collective(CollectiveShape shape, Piece scratch, bool) override
    {
        struct HostMove final : Move {
            Collective collective;
            explicit HostMove(Collective made) : collective(std::move(made)) {}
            void start() override { collective.start(); }
            bool progress() override { return collective.progress(); }
            void finish() override { collective.finish(); }
        };
        return std::make_unique<HostMove>(Collective(comm_, std::move(shape), scratch));
    }

private:
    Comm& comm_;
};

/// All on stream 0.
class DeviceGround final : public Ground {
public:
    DeviceGround(Comm& comm, DeviceComm& devices, TestDevice& device)
        : comm_(comm), devices_(devices), device_(device)
    {
    }
    Comm& comm() override { return comm_; }
    bool on_device() const override { return true; }
    bool slow() const override { return device_.slow(); }
    std::shared_ptr<std::byte> allocate(Bytes bytes) override { return device_.allocate(bytes); }
    void write(std::byte* to, const std::vector<std::byte>& from) override { device_.write(to, from, 0); }
    std::vector<std::byte> read(const std::byte* from, Bytes bytes) override
    {
        device_.wait(0);
        return device_.read(from, bytes);
    }
    std::unique_ptr<Move> collective(CollectiveShape shape, Piece scratch, bool deterministic) override
    {
        struct DeviceMove final : Move {
            DeviceGround& ground;
            DeviceCollective collective;
            DeviceMove(DeviceGround& on, DeviceCollective made) : ground(on), collective(std::move(made)) {}
            void start() override
            {
                if (const u64 planned = agree(ground.comm_, ground.devices_.planned());
                    planned != ground.connected_) {
                    ground.device_.wait(0);
                    ground.devices_.connect(planned);
                    ground.connected_ = planned;
                }
                collective.enqueue(ground.device_.stream(0));
            }
            bool progress() override
            {
                finish();
                return true;
            }
            void finish() override
            {
                ground.device_.wait(0);
                ground.devices_.check();
            }
        };
        return std::make_unique<DeviceMove>(
            *this, DeviceCollective(devices_, std::move(shape), scratch, deterministic));
    }

private:
    Comm& comm_;
    DeviceComm& devices_;
    TestDevice& device_;
    u64 connected_ = 0;
};

} // namespace

std::unique_ptr<Ground> make_host_ground(Comm& comm) { return std::make_unique<HostGround>(comm); }

std::unique_ptr<Ground> make_device_ground(Comm& comm, DeviceComm& devices, TestDevice& device)
{
    return std::make_unique<DeviceGround>(comm, devices, device);
}
