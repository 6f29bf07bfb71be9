#pragma once
// Datagrams between ranks, beside MPI and NCCL: for what has to be said when these are stuck.
//
// UDP: small, never waited for, and some may be lost; one that another of the same sender has overtaken is
// dropped. A rank is reached at each address that its machine has, at the loopback's where it shares the
// machine, so that it does not matter which network lets it through. Strangers are not heard
// (mpi/sealed_datagram.hpp): the key is random, and the ranks agree on it over their communicator alone. A
// flood of foreign datagrams neither keeps a receiver from its time limit nor crowds out the ranks' own: the
// kernel drops what lacks the receiver's tag before it queues it, and the rest is bounded by second.
#include "mpi/comm.hpp"
#include "mpi/sealed_datagram.hpp"

#include <optional>
#include <string_view>

namespace trivium {

class SideChannel {
public:
    static constexpr Bytes longest = 1024; ///< of a text; the rest is cut off
    static constexpr int most_per_second =
        50000; ///< datagrams that a rank looks at; later ones wait, or are lost

    using Message = OpenedDatagram;

    /// All ranks of `world` make one; it needs the communicator no longer then. IoError on all where one gets
    /// no socket.
    explicit SideChannel(Comm& world);
    SideChannel(const SideChannel&) = delete;
    SideChannel& operator=(const SideChannel&) = delete;
    ~SideChannel();

    /// Never waits and never fails: it may come, or not. One thread at a time sends or receives.
    void send(int to, std::string_view text) const;
    /// The next one; none where none comes within `limit`, whatever else arrives.
    std::optional<Message> receive(Seconds limit) const;
    /// Where it listens, on all addresses of this machine, and what the kernel lets pass: datagrams that
    /// begin so.
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
