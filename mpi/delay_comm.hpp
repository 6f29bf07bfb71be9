#pragma once
// A communicator whose transfers take as long as over a network of given latency and bandwidth, without using
// a core for that time. On one machine it shows what overlap would gain on a cluster.
#include "mpi/comm.hpp"

namespace trivium {

/// A rank's link to the others, in both directions at once. All zero: no delay.
struct LinkDelay {
    Seconds latency = 0;         ///< per message
    double bytes_per_second = 0; ///< 0: unlimited

    bool any() const { return latency > 0 || bytes_per_second > 0; }
};

/// When a rank's link is free again, in each direction. One for all communicators of a rank, which share the
/// link.
struct SlowLink {
    LinkDelay delay;
    Seconds out_free = 0, in_free = 0;
};

/// A Comm of the members of `comm`, all of which call this. A transfer is done when the one of `comm` is, and
/// not before the last of its ranks has started it, plus the latency of its messages, plus the time that its
/// bytes take on the link. Ranks have one clock, so they run on one machine. `comm` is used only during the
/// call.
std::unique_ptr<Comm> make_delay_comm(Comm& comm, std::shared_ptr<SlowLink> link);

} // namespace trivium
