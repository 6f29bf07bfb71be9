#pragma once
// Offsets between the clocks of ranks.
#include "base/units.hpp"

#include <functional>
#include <span>
#include <vector>

namespace trivium {

class Comm;

/// A message to another rank and its answer: `begin` when the message was sent and `end` when the answer
/// arrived, by the own clock; `theirs` is the other rank's clock in between.
struct RoundTrip {
    Seconds begin = 0, theirs = 0, end = 0;
};

struct ClockOffset {
    Seconds offset = 0; ///< the other clock minus the own clock
    Seconds error = 0;  ///< maximum error of `offset`
};

/// Computed from the fastest round trip, whose midpoint is taken as the moment at which the other clock was
/// read (as in NTP, RFC 5905): the error is at most half of its duration. \pre trips is not empty
ClockOffset clock_offset(std::span<const RoundTrip> trips);

/// Each member's clock minus that of member 0, by rank, measured by messages with tag 0. Collective. Member 0
/// gets all offsets, the others their own (and 0 for the rest).
std::vector<ClockOffset> clock_offsets(Comm& comm, const std::function<Seconds()>& clock);

/// The earliest of the members' moments `mine`, each by its own clock; the result is by this member's clock.
/// `own`: its offset from member 0's. Collective.
Seconds earliest_moment(Comm& comm, Seconds mine, const ClockOffset& own);

} // namespace trivium
