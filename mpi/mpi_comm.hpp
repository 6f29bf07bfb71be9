#pragma once
// Communicators of MPI, and the check that every call of MPI goes through.
#include "mpi/comm.hpp"

namespace trivium {

/// \throws IoError with MPI's own words, unless `code` is MPI_SUCCESS
void check_mpi(int code, const char* call);

/// All ranks that MPI started, apart from whatever else uses MPI_COMM_WORLD. \pre MPI runs, and outlives it
std::unique_ptr<Comm> make_mpi_world();

} // namespace trivium
