#pragma once
// Communicators of MPI, and the check that every call of MPI goes through.
#include "mpi/comm.hpp"

namespace trivium {

/// \throws IoError with MPI's own words, unless `code` is MPI_SUCCESS
void check_mpi(int code, const char* call);

/// All ranks that MPI started, apart from whatever else uses MPI_COMM_WORLD. They are numbered node by node,
/// whatever the launcher's order, so that neighbours share a node: nodes in the order of their first ranks,
/// on each the ranks in theirs. `node` names this rank's. \pre MPI is initialised; it must outlive the
/// communicator
std::unique_ptr<Comm> make_mpi_world(const std::string& node);

} // namespace trivium
