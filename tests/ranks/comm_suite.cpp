#include "comm_suite.hpp"

void run_comm_suite(trivium::Comm& comm)
{
    for (const std::vector<RankCase>& cases : {comm_cases(), collective_cases()})
        for (const RankCase& each : cases)
            try {
                each.run(comm);
            } catch (const trivium::ThreadsFailed&) {
                throw;
            } catch (const trivium::Error& error) {
                TRV_CHECK(false, "case '", each.name, "' on rank ", comm.rank(), " of ", comm.size(), ": ", error.what());
            }
}
