// `trivium check`: tests the machines and the build before a long job.
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
#include "train/node_resources.hpp"
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

CheckConfig config_of(const CheckArguments& arguments)
{
    CheckConfig config = arguments.config;
    if (!arguments.only.empty()) {
        config.parts.clear();
        const auto& names = names_of_enum<CheckPart>;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (std::find(arguments.only.begin(), arguments.only.end(), names[i]) != arguments.only.end())
                config.parts.push_back(static_cast<CheckPart>(i));
    }
    if (!arguments.output.empty() && !config.has(CheckPart::rates))
        throw UserError({"--output", "would have nothing to write",
                         "a machine file needs the part rates, and --only excludes it",
                         "add rates to --only"});
    config.ops = !arguments.output.empty();
    if (!config.dir.empty() && !config.has(CheckPart::folder))
        throw UserError({"--dir", "the folder would not be tested", "--only excludes the part folder",
                         "add folder to --only"});
    if (config.dir.empty() && !arguments.only.empty() && config.has(CheckPart::folder))
        throw UserError({"--only folder", "no folder is named", "", "add --dir DIR"});
    return config;
}

const char* const file_origin = "measured by `trivium check`";

/// Fails before the measurements if `file` cannot be written. An existing file is not changed.
void try_output(const std::string& path)
{
    const std::string file = file_to_replace(path);
    spare_other_kinds(path, machine_file({}, file_origin));
    if (file.empty())
        return; // a device or a pipe: cannot be tested without writing to it
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
                       "free some space, or redirect stdout elsewhere"});
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
    watch.much_longer = 2; // each operation of a check takes about a second
    watch.status = 1;
    watch.remedy = "check these processes and their nodes (stopped, swapping, a hung file system or "
                   "network), or exclude the nodes; if ranks are only slow, raise --watchdog";
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
            write_file(
                arguments.output,
                machine_file(machine, str(file_origin, " on ", counted(report.facts.size(), "rank"), " of ",
                                          counted(report.nodes.size(), "node"), ", ", today())));
    });
    return static_cast<int>(agree(world, static_cast<u64>(report.status())));
}

} // namespace

void add_check_command(Command& program, const std::string& version)
{
    Command command =
        program.add("check", "test machines, network and build before a long job (under mpirun or srun)");
    auto arguments = std::make_shared<CheckArguments>();
    CheckConfig& config = arguments->config;
    command
        .option("--dir", config.dir,
                "folder for checkpoints: test whether all ranks share it and can write, and how fast",
                {.type = "DIR"})
        .option("-o,--output", arguments->output,
                "write the measured speeds as a machine file, for `trivium plan --machine FILE.toml`",
                {.type = "FILE.toml"})
        .option("--only", arguments->only,
                "parts to run: environment, folder, arithmetic, composition, rates (default: all)",
                {.list = true, .words = {names_of_enum<CheckPart>.begin(), names_of_enum<CheckPart>.end()}})
        .flag("--long", config.longer, "test every combination, and measure longer")
        .flag("--strict", config.strict, "count warnings as faults")
        .option("--slow-rank", config.slow_rank, "a rank below this fraction of the median speed is slow",
                {.show_default = true, .from = 0, .to = 1})
        .option("--slow-link", config.slow_link, "a link below this fraction of the median bandwidth is slow",
                {.show_default = true, .from = 0, .to = 1})
        .option("--clock", config.clock, "maximum difference between clocks, in seconds",
                {.show_default = true, .from = 0, .to = 1e9})
        .option("--watchdog", arguments->watchdog,
                "seconds without a heartbeat, or in which all ranks wait for each other, after which the "
                "check ends; 0: never",
                {.show_default = true, .from = 0, .to = 1e6})
        .option("--threads", arguments->threads,
                "CPU threads per rank (default: the cores that the rank may use)", {.from = 1, .to = 4096})
        .flag("--json", arguments->json, "print JSON")
        .footer("Exit status: 0 no fault, 1 a fault. docs/check.md explains each part and the remedies.");
    command.action(
        [=] { return run_session([&](Session& session) { return check(session, *arguments, version); }); });
}

} // namespace trivium
