#include "train/launch.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "compile/describe.hpp"
#include "config/about_key.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/files/files.hpp"
#include "schedule/trace.hpp"

namespace trivium {

namespace {

/// Whether the newest readable checkpoint of `dir` was saved by job `job`.
bool has_saved(const std::string& dir, const std::string& job)
{
    for (const std::string& name : list_checkpoints(dir))
        try {
            return CheckpointReader::open(dir + "/" + name).state().job == job;
        } catch (const Error&) { // restoring reports the error
        }
    return false;
}

/// `before`: all earlier launches.
void require_progress(const RunConfig& config, const Job& job, const std::vector<Launch>& before, i64 step)
{
    if (job.restart > 0 && makes_no_progress(before, job.id, step, config.job.restarts))
        throw IoError({str("job ", job.id),
                       str("has begun ", counted(config.job.restarts, "time"), " in a row at step ", step,
                           " and saved nothing later"),
                       "another restart would not help",
                       str("find out from its log and from ", config.log.dir,
                           "/launches.jsonl how these launches ended;  "
                           "job.restarts limits how many are allowed")});
}

} // namespace

std::unique_ptr<RunFolders> begin_launch(RunConfig& config, const Job& job, const Grid& grid,
                                         const std::string& machine, const RunLinks& links)
{
    CheckpointConfig& c = config.checkpoint;
    for (const auto& [key, dir] :
         {std::pair<const char*, const std::string&>{"log.dir", config.log.dir}, {"checkpoint.dir", c.dir}})
        if (dir.empty())
            throw UserError({key, "is empty", "a run needs this folder", "name one"});
    // The ranks of the previous launch may outlive it by a minute, their locks on a file server by 90 s.
    auto folders = std::make_unique<RunFolders>(
        c.dir, config.log.dir,
        job.restart > 0 ? LockPatience{.limit = 120, .stopped = [&] { return links.signals.stop() != 0; }}
                        : LockPatience{});
    if (c.resume != "auto" && job.restart > 0 && has_saved(c.dir, job.id)) {
        log_info(str("checkpoint.resume is \"", c.resume, "\", but job ", job.id,
                     " was requeued after it had saved: it resumes from that checkpoint"));
        c.resume = "auto";
    }
    if (!config.log.trace.empty())
        about_key("log.trace", [&] {
            spare_other_kinds(config.log.trace, trace_json({}));
            write_file(config.log.trace, "");
        });
    Launch launch;
    launch.job = job.id;
    launch.restart = job.restart;
    launch.ranks = grid.world().size();
    launch.nodes = grid.nodes();
    launch.grid = describe_grid(config.parallel);
    launch.model = describe_model(config);
    launch.machine = machine;
    launch.steps = config.train.steps;
    launch.from = c.resume == "never"  ? 0
                  : c.resume == "auto" ? checkpoint_step(newest_checkpoint(c.dir))
                                       : checkpoint_step(about_key("checkpoint.resume", [&] {
                                             return newest_checkpoint(resumed_path(c));
                                         }));
    require_progress(config, job, read_launches(config.log.dir), launch.from);
    links.launches.emplace(config.log.dir, launch);
    if (links.guard)
        links.guard->launch_began(config.log.dir);
    return folders;
}

void note_restored(LaunchLog& launch, const RunConfig& config, const Job& job, i64 step)
{
    if (launch.from() == step)
        return;
    std::vector<Launch> before = read_launches(config.log.dir);
    if (!before.empty())
        before.pop_back(); // this one
    launch.restored(step);
    require_progress(config, job, before, step);
}

} // namespace trivium
