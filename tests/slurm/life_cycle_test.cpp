// The life of a job on a real cluster of four virtual nodes, which tests/slurm/cluster has started:
// jobs/submit and jobs/train.sbatch, signals, pre-emption, sweeps.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "slurm/job.hpp"
#include "soak_settings.hpp"

#include <chrono>
#include <filesystem>
#include <set>
#include <thread>

using namespace trivium;
using namespace trivium::slurm;

namespace {

const std::string four_nodes = "--nodes=4 --ntasks-per-node=2 ";
const std::string unasked = "--signal=B:URG@1 "; ///< a signal without effect instead of USR1
const std::string with_mpirun = "--export=ALL,TRIVIUM_LAUNCHER=mpirun ";
const std::string submit = str(TRIVIUM_SOURCE, "/jobs/submit ");

void write_cluster_file(const Run& run)
{
    write_text(
        run.path() + "/test.cluster",
        "# this one\npartition = main\ncores_per_node = 2\ntime = 10:00\nsetup = export FROM_SETUP=1\n");
}

} // namespace

TEST_CASE("jobs requeue themselves, concurrently")
{
    const Ground& ground = Ground::common();
    const Run plain = ground.run("plain"), srun = ground.run("srun"), mpirun = ground.run("mpirun"),
              sweep = ground.run("sweep"), suspended = ground.run("suspended");
    const auto asked = [&](const Run& run, const std::string& options) {
        const std::string job = run.submit(four_nodes + options);
        run.wait_until("step 10 is done", [&] { return run.step() >= 10; });
        shell("scancel --batch --signal=USR1 " + job); // like Slurm for --signal=B:USR1
        run.wait_for_end(job, "COMPLETED", 1);
        require_same(run, run.losses(), ground.losses(), 0);
    };
    const auto all = failures({
        {"jobs/submit",
         [&] {
             write_cluster_file(plain);
             const std::string said = shell(submit + "--cluster ./test.cluster run.toml", plain.path());
             plain.wait_for_end(said.substr(said.find_first_of("0123456789")), "COMPLETED", 0);
             require_same(plain, plain.losses(), ground.losses(), 0);
         }},
        {"USR1, srun", [&] { asked(srun, ""); }},
        {"USR1, mpirun", [&] { asked(mpirun, with_mpirun); }},
        {"suspended",
         [&] { // Slurm extends the end by the suspension
             const std::string job =
                 suspended.submit(four_nodes + unasked + "--time=1 " + suspended.slow_calls("log", 50));
             suspended.wait_until("step 20 is saved", [&] {
                 return std::filesystem::exists(suspended.path() + "/ck/step-00000020");
             });
             shell("scontrol suspend " + job);
             std::this_thread::sleep_for(std::chrono::seconds(20));
             shell("scontrol resume " + job);
             suspended.wait_until(
                 "it has ended", [&] { return state_of(job).state == "COMPLETED"; }, 300);
             suspended.require(has(suspended.log(), "the job's time limit: "), "it knows the new end");
             suspended.require(state_of(job).restarts <= 1, "one launch, on a busy machine two");
             require_same(suspended, suspended.losses(), ground.losses(), 0);
         }},
        {"sweep",
         [&] {
             write_text(sweep.path() + "/members.txt",
                        "# a line a member\ntrain.seed=0\ntrain.seed=1\ntrain.lr=fast\n\ntrain.lr=1e-3\n");
             const std::string job = sweep.submit("--array=1-4 --nodes=1 --ntasks-per-node=2", "array.sbatch",
                                                  "members.txt parallel.data=1 parallel.pipeline=1");
             for (int member = 1; member <= 4; ++member)
                 sweep.wait_for_end(str(job, "_", member), member == 3 ? "FAILED" : "COMPLETED", 0);
             sweep.require(state_of(job + "_3").exit_status == 2,
                           "a member with a bad key ends with status 2");
             sweep.require(has(sweep.log(), "train.lr"), "and says which key");
             require_same(sweep, sweep.losses("members/1/logs"), ground.losses(), 1e-4); // two ranks
             std::set<double> ends;
             for (const int member : {1, 2, 4})
                 ends.insert(sweep.losses(str("members/", member, "/logs")).at(steps - 1));
             sweep.require(ends.size() == 3, "each member has its own run");
         }},
    });
    for (const std::string& text : all)
        UNSCOPED_INFO(text);
    CHECK(all.empty());
}

TEST_CASE("a pre-empted job is requeued")
{
    const Ground& ground = Ground::common();
    const Run run = ground.run("low");
    const auto all =
        failures({{"pre-emption", [&] {
                       const std::string job = run.submit(four_nodes + "--partition=low");
                       run.wait_until("step 10 is done", [&] { return run.step() >= 10; });
                       const std::string higher = shell("sbatch --parsable --partition=high --nodes=4 "
                                                        "--exclusive --output=/dev/null --wrap 'sleep 1'");
                       run.wait_for_end(job, "COMPLETED", 1);
                       run.require(state_of(higher.substr(0, higher.find('\n'))).state == "COMPLETED",
                                   "the other has had the nodes");
                       run.require(has(run.log(), "resuming from"), "it goes on from what it has saved");
                       require_same(run, run.losses(), ground.losses(), 0);
                   }}});
    for (const std::string& text : all)
        UNSCOPED_INFO(text);
    CHECK(all.empty());
}

TEST_CASE("Slurm accepts the output of jobs/submit")
{
    const Ground& ground = Ground::common();
    const Run run = ground.run("printed");
    write_cluster_file(run);
    write_text(run.path() + "/members.txt", "train.seed=1\ntrain.seed=2\n");
    const std::string command = submit + "--cluster ./test.cluster --dry-run ";
    for (const std::string& options :
         {std::string(), std::string("--nodes 2-4 "), std::string("--members members.txt "),
          std::string("--dependency=singleton --time 1:00:00 "),
          std::string("--comment='a \"b\" # \\' --no-requeue ")}) {
        INFO(options);
        const std::string script = shell(command + options + "run.toml train.lr=1e-3", run.path());
        INFO(script);
        write_text(run.path() + "/script", script);
        CHECK_NOTHROW(shell("sbatch --test-only script", run.path()));
        CHECK_NOTHROW(shell("shellcheck --exclude=SC1090 script || [ $? -eq 127 ]", run.path()));
        CHECK(has(script, "#SBATCH --partition=main\n"));
        CHECK(has(script, "export FROM_SETUP=1\n"));
        CHECK(has(script, "run.toml"));
        CHECK(has(script, "train.lr=1e-3"));
        CHECK(has(script, options.starts_with("--nodes")
                              ? "#SBATCH --nodes=2-4\n#SBATCH --mincpus=2\n"
                              : "#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=2\n"));
        CHECK(has(script, "#SBATCH --array=1-2\n") == options.starts_with("--members"));
        CHECK(has(script, "#SBATCH --dependency=singleton\n") == options.starts_with("--dep"));
    }
    write_text(run.path() + "/gpu.cluster",
               "cores_per_node = 8\ngpus_per_node = 2\nexclusive = yes\nmachine = h100\noption = --mem=0\n");
    write_text(run.path() + "/script",
               shell(submit + "--cluster ./gpu.cluster --dry-run run.toml", run.path()));
    INFO(read_text(run.path() + "/script"));
    CHECK_NOTHROW(shell("sbatch --test-only script", run.path()));
    for (const char* line : {"--nodes=4", "--ntasks-per-node=2", "--cpus-per-task=4", "--gpus-per-node=2",
                             "--exclusive", "--mem=0"})
        CHECK(has(read_text(run.path() + "/script"), str("#SBATCH ", line, "\n")));

    // The longer a save takes, the earlier the signal.
    CHECK(has(shell(command + "run.toml", run.path()), "#SBATCH --signal=B:USR1@60\n"));
    std::filesystem::create_directory(run.path() + "/log");
    write_text(run.path() + "/log/metrics.jsonl",
               "{\"step\":1,\"step_seconds\":3.5,\"checkpoint_seconds\":41.5}\n{\"step\":2,\"step_seconds\":"
               "1,\"checkpoint_seconds\":9}\n");
    const std::string script = shell(command + "run.toml", run.path());
    INFO(script);
    CHECK(has(script, "#SBATCH --signal=B:USR1@120\n")); // 30 + 2 x (41.5 + 3.5)
    CHECK(has(script, "the longest save in log/metrics.jsonl"));
}

TEST_CASE("jobs/submit reports what it cannot do")
{
    const Ground& ground = Ground::common();
    const Run run = ground.run("submit");
    write_cluster_file(run);
    write_text(run.path() + "/bad.cluster", "partition = main\n\npartiton = low\n");
    write_text(run.path() + "/wide.cluster", "cores_per_node = 5\nexclusive = yes\n");
    const auto said = [&](const std::string& words) {
        INFO(words);
        const std::string output = shell(str(submit, words, " && exit 9; [ $? -eq 2 ]"), run.path());
        CHECK_FALSE(has(output, "#SBATCH"));
        return output;
    };
    CHECK(has(said("run.toml"), "one of cpu h100 laptop"));
    CHECK(has(said("--cluster h10 run.toml"), "did you mean 'h100'?"));
    CHECK(has(said("--cluster ./bad.cluster run.toml"), "bad.cluster:3: unknown key 'partiton'"));
    CHECK(has(said("--cluster ./bad.cluster run.toml"), "did you mean 'partition'?"));
    CHECK(has(said("--cluster ./test.cluster --dry-run none.toml"), "none.toml: cannot be read"));
    CHECK(has(said("--cluster ./test.cluster --dry-run run.toml train.lrr=1"), "train.lrr"));
    CHECK(has(said("--cluster ./wide.cluster --dry-run run.toml"),
              "8 ranks (data 2 x pipeline 2 x tensor 2) do not fill nodes of 5"));
    CHECK(has(said("--cluster ./wide.cluster --dry-run run.toml"), "--tasks-per-node 4"));
    CHECK(has(said("--cluster ./wide.cluster --dry-run run.toml parallel.data=1"),
              "4 ranks (data 1 x pipeline 2 x tensor 2) do not fill nodes of 5"));
    CHECK(has(said("--cluster ./test.cluster --nodes 2-3 --dry-run run.toml"), "fill 4 nodes"));
    CHECK(has(said("--cluster ./test.cluster --time 1 --dry-run run.toml"), "leaves no time to train"));
    CHECK(has(said("--cluster ./test.cluster --array=1-4 --dry-run run.toml"), "--members"));
    CHECK(has(said("--cluster ./test.cluster -N4 run.toml"), "-N4: is not an option"));
}

TEST_CASE("a real time limit") // in tests/soak, because limits are whole minutes
{
    if (soak::number("TRIVIUM_SOAK_SECONDS", 1) < 100)
        return;
    const Ground& ground = Ground::common();
    const Run run = ground.run("limit"), raised = ground.run("raised");
    const auto all = failures(
        {{"a raised limit",
          [&] {
              const std::string job = raised.submit(four_nodes + unasked + "--time=1 --no-requeue " +
                                                    raised.slow_calls("log", 600));
              raised.wait_until("step 5 is done", [&] { return raised.step() >= 5; });
              shell("scontrol update JobId=" + job + " TimeLimit=5");
              raised.wait_for_end(job, "COMPLETED", 0);
              require_same(raised, raised.losses(), ground.losses(), 0);
          }},
         {"limit", [&] {
              const std::string job =
                  run.submit(four_nodes + "--time=1 --signal=B:USR1@1 " + run.slow_calls("log", 500));
              run.wait_until(
                  "it has ended", [&] { return state_of(job).state == "COMPLETED"; }, 300);
              run.require(state_of(job).restarts >= 1, "it has come back, on a busy machine more than once");
              run.require(has(run.log(), "stopped on"), "it has stopped in time");
              require_same(run, run.losses(), ground.losses(), 0);
          }}});
    for (const std::string& text : all)
        UNSCOPED_INFO(text);
    CHECK(all.empty());
}
