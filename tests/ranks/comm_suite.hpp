#pragma once
// What every back-end of communicators must do, on any number of ranks. Each rank knows what the others put
// in, so it knows what must come out. A case throws InternalError where something else does.
#include "ground.hpp"

struct RankCase {
    const char* name;
    void (*run)(trivium::Comm& comm);
};
struct CollectiveCase {
    const char* name;
    void (*run)(Ground& ground);
};
struct DeviceCase {
    const char* name;
    void (*run)(trivium::Comm& comm, TestDevice& device);
};

/// Exchanges, messages, subgroups, agreement, the grid.
std::vector<RankCase> comm_cases();
/// Gather, reduce and scatter.
std::vector<CollectiveCase> collective_cases();
/// What is a matter of streams and links.
std::vector<DeviceCase> device_cases();

/// On the host: the first two, in order. \throws InternalError that names the case
void run_comm_suite(trivium::Comm& comm);
/// Between devices: the last two.
void run_device_suite(trivium::Comm& comm, TestDevice& device);
