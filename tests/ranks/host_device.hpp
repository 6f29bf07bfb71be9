#pragma once
// Devices that the host plays: a stream is a thread that does what it was given, in order and later.
// Communicators are mailboxes; each call is done as its stream comes to it, whether or not the host went on.
#include "ground.hpp"

/// Runs `body` on as many threads of this process, each with its Comm of all of them and a device. Throws the
/// first failure of a rank or a stream, which ends the others. Returns how often a communicator of several
/// ranks was joined.
int run_on_devices(int ranks, const std::function<void(trivium::Comm&, TestDevice&)>& body,
                   bool slow = false);
