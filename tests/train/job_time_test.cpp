// When a run stops because of its job's time limit: the decisions alone, and with Slurm's commands.
#include "catch.hpp"
#include "lifecycle/job_time.hpp"
#include "lifecycle/launcher.hpp"
#include "program.hpp"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>

using namespace trivium;

TEST_CASE("squeue's answers about the end of a job")
{
    CHECK(job_end_in("N/A\n").known);
    CHECK_FALSE(job_end_in("N/A\n").end);
    CHECK_FALSE(job_end_in("").known);
    CHECK_FALSE(job_end_in("slurm_load_jobs error: Invalid job id specified").known);
    CHECK_FALSE(job_end_in("2026-11-22T1").known);
    CHECK_FALSE(job_end_in("2026-11-22T12:00:00x\n").known);
    for (const std::time_t time :
         {std::time_t{1780000000},
          std::time_t{1764000000}}) { // daylight-saving and standard time, if the zone has them
        char text[32] = "";
        std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S\n", std::localtime(&time));
        const JobEnd told = job_end_in(text);
        REQUIRE(told.end);
        CHECK(*told.end == time);
    }
}

TEST_CASE("a run does not stop because of an old answer, and does not wait for a new one for long")
{
    using enum TimeVerdict;
    const auto verdict = [](Seconds left, Seconds lead, Seconds tried, Seconds waiting = -1) {
        return judge(TimeLeft{left, lead, tried, waiting});
    };
    CHECK(verdict(1000, 50, 60) == keep_running);
    CHECK(verdict(60, 50, 60) == ask);         // the end is near
    CHECK(verdict(60, 50, 3) == keep_running); // known
    CHECK(verdict(40, 50, 3) == stop);
    CHECK(verdict(40, 50, 60) == ask);             // the limit may have been raised
    CHECK(verdict(40, 50, 60, 2) == keep_running); // the query is running
    CHECK(verdict(40, 50, 60, 7) == stop);         // or not
    CHECK(verdict(1000, 50, 60, 100) == keep_running);
    CHECK(verdict(-5, 50, 1) == stop);
}

TEST_CASE("the lead time depends on usual steps, not on a single long one")
{
    RecentTimes times;
    CHECK(times.usual() == 0);
    times.add(30);
    CHECK(times.usual() == 30);
    times.add(1);
    CHECK(times.usual() == 1); // the first one was a start-up
    for (int i = 0; i < 20; ++i)
        times.add(1);
    times.add(70);
    CHECK(times.usual() == 1);
    for (int i = 0; i < 20; ++i) { // every fourth one is long: they count
        times.add(1);
        times.add(1);
        times.add(1);
        times.add(9);
    }
    CHECK(times.usual() == 9);
    for (int i = 0; i < 64; ++i)
        times.add(2);
    CHECK(times.usual() == 2);
}

TEST_CASE("a command's output, unless it never arrives")
{
    std::atomic<bool> never{false}, cancelled{true};
    CHECK(output_of({"echo", "a b"}, 5, never) == std::optional<std::string>("a b\n"));
    CHECK_FALSE(output_of({"sh", "-c", "echo a; exit 3"}, 5, never));
    CHECK_FALSE(output_of({"no-such-program-anywhere"}, 5, never));
    std::signal(SIGCHLD, SIG_IGN); // nobody knows its status
    CHECK_FALSE(output_of({"sh", "-c", "echo a; exit 3"}, 5, never));
    std::signal(SIGCHLD, SIG_DFL);
    setenv("SQUEUE_STATES", "PENDING", 1);
    setenv("SLURM_TIME_FORMAT", "%s", 1);
    CHECK(output_of({"sh", "-c", "echo $SQUEUE_STATES$SLURM_TIME_FORMAT"}, 5, never) ==
          std::optional<std::string>("standard\n"));
    unsetenv("SQUEUE_STATES");
    unsetenv("SLURM_TIME_FORMAT");
    const auto begin = std::chrono::steady_clock::now();
    CHECK_FALSE(output_of({"sleep", "100"}, 0.3, never));
    CHECK_FALSE(output_of({"sh", "-c", "trap '' TERM; echo a; while :; do sleep 1; done"}, 0.3, never));
    CHECK_FALSE(output_of({"sh", "-c", "exec >&-; sleep 100"}, 5, never));
    CHECK_FALSE(output_of({"sleep", "100"}, 100, cancelled));
    CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

namespace {

/// A folder at the start of the path, with a squeue that prints the output of `answer`.
struct Squeue {
    Folder folder;
    std::string path = std::getenv("PATH");
    Squeue(const std::string& script)
    {
        write_text(folder / "squeue", "#!/bin/sh\n" + script + "\n");
        std::filesystem::permissions(folder / "squeue", std::filesystem::perms::owner_all);
        setenv("PATH", (folder.path() + ":" + path).c_str(), 1);
    }
    Squeue(const Squeue&) = delete;
    Squeue& operator=(const Squeue&) = delete;
    ~Squeue() { setenv("PATH", path.c_str(), 1); }
};

/// Whether the job's time ends within `limit`, with a lead of 5 s.
bool ends_within(JobTime& time, double limit)
{
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(limit);
    while (std::chrono::steady_clock::now() < until) {
        if (time.is_over(5))
            return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
}

} // namespace

TEST_CASE("a changed time limit counts, and a Slurm that does not answer changes nothing", "[release]")
{
    Job job;
    job.id = "17";
    job.end = std::time(nullptr) + 3; // has ended, with a lead of 5 s
    const auto answer = [&](const std::string& when) {
        return "[ \"$*\" = '--noheader --jobs 17 --format %e' ] && date --date '" + when + "' +%FT%T";
    };
    {
        const Squeue raised(answer("2 hours"));
        JobTime time(job);
        CHECK_FALSE(ends_within(time, 4));
    }
    {
        const Squeue unlimited("echo N/A");
        JobTime time(job);
        CHECK_FALSE(ends_within(time, 4));
    }
    for (const char* script : {"exit 1", "echo nonsense"}) {
        const Squeue mute(script);
        JobTime time(job);
        CHECK(ends_within(time, 10));
    }
    {
        const Squeue hung("sleep 1000");
        JobTime time(job);
        CHECK(ends_within(time, 20));
    }
    job.end.reset(); // an older Slurm sets no variable
    const Squeue lowered(answer("3 seconds"));
    JobTime time(job);
    CHECK(ends_within(time, 10));
}

TEST_CASE("mpirun's behaviour is explained if it matters")
{
    Launcher l{.is_mpirun = true, .process = 4711, .grace = 1};
    CHECK(how_to_stop(l).find("kill -USR1 4711") != std::string::npos);
    CHECK(how_to_stop(l).find("kills its ranks after 1 s") != std::string::npos);
    CHECK(how_to_stop(l).find("OMPI_MCA_odls_base_sigkill_timeout=10") != std::string::npos);
    CHECK(what_follows_term(l).find("kills the ranks 1 s after") != std::string::npos);
    l.in_job = true;
    CHECK(how_to_stop(l).empty());
    l.in_job = false;
    l.grace = 10;
    CHECK(how_to_stop(l).empty());
    CHECK(how_to_stop({}).empty());
    CHECK(what_follows_term({}).empty());
}
