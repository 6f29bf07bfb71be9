#pragma once
// A small run in which a call fails, or that is killed, and the check that the next launch recovers.
#include "base/check.hpp"
#include "catch.hpp"
#include "crash/failing_run.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "io/temporary_folder.hpp"
#include "train/program.hpp"

#include <algorithm>
#include <cstdio>

namespace trivium::crash {

struct Variant {
    int ranks;
    bool async;
    std::string text() const { return str(ranks, " rank(s), async ", async ? "true" : "false"); }
};

/// Steps of a run, and of its first launch, the one that fails: it saves three times, and the last save
/// removes a checkpoint.
inline constexpr long steps = 8, first_launch = 6;

class CrashFixture {
public:
    CrashFixture()
    {
        make_store(folder_, 1000);
        write_text(folder_ / "run.toml",
                   str("[model]\nlayers = 1\ndim = 8\nheads = 2\nffn_dim = 8\nseq = 8\n[data]\ntrain = "
                       "\"train.h5\"\n"
                       "[train]\nsteps = ",
                       steps,
                       "\nglobal_batch = 2\n[parallel]\nthreads = 1\n"
                       "[checkpoint]\ndir = \"t/ck\"\nevery = 2\nkeep = 2\n[log]\ndir = \"t/log\"\n"));
    }

    Ended train(const Variant& variant, const std::vector<std::string>& more, Environment environment = {},
                const std::function<void(int)>& meanwhile = {}) const
    {
        std::vector<std::string> arguments{"train", "run.toml",
                                           str("checkpoint.async=", variant.async ? "true" : "false")};
        if (variant.ranks > 1) {
            arguments.push_back(str("parallel.data=", variant.ranks));
            arguments.emplace_back("parallel.zero=1");
        }
        arguments.insert(arguments.end(), more.begin(), more.end());
        if (!environment.empty()) {
            environment["LD_PRELOAD"] = TRIVIUM_FAIL_IO;
            environment.try_emplace("TRIVIUM_FAIL_FOLDER",
                                    std::filesystem::canonical(folder_.path()).string() + "/t/ck");
        }
        return run(variant.ranks, arguments, folder_.path(), environment, meanwhile);
    }
    Ended train_first(const Variant& variant, const Environment& environment,
                      const std::vector<std::string>& more = {},
                      const std::function<void(int)>& meanwhile = {}) const
    {
        std::filesystem::remove_all(folder_ / "t");
        std::vector<std::string> arguments{str("train.stop_after=", first_launch)};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return train(variant, arguments, environment, meanwhile);
    }

    const std::string& folder() const { return folder_.path(); }
    std::string checkpoints() const { return folder_ / "t/ck"; }
    std::string log(int rank) const { return str(folder_.path(), "/calls.", rank); }
    Environment logged() const { return {{"TRIVIUM_FAIL_LOG", folder_ / "calls"}}; }
    void forget_log() const
    {
        for (int rank = 0; rank < 2; ++rank)
            std::filesystem::remove(log(rank));
    }

    std::vector<double> losses() const
    {
        std::vector<double> all;
        for (const MetricsRecord& record : read_metrics(folder_ / "t/log"))
            all.push_back(record.value("loss"));
        return all;
    }

    /// The losses of a run without failures.
    const std::vector<double>& undisturbed(const Variant& variant)
    {
        std::vector<double>& losses_of = undisturbed_[variant.ranks];
        if (losses_of.empty()) {
            std::filesystem::remove_all(folder_ / "t");
            REQUIRE(train(variant, {}).status == 0);
            losses_of = losses();
            REQUIRE(losses_of.size() == steps);
        }
        return losses_of;
    }

    /// The calls of rank `rank` in a first launch without failures.
    std::vector<Call> calls(const Variant& variant, int rank, const std::string& below = "/t/ck") const
    {
        forget_log();
        Environment environment = logged();
        environment["TRIVIUM_FAIL_FOLDER"] = std::filesystem::canonical(folder_.path()).string() + below;
        environment["TRIVIUM_FAIL_RANK"] = std::to_string(rank);
        const Ended ended = train_first(variant, environment);
        INFO(ended.err);
        REQUIRE(ended.status == 0);
        const std::vector<Call> all = read_calls(log(rank));
        forget_log();
        REQUIRE(!all.empty());
        return all;
    }

    /// Checks that the run recovers after a launch with the log `err`, however it ended.
    void check_recovery(const Variant& variant, const std::string& err)
    {
        const std::vector<long> reported = reported_steps(err);
        const long last = reported.empty() ? 0 : reported.back();
        const std::vector<std::string> there = list_checkpoints(checkpoints());
        for (const std::string& name : there) {
            std::string problem;
            try {
                CheckpointReader::open(checkpoints() + "/" + name).verify();
            } catch (const Error& error) {
                problem = error.what();
            }
            CHECK(problem == "");
        }
        if (last > 0)
            CHECK(std::count(there.begin(), there.end(), checkpoint_name(last)) == 1);
        CHECK(there.size() >= std::min<std::size_t>(2, reported.size())); // two are kept

        const Ended again = train(variant, {});
        INFO("log of the next launch:\n"
             << again.err.substr(again.err.size() < 600 ? 0 : again.err.size() - 600));
        REQUIRE_FALSE(again.hung);
        REQUIRE(again.status == 0);
        const std::size_t at = again.err.find("resuming from t/ck/step-");
        if (!there.empty()) {
            REQUIRE(at != std::string::npos);
            CHECK(std::stol(again.err.substr(at + 24)) >= last);
        }
        CHECK((losses() == undisturbed(variant)));
        CHECK(list_checkpoints(checkpoints()) ==
              std::vector<std::string>{checkpoint_name(steps), checkpoint_name(steps - 2)});
        CHECK(names(checkpoints()) == std::vector<std::string>{".lock", ".run", "latest",
                                                               checkpoint_name(steps - 2),
                                                               checkpoint_name(steps)}); // no leftovers
        for (const std::string& name : list_checkpoints(checkpoints()))
            CHECK_NOTHROW(CheckpointReader::open(checkpoints() + "/" + name).verify());
    }

private:
    Folder folder_;
    std::map<int, std::vector<double>> undisturbed_;
};

} // namespace trivium::crash
