#pragma once
// Requirements on every back-end of communicators, on any number of ranks. Each rank knows the others'
// inputs, so it knows the expected results. A case throws InternalError if a result differs.
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
/// Exchanges of boxes.
std::vector<RankCase> box_exchange_cases();
void boxes_between_devices(trivium::Comm& comm, TestDevice& device);
/// Exchanges of the rows of experts.
std::vector<RankCase> row_exchange_cases();
/// Gather, reduce and scatter.
std::vector<CollectiveCase> collective_cases();
/// Streams and links.
std::vector<DeviceCase> device_cases();

/// On the host: the first four, in order. \throws InternalError that names the case
void run_comm_suite(trivium::Comm& comm);
/// Between devices: the last two.
void run_device_suite(trivium::Comm& comm, TestDevice& device);
