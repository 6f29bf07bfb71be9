// runs_program FILE: trains the runs of a file on all ranks of the launch, one after another. A line is a
// config and its overrides, with tabs between them.
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/config_arguments.hpp"
#include "kernels/runtime.hpp"
#include "mpi/session.hpp"
#include "train/trainer.hpp"

#include <cstdio>
#include <fstream>
#include <sstream>

using namespace trivium;

namespace {

int run(Session& session, const std::string& file)
{
    set_log_level(LogLevel::quiet);
    const kernels::Runtime runtime(1); // Kokkos starts only once
    const RunSignals signals;
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream words(line);
        ConfigArguments arguments;
        std::getline(words, arguments.file, '\t');
        for (std::string word; std::getline(words, word, '\t');)
            arguments.overrides.push_back(word);
        std::optional<LaunchLog> launches;
        const int status =
            Trainer(load_config(arguments), "test", session.world(), {launches, signals}).run();
        TRV_CHECK(status == 0, line, ": ended with ", status);
    }
    return session.end_together(0);
}

} // namespace

int main(int argc, char* argv[])
{
    try {
        return argc == 2 ? run_session([&](Session& session) { return run(session, argv[1]); }) : 2;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
