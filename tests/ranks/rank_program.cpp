// One rank of a group that a launcher starts: `rank_program suite`, or a way in which one of the ranks fails.
#include "comm_suite.hpp"
#include "mpi/grid.hpp"
#include "mpi/session.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

using namespace trivium;

namespace {

int large(Comm& comm)
{
    const Bytes bytes = (Bytes{2} << 30) + 12345; // more than an int can count
    std::vector<std::byte> data(static_cast<std::size_t>(bytes));
    const int other = 1 - comm.rank();
    if (comm.rank() == 0)
        for (std::size_t i = 0; i < data.size(); i += 4093)
            data[i] = static_cast<std::byte>(i * 7);
    std::vector<ConstPiece> sends(2);
    std::vector<Piece> receives(2);
    (comm.rank() == 0 ? sends[1] : sends[0]) = {};
    if (comm.rank() == 0)
        sends[static_cast<std::size_t>(other)] = {data.data(), bytes};
    else
        receives[static_cast<std::size_t>(other)] = {data.data(), bytes};
    comm.exchange(sends, receives)->wait();
    for (std::size_t i = 0; i < data.size(); i += 4093)
        TRV_CHECK(data[i] == static_cast<std::byte>(i * 7), "byte ", i);
    return 0;
}

int run(Session& session, const std::string& mode)
{
    Comm& comm = session.world();
    const std::string expected = std::getenv("TRIVIUM_TEST_RANKS") ? std::getenv("TRIVIUM_TEST_RANKS") : "";
    TRV_CHECK(expected.empty() || expected == std::to_string(comm.size()), expected,
              " ranks were started, MPI knows of ", comm.size());
    TRV_CHECK(session.rank() == comm.rank() && session.ranks() == comm.size(), "the session's world");
    const bool odd_one = comm.rank() == 1;
    agree(comm, 0);
    if (mode == "suite") {
        run_comm_suite(comm);
        if (comm.rank() == 0)
            std::printf("%d ranks agree\n", comm.size());
        return 0;
    }
    if (mode == "large")
        return large(comm);
    if (mode == "status")
        return 75;
    if (mode == "nodes") { // 2 x 2 ranks: do the groups of the fast axis share a node?
        const Grid grid(comm, {{{"data", 2}, {"tensor", 2}}}, node_name());
        if (comm.rank() == 0)
            std::printf("%d nodes, data %d, tensor %d\n", grid.nodes(), grid.crosses_nodes("data"),
                        grid.crosses_nodes("tensor"));
        return 0;
    }
    if (mode == "agreed")
        succeed_together(comm, [&] {
            if (comm.rank() > 0)
                throw UserError({"run.toml", "no good", "", ""});
        });
    if (mode == "agreed-in-group") { // the rest of the world waits
        std::vector<int> group{0};
        if (comm.rank() > 0)
            group.assign({1});
        for (int r = 2; r < comm.size() && comm.rank() > 0; ++r)
            group.push_back(r);
        const auto part = comm.subgroup(group);
        if (comm.rank() > 0)
            succeed_together(*part, [&] {
                if (odd_one)
                    throw UserError({"run.toml", "no good", "", ""});
            });
    }
    if (odd_one && mode == "throw")
        throw UserError({"run.toml", "no good", "", ""});
    if (odd_one && mode == "failure")
        throw IoError({"disk", "full", "", ""});
    if (odd_one && mode == "odd")
        throw std::runtime_error("something odd");
    if (odd_one && mode == "kill")
        std::raise(SIGKILL);
    agree(comm, 0); // while the others wait
    TRV_CHECK(false, "mode '", mode, "' ended well");
}

} // namespace

int main(int argc, char* argv[])
{
    try {
        return run_session([&](Session& session) { return run(session, argc > 1 ? argv[1] : "suite"); });
    } catch (const Error& error) { // of a single rank
        std::fprintf(stderr, "alone: %s\n", error.what());
        return error.exit_status();
    }
}
