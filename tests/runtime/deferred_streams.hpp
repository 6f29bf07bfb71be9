#pragma once
// Streams of a device that delays its work as long as possible, and then runs it in a random order that
// streams and events allow. Correct results there depend only on the order that the Schedule states.
#include "runtime/executor.hpp"
#include "runtime/streams.hpp"

namespace trivium::runs {

/// The work of this thread's device, and the number of waits of the host.
struct AskedOfDevice {
    i64 launches = 0, copies = 0, synchronisations = 0, replays = 0;
};

/// For Executor. `seed` determines the order; each thread of the process has its own device.
StreamsMaker deferred_streams(u64 seed);

/// Returns when this thread's device has done all its work.
void settle_deferred();
/// Since the last call.
AskedOfDevice asked_of_deferred();

} // namespace trivium::runs
