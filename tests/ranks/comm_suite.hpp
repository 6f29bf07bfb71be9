#pragma once
// What every back-end of communicators must do, on any number of ranks. Each rank knows what the others put in, so it
// knows what must come out. A case throws InternalError where something else does.
#include "mpi/comm.hpp"

struct RankCase {
    const char* name;
    void (*run)(trivium::Comm& comm);
};

/// Exchanges, messages, subgroups, agreement, the grid.
std::vector<RankCase> comm_cases();
/// Gather, reduce and scatter.
std::vector<RankCase> collective_cases();

/// Both, in order. \throws InternalError that names the case
void run_comm_suite(trivium::Comm& comm);
