#pragma once
// From an op that communicates to moves over the grid's communicators.
#include "mpi/grid.hpp"
#include "runtime/dispatch.hpp"

namespace trivium {

/// A collective or a message with its place in memory: started, driven on and finished by the executor.
class Communication {
public:
    virtual ~Communication() = default;
    virtual void start() = 0;
    /// Drives it on without waiting; true once it is over.
    virtual bool progress() = 0;
    /// Returns when it is over.
    virtual void finish() = 0;
};

/// Throws InternalError for an op that does not communicate.
std::unique_ptr<Communication> bind_communication(const Binding& binding, const Grid& grid);

} // namespace trivium
