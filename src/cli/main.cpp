// The program `trivium`: parses the command line, runs one sub-command, maps errors to exit statuses.
#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "version.hpp"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <thread>
#include <unistd.h>

// Read by jemalloc. Version 5.3 crashes where a limit of address space leaves no room for the arena of
// another thread. Its caches stay those of each thread.
extern "C" {
const char* malloc_conf = "narenas:1";
}

namespace trivium {

namespace {

std::string version_text()
{
    return str("trivium ", trivium_version, " (", trivium_build, ")\n", trivium_dependencies);
}

int run(int argc, char* argv[])
{
    std::signal(SIGXFSZ, SIG_IGN); // a write beyond `ulimit -f` fails instead, which has a message
    CommandLine line("trivium", "Trivium trains transformer language models on MPI clusters.",
                     version_text());
    Command program = line.root();
    add_runtime_commands(program, str("trivium ", trivium_version));
    add_plan_command(program);
    add_explain_command(program);
    add_graph_command(program);
    add_metrics_command(program);
    return line.run(argc, argv);
}

/// GNU's OpenMP reads its environment once, when the program is loaded. By default a waiting thread spins for
/// milliseconds; if other processes use the same cores, a run then takes 10 to 100 times as long. With this
/// it spins for microseconds, then sleeps. A choice of the user's stays.
void wait_politely(char* argv[])
{
    const char* threads = std::getenv("OMP_NUM_THREADS");
    if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT") ||
        (threads && std::string_view(threads) == "1"))
        return;
    std::error_code error;
    const std::string self = std::filesystem::read_symlink("/proc/self/exe", error).string();
    setenv("GOMP_SPINCOUNT", "1000", 1);
    if (!error)
        execv(self.c_str(), argv); // does not return, unless it fails
}

/// Rank of this process, as its launcher states it without MPI; 0 without a launcher.
long launched_rank()
{
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "PALS_RANKID", "SLURM_PROCID"})
        if (const char* value = std::getenv(name))
            return std::strtol(value, nullptr, 10);
    return 0;
}

/// An error before MPI's start, such as an unknown option, is usually one of all ranks: the launcher ends the
/// others when rank 0 has printed it.
void print_error(const std::string& what)
{
    if (launched_rank() > 0)
        std::this_thread::sleep_for(std::chrono::seconds(2));
    log_progress("");
    std::fprintf(stderr, "trivium: %s\n", what.c_str());
}

} // namespace

} // namespace trivium

int main(int argc, char* argv[])
{
    trivium::wait_politely(argv);
    try {
        return trivium::run(argc, argv);
    } catch (const trivium::Error& error) {
        trivium::print_error(error.what());
        return trivium::leave_status(error.exit_status());
    } catch (const std::exception& error) {
        trivium::print_error(trivium::describe_exception(error));
        return trivium::leave_status(1);
    }
}
