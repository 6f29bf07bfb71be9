// The program `trivium`: parses the command line, runs one sub-command, maps errors to exit statuses.
#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "version.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

namespace trivium {

namespace {

std::string version_text()
{
    return str("trivium ", trivium_version, " (", trivium_build, ")\n", trivium_dependencies);
}

int run(int argc, char* argv[])
{
    CommandLine line("trivium", "Trivium trains transformer language models on MPI clusters.",
                     version_text());
    Command program = line.root();
    add_runtime_commands(program, str("trivium ", trivium_version));
    add_plan_command(program);
    add_explain_command(program);
    add_metrics_command(program);
    return line.run(argc, argv);
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
