#pragma once
// How far the clocks of ranks are apart.
#include "base/units.hpp"

#include <functional>
#include <span>
#include <vector>

namespace trivium {

class Comm;

/// A message to another clock and its answer: when it was sent and the answer came, by the own clock, and
/// what the other clock showed in between.
struct RoundTrip {
    Seconds begin = 0, theirs = 0, end = 0;
};

struct ClockOffset {
    Seconds offset = 0; ///< their clock minus the own one
    Seconds error = 0;  ///< at most
};

/// From the fastest of the round trips, whose middle is taken as the moment at which the other clock was read
/// (as in NTP, RFC 5905): the error is at most half of that trip. \pre not empty
ClockOffset clock_offset(std::span<const RoundTrip> trips);

/// Offsets from the clock of member 0, by member, measured by messages. Member 0 gets all of them, the others
/// their own. All members call it, each with its clock.
std::vector<ClockOffset> clock_offsets(Comm& comm, const std::function<Seconds()>& clock);

/// The earliest of the members' moments, each by its own clock; the result too. All members call it.
Seconds earliest_moment(Comm& comm, Seconds mine, const ClockOffset& own);

} // namespace trivium
