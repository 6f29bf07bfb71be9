// The program `trivium`: parses the command line, runs one sub-command, maps errors to exit statuses.
#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "version.hpp"

#include <cstdio>

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

} // namespace

} // namespace trivium

int main(int argc, char* argv[])
{
    try {
        return trivium::run(argc, argv);
    } catch (const trivium::Error& error) {
        trivium::log_progress("");
        std::fprintf(stderr, "trivium: %s\n", error.what());
        return trivium::leave_status(error.exit_status());
    } catch (const std::exception& error) {
        std::fprintf(stderr, "trivium: %s\n", trivium::describe_exception(error).c_str());
        return trivium::leave_status(1);
    }
}
