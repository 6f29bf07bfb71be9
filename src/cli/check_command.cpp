// `trivium check`: the machines and the build, before a long job starts.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "check/rates.hpp"
#include "check/report.hpp"
#include "check/run.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/machine_file.hpp"
#include "compile/threads.hpp"
#include "io/files/files.hpp"
#include "lifecycle/watchdog.hpp"
#include "mpi/session.hpp"
#include "runtime/device.hpp"
#include "train/node_memory.hpp"
#include "train/this_machine.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace trivium {

namespace {

struct CheckArguments {
    CheckConfig config;
    std::vector<std::string> only;
    std::string output;
    i64 threads = 0;
    double watchdog = 30;
    bool json = false;
};

std::vector<std::string> part_names()
{
    return {names_of_enum<CheckPart>.begin(), names_of_enum<CheckPart>.end()};
}

CheckConfig config_of(const CheckArguments& arguments)
{
    CheckConfig config = arguments.config;
    if (!arguments.only.empty()) {
        config.parts.clear();
        const std::vector<std::string> names = part_names();
        for (std::size_t i = 0; i < names.size(); ++i)
            if (std::find(arguments.only.begin(), arguments.only.end(), names[i]) != arguments.only.end())
                config.parts.push_back(static_cast<CheckPart>(i));
    }
    const auto has = [&](CheckPart part) {
        return std::find(config.parts.begin(), config.parts.end(), part) != config.parts.end();
    };
    if (!arguments.output.empty() && !has(CheckPart::rates))
        throw UserError({"--output", "there would be nothing to write",
                         "a machine file holds rates, and --only leaves them out", "add rates to --only"});
    if (!config.dir.empty() && !has(CheckPart::folder))
        throw UserError(
            {"--dir", "the folder would not be looked at", "--only leaves it out", "add folder to --only"});
    if (config.dir.empty() && !arguments.only.empty() && has(CheckPart::folder))
        throw UserError({"--only folder", "there is no folder to look at", "", "say which one: --dir DIR"});
    return config;
}

/// Whether it can be written is known before anything is measured; a file that is there stays until then.
void try_output(const std::string& path)
{
    const std::string file = file_to_replace(path);
    if (file.empty())
        return; // a device or a pipe: nothing to try without writing to it
    write_file(file + ".probe", "");
    std::remove((file + ".probe").c_str());
}

std::string today()
{
    char text[16] = "";
    const std::time_t time = std::time(nullptr);
    std::tm parts{};
    std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&time, &parts));
    return text;
}

void print(const std::string& text)
{
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        throw IoError({"stdout", "the report cannot be written", std::strerror(errno),
                       "free some space, or send it elsewhere"});
}

int check(Session& session, const CheckArguments& arguments, const std::string& version)
{
    Comm& world = session.world();
    if (session.rank() > 0)
        set_log_level(LogLevel::quiet);
    CheckConfig config;
    succeed_together(world, [&] {
        config = config_of(arguments);
        if (session.rank() == 0 && !arguments.output.empty())
            try_output(arguments.output);
    });
    Watchdog::Config watch;
    watch.limit = arguments.watchdog;
    watch.much_longer = 2; // its pieces of work take a second
    watch.status = 1;
    watch.remedy = "look at these processes and their nodes (stopped, swapping, a hung file system or "
                   "network), or leave the nodes out; where ranks are only slow, give --watchdog";
    std::optional<LaunchWatch> start(std::in_place, "the start of the watchdog", LaunchWatchConfig{});
    const Watchdog watchdog(world, nullptr, watch);
    start.reset();
    Grid grid(world, {{{data_axis, world.size()}}}, node_name());
    ParallelConfig parallel;
    parallel.threads = arguments.threads;
    const int threads = thread_count(parallel, thread_limit(), ranks_on_same_cores(grid));
    const Computing computing(threads, &grid);
    const CheckReport report =
        run_check(world, config, facts_of_process(version, computing.device(), threads));
    succeed_together(world, [&] {
        if (session.rank() > 0)
            return;
        const Machine machine = machine_measured(report, machine_of(computing));
        print(arguments.json ? to_json(report, report.rates.empty() ? nullptr : &machine) : to_text(report));
        if (!arguments.output.empty())
            write_file(arguments.output,
                       machine_file(machine, str("measured by `trivium check` on ",
                                                 counted(report.facts.size(), "rank"), " of ",
                                                 counted(report.nodes.size(), "node"), ", ", today())));
    });
    return static_cast<int>(agree(world, static_cast<u64>(report.status())));
}

} // namespace

void add_check_command(Command& program, const std::string& version)
{
    Command command = program.add(
        "check",
        "whether these machines and this build can be trusted: under mpirun or srun, before a long job");
    auto arguments = std::make_shared<CheckArguments>();
    CheckConfig& config = arguments->config;
    command
        .option("--dir", config.dir, "folder for checkpoints: shared by all ranks, writable, how fast",
                {.type = "DIR"})
        .option("-o,--output", arguments->output,
                "write the rates as a machine file, for `trivium plan --machine FILE.toml`",
                {.type = "FILE.toml"})
        .option("--only", arguments->only,
                "parts to do: environment, folder, arithmetic, composition, rates (default: all)",
                {.list = true, .words = part_names()})
        .flag("--long", config.longer, "every combination, and longer measurements")
        .flag("--strict", config.strict, "warnings count as faults")
        .option("--slow-rank", config.slow_rank, "a rank below so much of the median rate is slow",
                {.show_default = true, .from = 0, .to = 1})
        .option("--slow-link", config.slow_link, "a link below so much of the median rate is slow",
                {.show_default = true, .from = 0, .to = 1})
        .option("--clock", config.clock, "seconds that clocks may be apart",
                {.show_default = true, .from = 0, .to = 1e9})
        .option(
            "--watchdog", arguments->watchdog,
            "seconds without a sign of life, or of all waiting for each other, that end the check; 0: never",
            {.show_default = true, .from = 0, .to = 1e6})
        .option("--threads", arguments->threads,
                "CPU threads per rank (default: the cores that the rank may use)", {.from = 1, .to = 4096})
        .flag("--json", arguments->json, "print JSON")
        .footer("Exit status: 0 all is well, 1 something is wrong. docs/check.md says what each part does "
                "and what to do about findings.");
    command.action(
        [=] { return run_session([&](Session& session) { return check(session, *arguments, version); }); });
}

} // namespace trivium
