// `trivium train`.
#include "base/activity.hpp"
#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "choose/search.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/machine_file.hpp"
#include "compile/describe.hpp"
#include "config/about_key.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "lifecycle/launcher.hpp"
#include "lifecycle/signals.hpp"
#include "lifecycle/start_guard.hpp"
#include "lifecycle/watchdog.hpp"
#include "mpi/session.hpp"
#include "runtime/device.hpp"
#include "train/node_resources.hpp"
#include "train/save/consistency.hpp"
#include "train/trainer.hpp"

#include <csignal>
#include <cstdio>
#include <numeric>

namespace trivium {

namespace {

/// Whether to search a strategy: the config's grid does not have the ranks that were started, or no key sets
/// its degrees.
bool is_searched(const RunConfig& config, i64 ranks)
{
    const auto sets_degree = [&](const GridAxis& axis) {
        return config.given.contains(str("parallel.", axis.name));
    };
    return config.parallel.strategy == "auto" && ranks > 1 &&
           (rank_count(config.parallel) != ranks ||
            (std::ranges::none_of(grid_axes, sets_degree) && !config.given.contains("parallel.axes")));
}

/// The strategy that rank 0 finds, on all ranks.
RunConfig searched(const RunConfig& config, Comm& world, Bytes memory)
{
    const i64 ranks_per_node = most_ranks_of_a_node(world);
    std::string found;
    succeed_together(world, [&] {
        if (world.rank() != 0)
            return;
        Machine machine = machine_called(default_machine());
        if (ranks_per_node < world.size())
            machine.ranks_per_node = ranks_per_node;
        Compiling estimator(machine, [] { Activity::of_process().advance(); });
        SearchConfig search = search_on(machine, config.parallel, thread_limit());
        search.memory = [=](i64) { return memory; };
        found = to_toml(choose_strategy(config, world.size(), search, estimator), {"parallel", "train"});
    });
    const RunConfig chosen = parse_config(share_text(world, found), "the strategy");
    RunConfig all = config;
    const std::string rows = config.parallel.schedule_rows;
    all.parallel = chosen.parallel;
    if (is_schedule_file(all.parallel.schedule))
        all.parallel.schedule_rows = rows;
    all.train.micro_batch = chosen.train.micro_batch;
    all.parallel.axes = config.parallel.axes; // the text lacks their order and what they shard
    for (ProgramAxes::Axis& axis : all.parallel.axes.list)
        for (const ProgramAxes::Axis& found_axis : chosen.parallel.axes.list)
            if (found_axis.name == axis.name)
                axis.degree = found_axis.degree;
    return all;
}

/// Reads the config and chooses the strategy for the ranks that were started.
RunConfig config_for(Comm& world, const ConfigArguments& arguments)
{
    const Bytes memory = share_of_memory(world);
    RunConfig config;
    succeed_together(world, [&] {
        config = load_training_config(arguments, true);
        if (config.parallel.graphs && !computes_on_device())
            log_warning(
                "parallel.graphs: is ignored because this build computes on CPUs; remove the key, or use "
                "a build for GPUs");
    });
    require_same_config(world, config);
    const i64 micro = config.train.micro_batch;
    const std::string given = describe_grid(config.parallel);
    const RunConfig asked = config;
    const bool searches = is_searched(config, world.size());
    if (searches)
        config = searched(config, world, memory);
    succeed_together(world, [&] {
        for (const std::string& warning : warnings_of_strategy(config, searches ? &asked : nullptr))
            log_warning(warning);
        const i64 ranks = rank_count(config.parallel);
        if (config.parallel.strategy.empty() && ranks != world.size())
            throw UserError({"[parallel]",
                             str("the grid has ", counted(ranks, "rank"), ", ", world.size(),
                                 world.size() == 1 ? " was" : " were", " started"),
                             given,
                             "start as many ranks as the grid has (mpirun -n, srun -n), or change the grid; "
                             "parallel.strategy=auto searches a strategy for the ranks"});
        const std::string chosen = describe_grid(config.parallel);
        if (chosen != given || ranks < world.size())
            log_info(str("for ", counted(world.size(), "rank"), ": ", chosen,
                         ranks < world.size() ? str(", ", world.size() - ranks, " of them idle") : "",
                         "; the config has ", given,
                         config.train.micro_batch == micro
                             ? ""
                             : str("; train.micro_batch = ", config.train.micro_batch)));
    });
    return config;
}

/// Runs one rank of the grid.
int train_on(Comm& world, RunConfig config, const RunSignals& signals, StartGuard& guard,
             const std::string& build)
{
    std::optional<LaunchLog> launches;
    std::optional<Machine> clock;
    std::optional<Trainer> trainer;
    const auto end = [&](int status, const std::string& reason) {
        if (launches)
            launches->end(status, reason, trainer ? trainer->step() : -1);
    };
    try {
        succeed_together(world, [&] {
            if (world.rank() == 0 && !config.log.machine.empty())
                clock = about_key("log.machine", [&] { return machine_at(config.log.machine); });
        });
        trainer.emplace(std::move(config), build, world,
                        RunLinks{launches, signals, &guard, clock ? &*clock : nullptr});
        const int status = trainer->run();
        end(status, trainer->ending());
        return leave_status(status); // here, because idle ranks have no status of their own
    } catch (const Error& error) {
        const std::string what = error.what();
        try {
            end(error.exit_status(), what.substr(0, what.find('\n')));
        } catch (const Error&) { // probably the disk; the first error counts
        }
        throw;
    }
}

/// Records a launch that hangs before there is a trainer: an entry in launches.jsonl, and hang.txt. Returns
/// the exit status: 75, or 1 if the job has started too often without progress.
int note_hang(const ConfigArguments& arguments, const std::string& cause)
{
    const RunConfig config = read_config(arguments.file, arguments.overrides);
    const Job job = job_of_environment();
    Launch launch;
    launch.job = job.id;
    launch.restart = job.restart;
    launch.ranks = launch_of_environment().ranks;
    launch.from = config.checkpoint.resume == "never"
                      ? 0
                      : checkpoint_step(newest_checkpoint(config.checkpoint.resume == "auto"
                                                              ? config.checkpoint.dir
                                                              : resumed_path(config.checkpoint)));
    std::vector<Launch> launches = read_launches(config.log.dir);
    const bool is_noted = !job.id.empty() && !launches.empty() && launches.back().job == job.id &&
                          launches.back().restart == job.restart &&
                          launches.back().reason.starts_with("hang");
    if (!is_noted) { // by a rank on another node
        LaunchLog(config.log.dir, launch).end(75, cause, launch.from);
        write_file(config.log.dir + "/hang.txt", "trivium: the run hangs: " + cause + "\n");
        launches = read_launches(config.log.dir);
    }
    if (job.restart == 0 || !makes_no_progress(launches, job.id, launch.from, config.job.restarts))
        return 75;
    std::fprintf(stderr,
                 "trivium: job %s: has begun %s in a row at step %lld and saved nothing later; "
                 "another restart would not help\n",
                 job.id.c_str(), counted(config.job.restarts, "time").c_str(),
                 static_cast<long long>(launch.from));
    return 1;
}

int train(Session& session, const RunSignals& signals, const ConfigArguments& arguments,
          const std::string& build, const LaunchWatchConfig& watch)
{
    if (session.rank() > 0)
        set_log_level(LogLevel::quiet);
    const Job job = job_of_environment();
    log_info(str(
        build, ": ", counted(session.ranks(), "rank"),
        job.id.empty() ? "" : str(", job ", job.id, job.restart > 0 ? str(", restart ", job.restart) : ""),
        job.end ? str(", time left ", format_seconds(job.left())) : ""));
    if (const std::string how = how_to_stop(launcher_of_environment()); !how.empty())
        log_info(how);
    std::optional<LaunchWatch> start(std::in_place, "the start of the watchdog",
                                     LaunchWatchConfig{.on_hang = watch.on_hang, .asked = watch.asked});
    Watchdog watchdog(session.world(), &signals, {}); // until the config is read; then with its settings
    start.reset();
    StartGuard guard(signals, session.rank());
    RunConfig config = config_for(session.world(), arguments);
    watchdog.configure({.limit = config.job.watchdog, .log_dir = config.log.dir});
    const auto ranks = static_cast<int>(rank_count(config.parallel));
    if (ranks == session.ranks())
        return session.end_together(train_on(session.world(), std::move(config), signals, guard, build));
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    const bool idle = session.rank() >= ranks;
    const std::unique_ptr<Comm> some =
        session.world().subgroup(idle ? std::vector<int>{session.rank()} : members);
    Activity::of_process().enter(idle ? "no work (not part of the grid)" : "the start");
    if (idle) // its watchdog forwards signals
        guard.release();
    const int status = idle ? 0 : train_on(*some, std::move(config), signals, guard, build);
    return session.end_together(status); // idle ranks wait for the end and forward signals
}

} // namespace

int on_first_rank(const std::function<int()>& work)
{
    require_address_space(room_for_libraries, "libraries");
    return run_session([&](Session& session) {
        if (session.rank() > 0)
            return 0;
        if (session.ranks() > 1)
            log_info(str(session.ranks(), " ranks were started, but this command computes on rank 0 only"));
        return work();
    });
}

int on_all_ranks(const std::function<void(Comm&)>& work)
{
    require_address_space(room_for_libraries, "libraries");
    return run_session([&](Session& session) {
        if (session.rank() > 0)
            set_log_level(LogLevel::quiet);
        work(session.world());
        return session.end_together(0);
    });
}

void add_train_command(Command& program, const std::string& build)
{
    Command command = program.add("train", "train a model, or resume from its newest checkpoint");
    auto arguments = std::make_shared<ConfigArguments>();
    arguments->add_to(command, false);
    command.action([=] {
        log_to_stdout();
        require_address_space(room_for_libraries, "libraries");
        const RunSignals signals; // from here on, signals request a checkpoint
        const LaunchWatchConfig watch{
            .on_hang = [&](const std::string& cause) { return note_hang(*arguments, cause); },
            .asked = [&] { return signals.stop() != 0; },
            .ended_by_launcher = [&] { return signals.stop() == SIGTERM && signals.is_from_parent(); }};
        return run_session(
            [&](Session& session) { return train(session, signals, *arguments, build, watch); }, watch);
    });
}

} // namespace trivium
