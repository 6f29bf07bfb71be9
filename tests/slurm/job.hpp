#pragma once
// Jobs on the cluster that tests/slurm/cluster has started. A Failure is an exception, because scenarios run
// on threads, which Catch2 does not monitor.
#include "base/units.hpp"
#include "train/program.hpp"

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace trivium::slurm {

class Failure : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The output of a shell command in folder `cwd`. Failure: its status is not 0.
std::string shell(const std::string& line, const std::string& cwd = "/");
/// Its exit status; discards the output.
int shell_status(const std::string& line, const std::string& cwd = "/");

struct JobState {
    std::string state; ///< in Slurm's terms: PENDING, RUNNING, COMPLETED, FAILED, …
    int restarts = 0, exit_status = 0, nodes = 0;
};

constexpr i64 steps = 120; ///< of each run

/// The folder of a run, with a config and its data, and the jobs that train there.
class Run {
public:
    /// A tiny model on a grid of 2 x 2 x 2. `name`: of the folder, in `parent`, which has train.h5.
    Run(const std::string& parent, const std::string& name);

    /// sbatch OPTIONS jobs/SCRIPT run.toml ARGUMENTS; the job's number.
    std::string submit(const std::string& options, const std::string& script = "train.sbatch",
                       const std::string& arguments = "") const;
    const std::string& path() const { return path_; }
    /// Output of all jobs.
    std::string log() const;
    /// For slow saves: a program that trains, but each call of rank 0 that changes something in `folder`
    /// takes this many milliseconds longer, and writes in subfolders also wait while the file gate() exists.
    /// Returns an option of sbatch.
    std::string slow_calls(const std::string& folder, int milliseconds) const;
    std::string gate() const { return path_ + "/gate"; }
    /// The last step in metrics.jsonl.
    i64 step() const;
    /// One per step, from the first on. Failure: a step is missing or occurs twice.
    std::vector<double> losses(const std::string& logs = "log") const;

    /// Waits until `condition` is true. Failure after `seconds`, with `what` and the log.
    void wait_until(const std::string& what, const std::function<bool()>& condition, int seconds = 120) const;
    /// Waits until the job has ended. Failure: not in `state` after this many restarts.
    void wait_for_end(const std::string& job, const std::string& state, int restarts) const;
    [[noreturn]] void fail(const std::string& what) const;
    void require(bool holds, const std::string& what) const
    {
        if (!holds)
            fail(what);
    }

private:
    std::string path_;
};

JobState state_of(const std::string& job);

/// The output of tests/slurm/cluster WORDS.
std::string cluster(const std::string& words);

/// The folder of all runs, with their data and their reference: a run on 8 ranks of this machine, started
/// without Slurm.
class Ground {
public:
    static const Ground& common();
    Run run(const std::string& name) const { return {folder_.path(), name}; }
    const std::vector<double>& losses() const { return losses_; }

private:
    Ground();

    Folder folder_;
    std::vector<double> losses_;
};

/// Failure if two curves differ by more than `tolerance`; 0: in any bit.
void require_same(const Run& run, const std::vector<double>& losses, const std::vector<double>& expected,
                  double tolerance);

/// Runs scenarios concurrently, each on a thread; returns the messages of those that failed.
std::vector<std::string>
failures(const std::vector<std::pair<std::string, std::function<void()>>>& scenarios);

} // namespace trivium::slurm
