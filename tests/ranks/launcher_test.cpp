// The output of ranks under a launcher when one of them fails.
#include "catch.hpp"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <sys/wait.h>

namespace {

struct Seen {
    int status = 0;
    std::string text; ///< stdout and stderr
};

constexpr int timed_out = 124; ///< `timeout` says that ranks waited for one that had ended

Seen launch(const std::string& launcher, const std::string& mode)
{
    FILE* pipe = popen(("timeout 120 " + launcher + " " RANK_PROGRAM " " + mode + " 2>&1").c_str(), "r");
    REQUIRE(pipe);
    Seen seen;
    char buffer[4096];
    while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe))
        seen.text.append(buffer, n);
    const int status = pclose(pipe);
    seen.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return seen;
}

Seen launch(const std::string& mode) { return launch(LAUNCHER " 4", mode); }

int count(const std::string& text, const std::string& what)
{
    int times = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1))
        ++times;
    return times;
}

void check(const Seen& seen, int status, const std::string& message)
{
    INFO(seen.text);
    CHECK(seen.status == status);
    CHECK(count(seen.text, "trivium: ") == 1);
    CHECK(seen.text.rfind("trivium: " + message, 0) == 0); // before the launcher's own messages
}

} // namespace

TEST_CASE("a rank that throws ends all ranks, with one message and its status")
{
    check(launch("throw"), 2, "rank 1: run.toml: no good\n");
    check(launch("failure"), 1, "rank 1: disk: full\n");
    check(launch("odd"), 1, "rank 1: internal error: something odd\n");
}

TEST_CASE("an error that all ranks throw is printed once")
{
    check(launch("agreed"), 2, "rank 1: run.toml: no good\n");
    check(launch("agreed-in-group"), 2, "rank 1: run.toml: no good\n");
}

TEST_CASE("a killed rank ends all ranks")
{
    const Seen seen = launch("kill");
    INFO(seen.text);
    CHECK(seen.status != 0);
    CHECK(seen.status != timed_out);
    CHECK(count(seen.text, "trivium: ") == 0);
}

TEST_CASE("ranks are numbered node by node, however the launcher placed them")
{
    std::string job = LAUNCHER;
    const std::string flag = job.substr(job.rfind(' '));
    job.resize(job.rfind(' '));
    for (const char* node : {"0", "1", "0", "1"})
        job += std::string(job.find("env") == std::string::npos ? "" : " :") + flag +
               " 1 env SLURM_STEP_NUM_TASKS=4 SLURM_NODEID=" + node + " " RANK_PROGRAM " nodes";
    const Seen seen = launch(job.substr(0, job.rfind(RANK_PROGRAM)), "nodes");
    INFO(seen.text);
    CHECK(seen.status == 0);
    CHECK(seen.text == "2 nodes, data 1, tensor 0\n");
}

TEST_CASE("the status that all ranks return is the launcher's")
{
    const Seen seen = launch("status");
    INFO(seen.text);
    CHECK(seen.status == 75);
    CHECK(count(seen.text, "trivium: ") == 0);
}

TEST_CASE("without a launcher the exception passes")
{
    const Seen seen = launch("env -u PMIX_RANK", "agreed");
    INFO(seen.text);
    CHECK(seen.status == 1); // no other rank to throw the user's error
    CHECK(count(seen.text, "alone: internal error") == 1);
    CHECK(launch("env", "suite").text == "1 ranks agree\n");
}
