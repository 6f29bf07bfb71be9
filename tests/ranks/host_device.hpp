#pragma once
// Devices that the host plays: a stream is a thread that does what it was given, in order and later. Communicators are
// mailboxes; each call is done as its stream comes to it, whether or not the host went on.
#include "ground.hpp"

/// What the devices of all ranks (threads) of a process share: who joins which communicator.
class HostDevices {
public:
    explicit HostDevices(bool slow = false);
    ~HostDevices();
    /// The device of one rank. A failure on any stream, or a rank that ends with an exception, fails all.
    std::unique_ptr<TestDevice> device();
    /// Communicators of more than one rank that were joined, by all ranks.
    int joined() const;

    struct Shared;

private:
    std::shared_ptr<Shared> shared_;
};
