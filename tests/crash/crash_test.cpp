// A call fails while a run saves, or the run is killed at any time. Then every checkpoint that was reported
// as saved is undamaged, and the next launch resumes from the newest and yields the losses of an undisturbed
// run.
#include "base/check.hpp"
#include "catch.hpp"
#include "crash/crash_fixture.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/metrics/metrics.hpp"
#include "io/temporary_folder.hpp"
#include "soak_settings.hpp"
#include "train/program.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <random>
#include <set>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace trivium;
using namespace trivium::crash;

namespace {

const bool whole = soak::whole();

/// A call of one rank that is to fail.
struct Trial {
    Variant variant;
    int rank;
    Call call;
    std::string kind;
};

bool needs_space(const std::string& call)
{
    return call != "close" && call.find("sync") == std::string::npos &&
           call.find("unlink") == std::string::npos && call != "remove" && call != "rmdir";
}

std::vector<std::string> kinds_of(const std::string& call)
{
    std::vector<std::string> kinds{"kill-before", "kill-after", "EIO", "EIO-once"};
    if (needs_space(call))
        kinds.emplace_back("ENOSPC");
    if (has(call, "write"))
        kinds.insert(kinds.end(), {"torn", "short"});
    return kinds;
}

/// The end of a launch's log.
std::string end_of(const std::string& text)
{
    return text.size() < 600 ? text : "…" + text.substr(text.size() - 600);
}

std::size_t count(const std::string& text, const std::string& part)
{
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++n;
    return n;
}

/// Whether a run may continue after this failure: a missing lock, no preallocated space, a temporary file
/// that cannot be removed, or a call that HDF5 repeats.
bool may_continue(const Trial& trial)
{
    const std::string& path = trial.call.path;
    if ((has(path, "/.scratch-") || path.ends_with("/save-now")) && !needs_space(trial.call.name))
        return true;
    if (has(path, "/.gone-") && (has(trial.call.name, "unlink") || has(trial.call.name, "remove")))
        return true; // a warning: the next launch removes it
    return path.ends_with("/.lock") || has(trial.call.name, "allocate") ||
           (trial.kind == "EIO-once" && path.ends_with(".h5"));
}

/// How the end of the launch differs from what is expected; "" if it does not.
std::string wrong_end(const Trial& trial, const Ended& ended)
{
    if (ended.hung)
        return "it hung";
    if (trial.kind.starts_with("kill"))
        return ended.status != 0 ? "" : "it continued although it was killed";
    if (trial.kind == "short" || (ended.status == 0 && may_continue(trial)))
        return ended.status == 0 ? "" : "it did not continue";
    if (ended.status != 1)
        return str("status ", ended.status);
    if (count(ended.err, "trivium: ") != 1)
        return "not one message";
    if (!has(ended.err, "ck") || !has(ended.err, "remedy: "))
        return "no place or remedy in the message";
    if (has(ended.err, "internal error"))
        return "an internal error";
    if (has(ended.err, "errno"))
        return "the text of a library in the message";
    const char* const reason =
        trial.kind.starts_with("EIO") ? "Input/output error" : "No space left on device";
    return has(ended.err, reason) ? "" : "no reason in the message";
}

std::vector<Trial> trials_of(const CrashFixture& fixture, const Variant& variant)
{
    std::vector<Trial> all;
    for (int rank = 0; rank < variant.ranks; ++rank)
        for (const Call& call : fixture.calls(variant, rank))
            for (const std::string& kind : kinds_of(call.name))
                all.push_back({variant, rank, call, kind});
    return all;
}

/// Runs all trials, or at least `at_least` of them and as many as the time allows.
void try_failures(int ranks, std::size_t at_least)
{
    CrashFixture fixture;
    std::vector<Trial> trials;
    for (const bool async : {false, true})
        for (Trial& trial : trials_of(fixture, {ranks, async}))
            trials.push_back(std::move(trial));
    std::mt19937_64 random(soak::seed());
    if (!whole)
        std::shuffle(trials.begin(), trials.end(), random);
    const soak::Budget budget(3);
    std::size_t tried = 0, reached = 0, ignored = 0;
    for (const Trial& trial : trials) {
        if (!whole && tried >= at_least && !budget.left())
            break;
        ++tried;
        fixture.forget_log();
        Environment environment = fixture.logged();
        environment["TRIVIUM_FAIL_RANK"] = std::to_string(trial.rank);
        environment["TRIVIUM_FAIL_CALL"] = std::to_string(trial.call.number);
        environment["TRIVIUM_FAIL_KIND"] = trial.kind;
        const Ended ended = fixture.train_first(trial.variant, environment);
        // Threads may change the order of calls: the log has the call that failed.
        const std::vector<Call> met = read_calls(fixture.log(trial.rank));
        Trial actual = trial;
        if (!met.empty())
            actual.call = met.front();
        INFO(trial.variant.text() << ": " << trial.kind << " at call " << trial.call.number << " of rank "
                                  << trial.rank << ", " << actual.call.name << " " << actual.call.path
                                  << "; it ended with " << ended.status << " after " << ended.seconds
                                  << " s; end of its log:\n"
                                  << end_of(ended.err));
        if (met.empty()) {
            CHECK(ended.status == 0);
            CHECK(trial.variant.async); // otherwise every launch makes the same calls
        } else if (needs_space(actual.call.name) == needs_space(trial.call.name)) {
            ++reached;
            CHECK(wrong_end(actual, ended) == "");
            ignored += !trial.kind.starts_with("kill") && trial.kind != "short" && ended.status == 0;
        }
        fixture.check_recovery(trial.variant, ended.err);
    }
    CHECK(tried - reached <= 2 + tried / 10); // with threads, another call may be the Nth
    std::printf("%d rank(s): %zu of %zu failures tried, %zu reached, %zu without harm\n", ranks, tried,
                trials.size(), reached, ignored);
}

/// Whether the launch was saving when it was killed: an incomplete folder, or an unreported checkpoint.
bool was_saving(const CrashFixture& fixture, const std::string& err)
{
    if (!std::filesystem::exists(fixture.checkpoints()))
        return false;
    const std::vector<long> reported = reported_steps(err);
    const std::vector<std::string> there = list_checkpoints(fixture.checkpoints());
    bool half_done =
        !there.empty() && (reported.empty() || there.front() != checkpoint_name(reported.back()));
    for (const std::string& name : names(fixture.checkpoints()))
        half_done = half_done || name.starts_with(".tmp") || name.starts_with(".old");
    return half_done;
}

} // namespace

TEST_CASE("no failed call loses a saved checkpoint: one rank") { try_failures(1, contracts_on ? 10 : 60); }

TEST_CASE("no failed call loses a saved checkpoint: two ranks", "[release]") { try_failures(2, 6); }

TEST_CASE("a run that is killed at a random moment resumes from the newest reported checkpoint", "[release]")
{
    CrashFixture fixture;
    std::mt19937_64 random(soak::seed());
    const std::size_t rounds = whole ? 100 : 6;
    std::map<std::string, double> span; // duration of a launch, in microseconds
    std::size_t killed = 0, inside = 0;
    const soak::Budget budget(3);
    for (std::size_t round = 0;
         (killed < rounds || inside * 2 < killed || (!whole && budget.left())) && round < 20 * rounds;
         ++round) {
        const Variant variant{round % 5 == 4 ? 2 : 1, round % 2 == 1};
        // Slow calls, so that most of the time is inside a save, as with a large model; sometimes without.
        const Environment slow{{"TRIVIUM_FAIL_DELAY", round % 4 == 3 ? "0" : "500"}};
        std::int64_t wait = -1;
        std::chrono::steady_clock::time_point begin{};
        int victim = 0;
        const std::string where = str(variant.text(), ", delay ", slow.at("TRIVIUM_FAIL_DELAY"));
        const auto kill_in_time = [&](int child) {
            const std::string log = std::filesystem::exists(fixture.checkpoints() + "/../../.out")
                                        ? read_text(fixture.checkpoints() + "/../../.out")
                                        : "";
            if (begin == std::chrono::steady_clock::time_point{}) {
                if (has(log, "compute "))
                    begin = std::chrono::steady_clock::now();
                else
                    return;
            }
            if (wait < 0 || victim != 0)
                return;
            const std::int64_t passed = std::chrono::duration_cast<std::chrono::microseconds>(
                                            std::chrono::steady_clock::now() - begin)
                                            .count();
            if (passed < wait)
                ::usleep(static_cast<useconds_t>(std::min<std::int64_t>(wait - passed, 500000)));
            const std::vector<int> ranks = processes_below(child, "trivium");
            if (ranks.empty())
                return;
            victim = ranks[random() % ranks.size()];
            ::kill(victim, SIGKILL);
        };
        if (!span.contains(where)) { // measure one complete launch
            const Ended ended = fixture.train_first(variant, slow, {}, kill_in_time);
            REQUIRE(ended.status == 0);
            span[where] =
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
            begin = {};
        }
        wait = static_cast<std::int64_t>(static_cast<double>(random() % 1000) / 1000 * span[where]);
        const Ended ended = fixture.train_first(variant, slow, {}, kill_in_time);
        INFO(where << ": killed " << wait << " us after the start of training; end of its log:\n"
                   << end_of(ended.err));
        CHECK_FALSE(ended.hung);
        if (ended.status != 0) {
            ++killed;
            inside += was_saving(fixture, ended.err);
        }
        fixture.check_recovery(variant, ended.err);
    }
    CHECK(killed >= rounds);
    CHECK(inside * 2 >= killed);
    std::printf("%zu runs killed, %zu of them inside a save\n", killed, inside);
}

TEST_CASE("the metrics of a checkpoint's steps are durable before the checkpoint is renamed", "[release]")
{
    const CrashFixture fixture;
    const Variant variant{1, GENERATE(false, true)};
    INFO(variant.text());
    long written = 0, safe = 0;
    std::set<long> named;
    for (const Call& call : fixture.calls(variant, 0, "/t")) {
        if (call.path.ends_with("/metrics.jsonl")) {
            written += call.name == "write";
            safe = call.name == "fsync" ? written : safe;
        }
        const std::size_t at = call.path.find("/ck/step-");
        if (has(call.name, "rename") && at != std::string::npos) {
            named.insert(std::stol(call.path.substr(at + 9)));
            CHECK(safe >= *named.rbegin());
        }
    }
    CHECK(named == std::set<long>{2, 4, 6});
}

TEST_CASE("a full disk for the log ends no run, and what it held back is written later")
{
    CrashFixture fixture;
    const Variant variant{2, false}; // a save of another thread would sync the log at any of the calls
    const std::string folder = std::filesystem::canonical(fixture.folder()).string() + "/t/log";
    std::vector<Call> lines;
    for (const Call& call : fixture.calls(variant, 0, "/t/log"))
        if (call.name == "write" && call.path.ends_with("metrics.jsonl"))
            lines.push_back(call);
    REQUIRE(lines.size() == static_cast<std::size_t>(first_launch));
    const std::string kind = GENERATE("EIO-once", "ENOSPC", "torn");
    const Ended ended = fixture.train_first(variant, {{"TRIVIUM_FAIL_FOLDER", folder},
                                                      {"TRIVIUM_FAIL_CALL", std::to_string(lines[2].number)},
                                                      {"TRIVIUM_FAIL_KIND", kind}});
    INFO(kind << "\n" << ended.err);
    CHECK(ended.err.find("metrics.jsonl: cannot write") != std::string::npos);
    CHECK(ended.err.find("lines are kept") != std::string::npos);
    CHECK((reported_steps(ended.err) == std::vector<long>{2, 4, 6})); // it saves to the end
    CHECK(ended.status == (kind == "EIO-once" ? 0 : 1));
    CHECK((kind == "EIO-once") == (ended.err.find("that were kept are written") != std::string::npos));
    const Ended again = fixture.train(variant, {});
    INFO(again.err);
    CHECK(again.status == 0);
    CHECK(again.err.find("resuming from t/ck/step-00000006") != std::string::npos);
    const std::vector<double> losses = fixture.losses(), all = fixture.undisturbed(variant);
    if (kind == "EIO-once")
        CHECK((losses == all));
    else // those of the other steps
        CHECK((losses == std::vector<double>{all[0], all[1], all[6], all[7]}));
}

TEST_CASE("a full disk at the index of a checkpoint is one plain message", "[release]")
{
    CrashFixture fixture;
    const Variant variant{1, false};
    std::set<std::string> tried;
    for (const Call& call : fixture.calls(variant, 0))
        if (call.path.ends_with("/index.h5") && has(call.name, "write") && tried.insert(call.name).second) {
            const Ended ended =
                fixture.train_first(variant, {{"TRIVIUM_FAIL_CALL", std::to_string(call.number)},
                                              {"TRIVIUM_FAIL_KIND", "ENOSPC"}});
            INFO(call.name << "\n" << ended.err);
            CHECK(wrong_end({variant, 0, call, "ENOSPC"}, ended) == "");
            CHECK(has(ended.err, "index.h5"));
            CHECK(has(ended.err, "reason: No space left on device\n"));
            CHECK(has(ended.err, "remedy: free space on that disk"));
        }
    CHECK(!tried.empty());
}

TEST_CASE("a limit on the size of files ends a run with a message, not with a signal")
{
    CrashFixture fixture;
    const Variant variant{1, GENERATE(false, true)};
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const rlimit limit{16384, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &limit) == 0);
    const Ended ended = fixture.train_first(variant, {});
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &before) == 0);
    INFO(ended.err);
    CHECK(ended.status == 1);
    CHECK(count(ended.err, "trivium: ") == 1);
    for (const char* part : {"trivium: t/ck/", "reason: File too large\n", "remedy: ", "ulimit -f"})
        CHECK(has(ended.err, part));
    fixture.check_recovery(variant, ended.err);
}

TEST_CASE("a run that no longer learns keeps the save under way", "[release]")
{
    CrashFixture fixture;
    const Variant variant{2, true};
    const Ended ended = fixture.train_first(variant, {{"TRIVIUM_FAIL_DELAY", "20000"}},
                                            {"train.lr=1e30", "train.min_lr=1e30", "train.max_skipped=2",
                                             "train.steps=1000", "train.stop_after=1000"});
    INFO(ended.err);
    CHECK(ended.status == 1);
    CHECK(ended.err.find("was skipped") != std::string::npos);
    const std::vector<long> reported = reported_steps(ended.err);
    REQUIRE_FALSE(reported.empty());
    CHECK(list_checkpoints(fixture.checkpoints()).front() == checkpoint_name(reported.back()));
    for (const std::string& name : names(fixture.checkpoints()))
        CHECK_FALSE(name.starts_with(".tmp"));
}

TEST_CASE("a run without disk space for a checkpoint is refused before its first step", "[release]")
{
    const CrashFixture fixture;
    const Variant variant{1, false};
    const auto with_free = [&](const char* bytes, const std::vector<std::string>& more) {
        Ended ended = fixture.train(variant, more, {{"TRIVIUM_FAIL_FREE", bytes}});
        INFO(bytes << " bytes are free: " << ended.err);
        CHECK_FALSE(ended.hung);
        return ended;
    };
    const Ended none = with_free("8192", {});
    CHECK(none.status == 1);
    CHECK(has(none.err, "checkpoint.dir: a save takes "));
    CHECK(has(none.err, "free"));
    CHECK_FALSE(has(none.err, "step 1/"));
    const Ended few =
        with_free("131072", {"train.stop_after=2"}); // enough for one checkpoint of 60 KB, not for three
    CHECK(few.status == 0);
    CHECK(has(few.err, "warning: the next 3 checkpoints"));
    const Ended enough = with_free("1000000", {"train.stop_after=2"});
    CHECK(enough.status == 0);
    CHECK_FALSE(has(enough.err, "warning: the next"));
    CHECK_FALSE(has(with_free("1000000000000", {"train.stop_after=1"}).err, "warning"));
}
