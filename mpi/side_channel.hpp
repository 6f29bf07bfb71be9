#pragma once
// Datagrams between ranks, beside MPI and NCCL: for what has to be said when these are stuck.
//
// UDP: small, never waited for, in no order, and some may be lost. A rank is reached at each address that its machine
// has, at the loopback's where it shares the machine, so that it does not matter which network lets it through. A
// number that the ranks agree on keeps strangers out.
#include "mpi/comm.hpp"

#include <optional>
#include <string_view>

namespace trivium {

class SideChannel {
public:
    static constexpr Bytes longest = 1024; ///< of a text; the rest is cut off

    /// All ranks of `world` make one; it needs the communicator no longer then. IoError on all where one gets no socket.
    explicit SideChannel(Comm& world);
    SideChannel(const SideChannel&) = delete;
    SideChannel& operator=(const SideChannel&) = delete;
    ~SideChannel();

    struct Message {
        int from = 0;
        std::string text;
    };

    /// Never waits and never fails: it may come, or not.
    void send(int to, std::string_view text) const;
    /// The next one; none where none comes within `limit`.
    std::optional<Message> receive(Seconds limit) const;

private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace trivium
