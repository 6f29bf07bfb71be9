#pragma once
// Datagrams between ranks, independent of MPI and NCCL, for use when these hang.
//
// UDP: small datagrams that nobody waits for and that may be lost; late ones of a sender are dropped. A rank
// is sent to at each address of its machine (the loopback on the same machine), so any working network is
// enough. Datagrams are authenticated (mpi/launch/sealed_datagram.hpp) with a random key on which the ranks
// agree over their communicator. A flood of foreign datagrams neither delays a receiver beyond its time limit
// nor displaces genuine ones: the kernel drops datagrams without the receiver's tag, and the rest is limited
// per second.
#include "mpi/comm.hpp"
#include "mpi/launch/sealed_datagram.hpp"

#include <optional>
#include <string_view>

namespace trivium {

class SideChannel {
public:
    static constexpr Bytes longest = 1024; ///< maximum text; the rest is cut off
    static constexpr int most_per_second =
        50000; ///< datagrams that a rank reads per second; later ones wait or are lost

    using Message = OpenedDatagram;

    /// All ranks of `world` make one; the communicator is not used afterwards. IoError on all ranks if one
    /// cannot open a socket.
    explicit SideChannel(Comm& world);
    SideChannel(const SideChannel&) = delete;
    SideChannel& operator=(const SideChannel&) = delete;
    ~SideChannel();

    /// Never waits and never fails; the datagram may be lost. One thread at a time sends or receives.
    void send(int to, std::string_view text) const;
    /// The next message, or nullopt if none arrives within `limit`.
    std::optional<Message> receive(Seconds limit) const;
    /// The port (on all addresses of this machine), and the tag with which datagrams must begin.
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
