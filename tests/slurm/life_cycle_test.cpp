// The life of a job on a real cluster of four virtual nodes: jobs/train.sbatch is submitted, asked to stop, pre-empted, and comes
// back; sweeps; what jobs/submit writes. tests/slurm/cluster brings the cluster up.
#include "base/check.hpp"
#include "catch.hpp"
#include "slurm/job.hpp"

#include <algorithm>
#include <filesystem>
#include <set>

using namespace trivium;
using namespace trivium::slurm;

namespace {

const std::string four_nodes = "--nodes=4 --ntasks-per-node=2";

/// Text to train on, and the runs, each in a folder.
class Ground {
public:
    Ground() { prepare(folder_.path()); }
    Run run(const std::string& name) const { return {folder_.path(), name}; }

private:
    Folder folder_;
};

} // namespace

TEST_CASE("jobs come back by themselves, side by side")
{
    const Ground ground;
    Run plain = ground.run("plain"), signal = ground.run("signal"), mpirun = ground.run("mpirun"), sweep = ground.run("sweep");
    const auto asked = [](Run& run, const std::string& options) {
        const std::string job = run.submit(options);
        run.wait_until("step 10", [&] { return run.step() >= 10; });
        shell("scancel --batch --signal=USR1 " + job); // as --signal=B:USR1 does
        run.wait_for_end(job, "COMPLETED", 1);
        run.require(has(run.log(), "start 1"), "it says that it was started again");
    };
    const std::vector<std::string> failed = failures({
        {"plain", [&] { plain.wait_for_end(plain.submit(four_nodes), "COMPLETED", 0); }},
        {"USR1, srun", [&] { asked(signal, four_nodes); }},
        {"USR1, mpirun", [&] { asked(mpirun, four_nodes + " --export=ALL,TRIVIUM_LAUNCHER=mpirun"); }},
        {"sweep", [&] {
             write_text(sweep.path() + "/members.txt", "# one line a member\ntrain.seed=0\ntrain.seed=1\ntrain.lr=fast\n\ntrain.lr=1e-3\n");
             const std::string job = sweep.submit("--array=1-4 --nodes=1 --ntasks-per-node=2", "array.sbatch",
                                                  "members.txt parallel.data=2 parallel.pipeline=1 parallel.tensor=1");
             for (int member = 1; member <= 4; ++member)
                 sweep.wait_for_end(str(job, "_", member), member == 3 ? "FAILED" : "COMPLETED", 0);
             sweep.require(state_of(job + "_3").exit_status == 2, "the member with a bad key ends with status 2");
         }},
    });
    for (const std::string& text : failed)
        UNSCOPED_INFO(text);
    REQUIRE(failed.empty());

    const std::vector<double> losses = plain.losses();
    REQUIRE(losses.size() == 120);
    CHECK(losses.back() < losses.front());
    CHECK_NOTHROW(require_same(signal, signal.losses(), losses, 0));
    CHECK_NOTHROW(require_same(mpirun, mpirun.losses(), losses, 0));
    CHECK_NOTHROW(require_same(sweep, sweep.losses("members/1/logs"), losses, 1e-4)); // two ranks
    std::set<double> ends;
    for (const int member : {1, 2, 4}) {
        const std::vector<double> theirs = sweep.losses(str("members/", member, "/logs"));
        CHECK(theirs.size() == 120);
        ends.insert(theirs.back());
    }
    CHECK(ends.size() == 3);
    CHECK_FALSE(std::filesystem::exists(sweep.path() + "/members/3/logs/metrics.jsonl"));
}
