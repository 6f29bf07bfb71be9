#pragma once
// Datagrams between ranks, independent of MPI and NCCL, for use when these hang.
//
// UDP: small datagrams that no rank waits for and that may be lost; a datagram that arrives after a newer one
// of its sender is dropped. Each datagram is sent to every address of the receiver's machine (also to the
// loopback on the same machine), so any working network is enough. Datagrams are authenticated
// (mpi/launch/sealed_datagram.hpp) with a random key on which the ranks agree over their communicator. A
// flood of foreign datagrams neither delays a receiver beyond its time limit nor displaces genuine ones: the
// kernel drops datagrams without the receiver's tag, and the others are limited per second.
#include "mpi/comm.hpp"
#include "mpi/launch/sealed_datagram.hpp"

#include <optional>
#include <string_view>

namespace trivium {

class SideChannel {
public:
    static constexpr Bytes longest = 1024; ///< maximum bytes of a text; the rest is cut off
    /// Datagrams that a rank reads per second; later ones wait or are lost.
    static constexpr int most_per_second = 50000;

    using Message = OpenedDatagram;

    /// Collective over `world`, which is not used afterwards. IoError on all ranks if one cannot open a
    /// socket.
    explicit SideChannel(Comm& world);
    SideChannel(const SideChannel&) = delete;
    SideChannel& operator=(const SideChannel&) = delete;
    ~SideChannel();

    /// Never waits and never fails; the datagram may be lost. Only one thread at a time may send or receive.
    void send(int to, std::string_view text) const;
    /// The next message, or nullopt if none arrives within `limit` seconds.
    std::optional<Message> receive(Seconds limit) const;
    /// Where this rank receives: its port (on all addresses of the machine), and the tag with which datagrams
    /// must begin.
    struct Place {
        int port = 0;
        std::string tag{};
    };
    Place place() const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
