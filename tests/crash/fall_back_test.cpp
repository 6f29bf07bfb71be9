// A run with a damaged checkpoint reports it, renames it, and resumes from the previous one, on one rank and
// on several.
#include "base/check.hpp"
#include "catch.hpp"
#include "crash/failing_run.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "io/temporary_folder.hpp"
#include "soak_settings.hpp"
#include "train/damage.hpp"
#include "train/program.hpp"

using namespace trivium;
using namespace trivium::crash;
namespace fs = std::filesystem;

namespace {

std::vector<double> losses(const std::string& log)
{
    std::vector<double> all;
    for (const MetricsRecord& record : read_metrics(log))
        all.push_back(record.value("loss"));
    return all;
}

class FallBackFixture {
public:
    explicit FallBackFixture(int ranks) : ranks_(ranks)
    {
        make_store(folder_, 1000);
        write_text(folder_ / "run.toml",
                   str("[model]\nlayers = 1\ndim = 12\nheads = 3\nffn_dim = 7\nseq = 8\n[data]\ntrain = "
                       "\"train.h5\"\n"
                       "[train]\nsteps = 6\nglobal_batch = 3\n[parallel]\nthreads = 1\nzero = 1\ndata = ",
                       ranks, "\n[checkpoint]\ndir = \"ck\"\nevery = 2\n[log]\ndir = \"log\"\n"));
        REQUIRE(train({}).status == 0);
        undisturbed_ = losses(folder_ / "log");
        for (const char* name : {"ck", "log"})
            fs::remove_all(folder_ / name);
        REQUIRE(train({"train.stop_after=4"}).status == 0);
        fs::rename(folder_ / "ck", folder_ / "saved");
        fs::rename(folder_ / "log", folder_ / "saved-log");
    }

    Ended train(const std::vector<std::string>& more) const
    {
        std::vector<std::string> arguments{"train", "run.toml"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run(ranks_, arguments, folder_.path());
    }
    std::string newest() const { return folder_ / "ck/step-00000004"; }

    std::vector<damage::Damage> damages() const { return damage::damages(folder_ / "saved/step-00000004"); }

    void check(const damage::Damage& damage) const
    {
        for (const char* name : {"ck", "log"})
            fs::remove_all(folder_ / name);
        fs::copy(folder_ / "saved", folder_ / "ck", fs::copy_options::recursive);
        fs::copy(folder_ / "saved-log", folder_ / "log", fs::copy_options::recursive);
        const std::string older = folder_ / "ck/step-00000002";
        damage.make({newest(), older, older, older});
        const bool harmless =
            damage.harmless || damage::same_files(newest(), folder_ / "saved/step-00000004");
        const Ended ended = train({});
        INFO(ranks_ << " rank(s): " << damage.what << "; it ended with " << ended.status << " after "
                    << ended.seconds << " s; its log:\n"
                    << ended.err);
        REQUIRE_FALSE(ended.hung);
        REQUIRE(ended.status == 0);
        if (!harmless) {
            CHECK(has(ended.err, "resuming from ck/step-00000002"));
            CHECK(has(ended.err, "warning: this checkpoint is not used: "));
            CHECK(has(ended.err, "remedy: "));
            CHECK(has(ended.err, "ck/step-00000004"));
            CHECK(fs::exists(folder_ / "ck/.bad-step-00000004"));
        }
        CHECK((losses(folder_ / "log") == undisturbed_));
        for (const std::string& name : list_checkpoints(folder_ / "ck"))
            CHECK_NOTHROW(CheckpointReader::open(folder_ / ("ck/" + name)).verify());
    }

    /// Without another checkpoint to resume from.
    void check_alone() const
    {
        for (const char* name : {"ck", "log"})
            fs::remove_all(folder_ / name);
        fs::copy(folder_ / "saved", folder_ / "ck", fs::copy_options::recursive);
        fs::remove_all(folder_ / "ck/step-00000002");
        fs::resize_file(newest() + "/shard-00000.h5", 100);
        const Ended ended = train({});
        INFO(ranks_ << " rank(s): " << ended.err);
        CHECK(ended.status == 2);
        CHECK(has(ended.err, "every checkpoint in it is bad"));
        CHECK(has(ended.err, "shard-00000.h5"));
        CHECK(fs::exists(newest())); // it is not renamed, so that it can be repaired
    }

private:
    Folder folder_;
    int ranks_;
    std::vector<double> undisturbed_;
};

void try_damages(int ranks, std::size_t every)
{
    const FallBackFixture fixture(ranks);
    const std::vector<damage::Damage> all = fixture.damages();
    const bool whole = soak::whole();
    for (std::size_t i = 0; i < all.size(); ++i)
        if (whole || i % every == soak::seed() % every)
            fixture.check(all[i]);
    fixture.check_alone();
}

} // namespace

TEST_CASE("a run falls back from a damaged checkpoint: one rank") { try_damages(1, contracts_on ? 12 : 2); }

TEST_CASE("a run falls back from a damaged checkpoint: three ranks", "[release]") { try_damages(3, 20); }
