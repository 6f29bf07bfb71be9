#pragma once
// Devices that the host simulates: a stream is a thread that runs its work later, in order. Communicators are
// mailboxes; each call runs when its stream reaches it, independent of the host.
#include "ground.hpp"

/// Runs `body` on this many threads of this process, each with a Comm of all threads and a device. Throws the
/// first failure of a rank or a stream, which ends the others. Returns how often a communicator of several
/// ranks was joined.
int run_on_devices(int ranks, const std::function<void(trivium::Comm&, TestDevice&)>& body,
                   bool slow = false);
