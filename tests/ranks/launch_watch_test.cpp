// Ranks that never arrive: their state in /proc, and when the others stop waiting.
#include "catch.hpp"
#include "mpi/launch/launch_watch.hpp"

#include <csignal>
#include <cstdlib>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using namespace trivium;

namespace {

/// A process of the launch `job` as this rank; it sleeps.
class Process {
public:
    Process(const std::string& job, const std::string& rank) : process_(::fork())
    {
        if (process_ == 0) {
            const std::string space = "PMIX_NAMESPACE=" + job, number = "PMIX_RANK=" + rank;
            const char* arguments[] = {"sleep", "100", nullptr};
            const char* environment[] = {"OTHER=1", space.c_str(), number.c_str(), nullptr};
            ::execve("/bin/sleep", const_cast<char**>(arguments), const_cast<char**>(environment));
            ::_exit(127);
        }
    }
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    ~Process() { end(); }
    void end()
    {
        if (process_ > 0) {
            ::kill(process_, SIGKILL);
            ::waitpid(process_, nullptr, 0);
        }
        process_ = 0;
    }
    int number() const { return process_; }

private:
    int process_;
};

/// The siblings, as soon as `ready` is true for them.
template <class Ready>
std::vector<Sibling> siblings_once(const LaunchId& launch, Ready&& ready)
{
    for (int i = 0; i < 1000; ++i) {
        const auto all = siblings_of(launch);
        if (ready(all))
            return all;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return {};
}

} // namespace

TEST_CASE("ranks of the same launch on this node are found, with their states")
{
    LaunchId launch;
    launch.rank = 2;
    launch.on_node = 4;
    launch.rank_variable = "PMIX_RANK";
    launch.shared = {"PMIX_NAMESPACE=test-" + std::to_string(::getpid())};
    const std::string job = launch.shared.front().substr(launch.shared.front().find('=') + 1);
    Process one(job, "1"), zero(job, "0"), three(job, "3");
    const Process other(job + "0", "0"), own(job, "2"); // another launch, and this rank's own wrapper
    auto all = siblings_once(launch, [](const auto& found) { return found.size() == 3; });
    REQUIRE(all.size() == 3);
    for (int i = 0; i < 3; ++i)
        CHECK(all[static_cast<std::size_t>(i)].rank == (i < 2 ? i : 3));
    CHECK(describe(launch, all).empty());
    ::kill(zero.number(), SIGSTOP);
    all = siblings_once(launch, [](const auto& found) { return found.size() == 3 && found[0].state == 'T'; });
    REQUIRE(all.size() == 3);
    CHECK(describe(launch, all) ==
          "rank 0 is stopped (process " + std::to_string(zero.number()) + ", state T)");
    one.end();
    all = siblings_of(launch);
    CHECK(all.size() == 2);
    CHECK(describe(launch, all).find("; 1 of the 4 ranks of this node is missing") != std::string::npos);
}

TEST_CASE("the first rank ends a start that does not finish, earlier if a rank is stopped")
{
    using enum LaunchVerdict;
    const auto verdict = [](Seconds waited, Seconds stopped, int before, int rank, Seconds asked = -1) {
        return judge({waited, stopped, asked, before}, 52, rank);
    };
    CHECK(verdict(51, 0, 0, 0) == wait);
    CHECK(verdict(52, 0, 0, 0) == hung);
    CHECK(verdict(52, 0, 0, 1) == wait);   // rank 0 reports
    CHECK(verdict(52.5, 0, 0, 1) == hung); // unless it hangs itself
    CHECK(verdict(90, 0, 0, 1000) == hung);
    CHECK(verdict(31, 29, 0, 3) == wait);
    CHECK(verdict(32, 30, 0, 3) == hung);
    CHECK(verdict(32, 30, 2, 3) == wait);
    CHECK(verdict(34, 32, 2, 3) == hung);
    CHECK(verdict(11, 0, 0, 0, 5) == wait);
    CHECK(verdict(11, 0, 0, 0, 10) == stop);
    CHECK(judge({4, 4, -1, 0}, 4, 0) == hung);
}

TEST_CASE("the time limit of a start depends on the number of ranks")
{
    ::unsetenv("TRIVIUM_START_LIMIT");
    CHECK(start_limit(2) < 60);
    CHECK(start_limit(16) < 60);
    CHECK(start_limit(1000) == 300);
    CHECK(start_limit(100000) == 600);
    ::setenv("TRIVIUM_START_LIMIT", "7", 1);
    CHECK(start_limit(1000) == 7);
    ::unsetenv("TRIVIUM_START_LIMIT");
}
