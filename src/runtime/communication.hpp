#pragma once
// From an op that communicates to moves over the grid's communicators.
#include "mpi/grid.hpp"
#include "runtime/dispatch.hpp"

namespace trivium {

/// A collective or a message with its place in memory. On the host the executor starts it, drives it on and finishes it;
/// on a device start() puts it on a stream, and that is all.
class Communication {
public:
    virtual ~Communication() = default;
    virtual void start(const kernels::Exec& exec) = 0;
    /// Drives it on without waiting; true once it is over.
    virtual bool progress() = 0;
    /// Returns when it is over.
    virtual void finish() = 0;
};

/// Throws InternalError for an op that does not communicate.
std::unique_ptr<Communication> bind_communication(const Binding& binding, const Grid& grid);

} // namespace trivium
