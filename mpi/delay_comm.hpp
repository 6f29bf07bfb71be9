#pragma once
// A communicator whose transfers take as long as over a network of given latency and bandwidth, without using
// a core for that time. On one machine it shows how much overlap would gain on a cluster.
#include "mpi/comm.hpp"

namespace trivium {

/// A rank's link to the other ranks, with the same bandwidth in both directions at once. All zero: no delay.
struct LinkDelay {
    Seconds latency = 0;         ///< per message
    double bytes_per_second = 0; ///< 0: unlimited

    bool any() const { return latency > 0 || bytes_per_second > 0; }
};

/// When each direction of a rank's link is free again. All communicators of a rank share one SlowLink.
struct SlowLink {
    LinkDelay delay;
    Seconds out_free = 0, in_free = 0;
};

/// A Comm of the same members as `comm`. Collective over `comm`, which is used only during the call. A
/// receive or an exchange is done when the data is there, and not before the last of its ranks has started
/// it, plus the latency of its messages, plus the time of its bytes on the link; a send does not wait for its
/// receiver's start or the latency. The ranks must run on one machine, because they compare times of one
/// clock.
std::unique_ptr<Comm> make_delay_comm(Comm& comm, std::shared_ptr<SlowLink> link);

} // namespace trivium
