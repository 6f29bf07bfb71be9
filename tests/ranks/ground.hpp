#pragma once
// Where a collective under test runs, and its memory: on the host over a Comm, or on a device's stream.
#include "mpi/collective.hpp"
#include "mpi/device_grid.hpp"

/// A device for tests: CUDA's, or one that the host simulates.
class TestDevice {
public:
    virtual ~TestDevice() = default;
    virtual std::shared_ptr<trivium::DeviceBackend> backend() = 0;
    /// Whether transfers are slow, so that tests use fewer.
    virtual bool slow() const { return false; }
    /// A stream for each number; made on first use.
    virtual void* stream(int number) = 0;
    virtual void wait(int stream) = 0;
    /// Aligned to 64.
    virtual std::shared_ptr<std::byte> allocate(trivium::Bytes bytes) = 0;
    /// As work on a stream; `from` is host memory and may be freed at once.
    virtual void write(std::byte* to, const std::vector<std::byte>& from, int stream) = 0;
    /// After the work of the streams that were synchronised.
    virtual std::vector<std::byte> read(const std::byte* from, trivium::Bytes bytes) = 0;
};

class Ground {
public:
    class Move {
    public:
        virtual ~Move() = default;
        virtual void start() = 0;
        virtual bool progress() = 0;
        virtual void finish() = 0;
    };

    virtual ~Ground() = default;
    virtual trivium::Comm& comm() = 0;
    virtual bool on_device() const = 0;
    virtual bool slow() const { return false; }
    virtual std::shared_ptr<std::byte> allocate(trivium::Bytes bytes) = 0;
    virtual void write(std::byte* to, const std::vector<std::byte>& from) = 0;
    virtual std::vector<std::byte> read(const std::byte* from, trivium::Bytes bytes) = 0;
    virtual std::unique_ptr<Move> collective(trivium::CollectiveShape shape, trivium::Piece scratch,
                                             bool deterministic = true) = 0;
};

std::unique_ptr<Ground> make_host_ground(trivium::Comm& comm);
/// `devices` is the communicator between the devices of the members of `comm`.
std::unique_ptr<Ground> make_device_ground(trivium::Comm& comm, trivium::DeviceComm& devices,
                                           TestDevice& device);
