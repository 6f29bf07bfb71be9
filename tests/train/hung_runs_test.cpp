// Runs with a rank that stops, or never starts: the rank is named, and the run ends such that it can resume.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "life_cycle_run.hpp"

#include <chrono>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <netinet/in.h>
#include <optional>
#include <set>
#include <sstream>
#include <sys/socket.h>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace trivium;

TEST_CASE("a stopped rank is named with its operation, and the run ends such that it can resume")
{
    const Run run;
    const int stops = GENERATE(0, 1); // the first rank, which monitors the others, or another
    const std::vector<std::string> more{"train.steps=1000000", "checkpoint.every=20", "log.every=20",
                                        "job.watchdog=6"};
    int victim = 0;
    const auto begin = std::chrono::steady_clock::now();
    const Outcome hung = run_ranks_and(
        {{4, Run::arguments(2, 2, more)}}, run.folder.path(), "saved ck/step-00000020", [&](int launcher) {
            const auto ranks = processes_below(launcher, "trivium");
            REQUIRE(ranks.size() == 4);
            std::this_thread::sleep_for(
                std::chrono::milliseconds(1200)); // it reports its operation twice a second
            victim = ranks[static_cast<std::size_t>(
                               std::find_if(ranks.begin(), ranks.end(),
                                            [&](int process) { return is_rank(process, stops); }) -
                               ranks.begin()) %
                           4];
            kill(victim, SIGSTOP);
        });
    INFO(hung.err);
    CHECK(hung.status == 75);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(120));
    CHECK(hung.err.find("the run hangs: no heartbeat from rank ") != std::string::npos);
    const auto last_in = [&](const std::string& phase) {
        return hung.err.find("no heartbeat; last in " + phase) != std::string::npos;
    };
    CHECK((last_in("step ") || last_in("the save of step "))); // one follows the other every few milliseconds
    CHECK(hung.err.find("waits for rank") != std::string::npos);
    CHECK(hung.err.find(" over ") != std::string::npos); // an operation and its axis
    CHECK(
        (run.launches().back().status == 75 && run.launches().back().reason.find("hang: no heartbeat") == 0));
    CHECK(read_text(run.folder / "log/hang.txt").find("no heartbeat") != std::string::npos);
    const auto gone = [&] { return kill(victim, 0) != 0; };
    for (int tries = 0; tries < 100 && !gone(); ++tries)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK(gone()); // the launcher has ended it
    const Outcome resumed =
        run_program(Run::arguments(1, 1, {"train.steps=1000000", "train.stop_after=1"}), run.folder.path());
    INFO(resumed.err);
    CHECK(resumed.status == 0);
    CHECK(resumed.err.find("resuming from ck/step-") != std::string::npos);
}

TEST_CASE("if both monitoring ranks are stopped, one of the other ranks ends the run", "[release]")
{
    const Run run;
    const Outcome hung = run_ranks_and(
        {{3, Run::arguments(
                 1, 1, {"parallel.pipeline=3", "model.layers=3", "train.steps=1000000", "log.every=20"})}},
        run.folder.path(), " tok/s", [&](int launcher) {
            std::this_thread::sleep_for(std::chrono::seconds(4)); // they have sent a heartbeat
            signal_ranks(launcher, {0, 2}, SIGSTOP);
        });
    INFO(hung.err);
    CHECK(hung.status == 75);
    CHECK(hung.err.find("no heartbeat from ranks 0 and 2, which monitor the others") != std::string::npos);
    CHECK(hung.err.find("waits for rank") != std::string::npos);
}

TEST_CASE("a hang ends the run even if the disk does not respond", "[release]")
{
    const Run run;
    std::filesystem::create_directories(run.folder / "log");
    REQUIRE(mkfifo((run.folder / "log/hang.txt").c_str(), 0600) ==
            0); // no process reads it, so a writer blocks
    const Outcome hung =
        run_ranks_and({{2, Run::arguments(2, 1, {"train.steps=1000000", "log.every=20"})}}, run.folder.path(),
                      " tok/s", [](int launcher) { signal_ranks(launcher, {1}, SIGSTOP); });
    INFO(hung.err);
    CHECK(hung.status == 75);
    CHECK(hung.err.find("no heartbeat from rank 1") != std::string::npos);
}

namespace {

/// TCP ports on which a process listens, from /proc.
std::vector<int> listening_ports(int process)
{
    std::set<std::string> sockets; // inodes
    for (const auto& entry : std::filesystem::directory_iterator(str("/proc/", process, "/fd"))) {
        std::error_code error;
        const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
        if (target.starts_with("socket:["))
            sockets.insert(target.substr(8, target.size() - 9));
    }
    std::vector<int> ports;
    for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
        std::ifstream file(table);
        std::string line;
        for (std::getline(file, line); std::getline(file, line);) {
            std::istringstream words(line);
            std::vector<std::string> word(10);
            for (std::string& each : word)
                words >> each;
            if (word[3] == "0A" && sockets.count(word[9]) > 0)
                ports.push_back(std::stoi(word[1].substr(word[1].find(':') + 1), nullptr, 16));
        }
    }
    return ports;
}

/// A connection to a port of this machine that sends a few bytes and stays open; -1: refused.
int stray_connection(int port)
{
    const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    const char zeros[8] = {};
    if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::send(socket, zeros, sizeof zeros, 0) == sizeof zeros)
        return socket;
    ::close(socket);
    return -1;
}

} // namespace

TEST_CASE("a stray TCP connection to a rank ends the run within the watchdog's limit", "[release]")
{
    if (!is_open_mpi())
        return;
    const Run run;
    const bool closed = GENERATE(true, false); // the default on one node, or TCP as between nodes
    const std::optional<Variable> tcp =
        closed ? std::nullopt : std::make_optional<Variable>("OMPI_MCA_btl", "self,tcp");
    std::size_t ports = 0;
    std::vector<int> sockets;
    const auto begin = std::chrono::steady_clock::now();
    const Outcome outcome =
        run_ranks_and({{2, Run::arguments(2, 1, {"train.steps=1000000", "log.every=20"})}}, run.folder.path(),
                      " tok/s", [&](int launcher) {
                          for (const int rank : processes_below(launcher, "trivium"))
                              for (const int port : listening_ports(rank)) {
                                  ++ports;
                                  if (const int socket = stray_connection(port); socket >= 0)
                                      sockets.push_back(socket);
                              }
                          if (closed)
                              kill(launcher, SIGTERM);
                      });
    for (const int socket : sockets)
        ::close(socket);
    INFO(outcome.err);
    CHECK((ports == 0) == closed);
    if (!closed) {
        CHECK(outcome.status == 75);
        CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(90));
        CHECK(outcome.err.find("the run hangs: rank") != std::string::npos);
        CHECK(outcome.err.find("not return from MPI_") != std::string::npos);
    }
}

TEST_CASE("a signal to an idle rank stops the run", "[release]")
{
    const Run run;
    const Outcome stopped = run_ranks_and(
        {{3, Run::arguments(2, 1,
                            {"parallel.strategy=auto", "parallel.pipeline=1", "parallel.tensor=1",
                             "train.steps=1000000", "log.every=20"})}},
        run.folder.path(), " tok/s", [](int launcher) { signal_ranks(launcher, {2}, SIGUSR1); });
    INFO(stopped.err);
    CHECK(stopped.status == 75);
    CHECK(stopped.err.find("1 of them idle") != std::string::npos);
    CHECK(stopped.err.find("stopped on signal USR1") != std::string::npos);
}

TEST_CASE("a rank that never starts", "[release]")
{
    const Run run;
    write_text(run.folder / "sleeper", "#!/bin/sh\nexec sleep 100\n");
    std::filesystem::permissions(run.folder / "sleeper", std::filesystem::perms::owner_all);
    const Variable limit("TRIVIUM_START_LIMIT", "4");
    const Outcome outcome =
        run_ranks({{1, Run::arguments(2, 1)}, {1, {}, "", run.folder / "sleeper"}}, run.folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 75);
    CHECK(outcome.err.find("the run hangs: rank 0: the start of MPI has not finished after 4 s") !=
          std::string::npos);
    REQUIRE(run.launches().size() == 1);
    CHECK((run.launches().back().status == 75 &&
           run.launches().back().reason.starts_with("hang: the start of MPI")));
}

TEST_CASE("a job that hangs repeatedly in the start of MPI ends permanently", "[release]")
{
    const Run run;
    write_text(run.folder / "sleeper", "#!/bin/sh\nexec sleep 100\n");
    std::filesystem::permissions(run.folder / "sleeper", std::filesystem::perms::owner_all);
    const Variable limit("TRIVIUM_START_LIMIT", "3"), id("SLURM_JOB_ID", "9"),
        file("TRIVIUM_STATUS_FILE", run.folder / "status");
    for (int restart = 0; restart < 2; ++restart) {
        const Variable count("SLURM_RESTART_COUNT", std::to_string(restart));
        std::filesystem::remove(run.folder / "status");
        const Outcome outcome =
            run_ranks({{1, Run::arguments(2, 1, {"job.restarts=2"})}, {1, {}, "", run.folder / "sleeper"}},
                      run.folder.path());
        INFO(outcome.err);
        CHECK(read_text(run.folder / "status") == (restart == 0 ? "75\n" : "1\n"));
        CHECK((outcome.err.find("has begun 2 times in a row at step 0") != std::string::npos) ==
              (restart == 1));
    }
}

TEST_CASE("a signal during a start that never finishes stops it", "[release]")
{
    const Run run;
    write_text(run.folder / "sleeper", "#!/bin/sh\nexec sleep 100\n");
    std::filesystem::permissions(run.folder / "sleeper", std::filesystem::perms::owner_all);
    const auto begin = std::chrono::steady_clock::now();
    std::filesystem::remove(run.folder / ".err");
    const Outcome outcome =
        run_ranks_and({{1, Run::arguments(2, 1)}, {1, {}, "", run.folder / "sleeper"}}, run.folder.path(), "",
                      [&](int launcher) {
                          for (int i = 0; i < 1000 && processes_below(launcher, "trivium").empty(); ++i)
                              std::this_thread::sleep_for(std::chrono::milliseconds(10));
                          std::this_thread::sleep_for(std::chrono::milliseconds(500));
                          for (const int process : processes_below(launcher, "trivium"))
                              kill(process, SIGUSR1);
                      });
    INFO(outcome.err);
    CHECK(outcome.status == 75);
    CHECK(outcome.err.find("stopped on a signal during the start of MPI") != std::string::npos);
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(95));
}
