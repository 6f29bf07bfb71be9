#pragma once
// Communicators over MPI, and the check of every MPI call.
#include "mpi/comm.hpp"

namespace trivium {

/// \throws IoError with MPI's message unless `code` is MPI_SUCCESS
void check_mpi(int code, const char* call);

/// Collective over MPI_COMM_WORLD: a communicator of all ranks, separate from it. Ranks are numbered node by
/// node, independent of the launcher, so that neighbours share a node: nodes in the order of their first
/// ranks, the ranks of a node in their order. `node` names this rank's node. \pre MPI is initialised and
/// outlives it
std::unique_ptr<Comm> make_mpi_world(const std::string& node);

} // namespace trivium
