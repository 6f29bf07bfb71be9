#pragma once
// Streams of a device that does nothing until it must, and then works in a random order: whatever streams and
// events allow. What comes out right there hangs on no order that the Schedule does not state.
#include "runtime/executor.hpp"
#include "runtime/streams.hpp"

namespace trivium::runs {

/// What this thread's device has done, and how often the host has waited for it.
struct AskedOfDevice {
    i64 launches = 0, copies = 0, synchronisations = 0, replays = 0;
};

/// For Executor. `seed` draws the order; each thread of the process has a device of its own.
StreamsMaker deferred_streams(u64 seed);

/// Returns when this thread's device has done all that it was given.
void settle_deferred();
/// Since the last call.
AskedOfDevice asked_of_deferred();

} // namespace trivium::runs
