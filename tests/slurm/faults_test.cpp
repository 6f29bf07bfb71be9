// Failures while a job runs on the cluster: nodes, a rank, a daemon of Slurm. The job is requeued and ends
// with the losses of an undisturbed run.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/launches.hpp"
#include "io/temporary_folder.hpp"
#include "slurm/job.hpp"

#include <chrono>
#include <filesystem>
#include <thread>

using namespace trivium;
using namespace trivium::slurm;
namespace fs = std::filesystem;

namespace {

/// Whether a save is in progress. Once a launch has done a step, it has removed what earlier launches left.
bool saving(const Run& run)
{
    for (const auto& entry : fs::directory_iterator(run.path() + "/ck"))
        if (entry.path().filename().string().starts_with(".tmp-step"))
            return true;
    return false;
}

/// Restores killed nodes for the next test.
struct Mended {
    ~Mended()
    {
        for (const char* node : {"n1", "n3"})
            shell_status(str(TRIVIUM_SOURCE, "/tests/slurm/cluster start-node ", node));
    }
};

} // namespace

TEST_CASE("a node dies in a step, another in a save: the job resumes on the remaining nodes")
{
    const Ground& ground = Ground::common();
    const Run run = ground.run("nodes");
    const Mended mended;
    const auto all = failures(
        {{"nodes", [&] {
              const std::string options = "--nodes=2-4 --exclusive --mincpus=2 " + run.slow_calls("ck", 30) +
                                          ",TRIVIUM_RANKS_PER_NODE=2";
              const std::string job = run.submit(options, "train.sbatch", "checkpoint.every=40");
              run.wait_until("step 40 is saved",
                             [&] { return fs::exists(run.path() + "/ck/step-00000040"); });
              cluster("kill-node n3");
              run.wait_until("the second launch",
                             [&] { return read_launches(run.path() + "/log").size() == 2; });
              write_text(run.gate(), ""); // the next save does not end
              run.wait_until("a step of the second launch", [&] {
                  const std::string log = run.log();
                  const auto begin = log.find("restart 1:");
                  return begin != std::string::npos && log.find("/120  loss", begin) != std::string::npos;
              });
              run.wait_until("it saves", [&] { return saving(run); });
              cluster("kill-node n1"); // the batch script's, and rank 0's
              run.require(saving(run), "the save was not over when the node died");
              fs::remove(run.gate());
              cluster("start-node n3");
              run.wait_for_end(job, "COMPLETED", 2);
              require_same(run, run.losses(), ground.losses(), 1e-4);
              const std::string log = run.log();
              for (const char* line : {"restart 0: ranks 8, nodes 4", "restart 1: ranks 6, nodes 3",
                                       "restart 2: ranks 6, nodes 3"})
                  run.require(has(log, line), line);
              const std::vector<trivium::Launch> launches = read_launches(run.path() + "/log");
              run.require(launches.size() == 3 && launches[1].from >= 40 &&
                              launches[1].from == launches[2].from,
                          "three launches, the last two from the same step");
              run.require(launches[0].grid != launches[1].grid, "another grid");
          }}});
    for (const std::string& text : all)
        UNSCOPED_INFO(text);
    CHECK(all.empty());
}

TEST_CASE("a rank is stopped, or Slurm's step daemon dies: the log names it, and the job is requeued")
{
    const Ground& ground = Ground::common();
    const Run stopped = ground.run("stopped"), orphans = ground.run("orphans");
    const auto strike = [&](const Run& run, const std::string& signal, const std::string& node,
                            const std::string& program) {
        const std::string job = run.submit("--nodes=4 --ntasks-per-node=2 " + run.slow_calls("log", 50),
                                           "train.sbatch", "job.watchdog=15");
        run.wait_until("step 10 is done", [&] { return run.step() >= 10; });
        std::this_thread::sleep_for(std::chrono::milliseconds(1500)); // a heartbeat of a step, one per second
        const std::string processes = cluster(str("pids ", node, " ", program, " ", job));
        shell(str("kill -", signal, " ", processes.substr(0, processes.find('\n'))));
        run.wait_until( // to the report's last line; it may arrive in parts
            "the log names it", [&] { return has(run.log(), "remedy: the run ends with status"); }, 60);
        const std::string log = run.log();
        run.require(has(log, "the run hangs: no heartbeat from rank") && has(log, "(" + node + ")"),
                    "a rank without heartbeat, with its node");
        // The last heartbeat may be from a save.
        run.require(has(log, "last in step ") || has(log, "last in the save of step "), "its operation");
        run.wait_for_end(job, "COMPLETED", 1);
        require_same(run, run.losses(), ground.losses(), 0);
    };
    const auto all = failures({
        {"a rank is stopped", [&] { strike(stopped, "STOP", "n2", "trivium"); }},
        {"a step daemon is killed", [&] { strike(orphans, "KILL", "n3", "slurmstepd"); }},
    });
    for (const std::string& text : all)
        UNSCOPED_INFO(text);
    CHECK(all.empty());
}
