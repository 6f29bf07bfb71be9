#include "comm_suite.hpp"

using namespace trivium;

namespace {

template <class Case, class... Args>
void run_cases(const std::vector<Case>& cases, Comm& comm, Args&... args)
{
    for (const Case& each : cases)
        try {
            each.run(args...);
        } catch (const ThreadsFailed&) {
            throw;
        } catch (const Error& error) {
            TRV_CHECK(false, "case '", each.name, "' on rank ", comm.rank(), " of ", comm.size(), ": ",
                      error.what());
        }
}

} // namespace

void run_comm_suite(Comm& comm)
{
    run_cases(comm_cases(), comm, comm);
    run_cases(box_exchange_cases(), comm, comm);
    run_cases(row_exchange_cases(), comm, comm);
    const std::unique_ptr<Ground> ground = make_host_ground(comm);
    run_cases(collective_cases(), comm, *ground);
}

void run_device_suite(Comm& comm, TestDevice& device)
{
    Grid grid(comm, {{{"data", comm.size()}}}, "node");
    grid.open_devices(device.backend());
    const std::unique_ptr<Ground> ground = make_device_ground(comm, grid.devices().along("data"), device);
    run_cases(collective_cases(), comm, *ground);
    run_cases(device_cases(), comm, comm, device);
}
