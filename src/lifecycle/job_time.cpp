#include "lifecycle/job_time.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <unistd.h>

namespace trivium {

namespace {

constexpr Seconds query_interval = 60; ///< between two queries
constexpr Seconds query_timeout = 5;   ///< of one query
constexpr Seconds recent = 20;         ///< a reply counts as recent for this long
constexpr Seconds query_ahead = 15;    ///< query this long before the reply matters
constexpr Seconds tick = 0.5;
constexpr std::size_t max_times = 64;

} // namespace

JobEnd job_end_in(const std::string& text)
{
    const std::string field = text.substr(0, text.find_first_of(" \t\r\n"));
    if (field == "N/A" || field == "NONE" || field == "UNLIMITED")
        return {.known = true};
    std::tm time{};
    const char* end = ::strptime(field.c_str(), "%Y-%m-%dT%H:%M:%S", &time);
    if (end == nullptr || *end != '\0')
        return {};
    time.tm_isdst = -1;
    return {.known = true, .end = static_cast<i64>(std::mktime(&time))};
}

std::optional<std::string> output_of(const std::vector<std::string>& command, Seconds limit,
                                     const std::atomic<bool>& cancelled)
{
    std::vector<char*> arguments;
    for (const std::string& argument : command)
        arguments.push_back(const_cast<char*>(argument.c_str()));
    arguments.push_back(nullptr);
    std::string format =
        "SLURM_TIME_FORMAT=standard"; // the user's own format and filters must not change the output
    std::vector<char*> environment{format.data()};
    for (char** each = ::environ; *each != nullptr; ++each)
        if (const std::string_view line(*each);
            !line.starts_with("SQUEUE_") && !line.starts_with("SLURM_TIME_FORMAT="))
            environment.push_back(*each);
    environment.push_back(nullptr);

    int pipe[2];
    if (::pipe2(pipe, O_CLOEXEC) != 0)
        return std::nullopt;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, pipe[1], 1);
    ::posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    pid_t child = 0;
    const int refused =
        ::posix_spawnp(&child, arguments.front(), &actions, nullptr, arguments.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(pipe[1]);
    std::string text;
    const Seconds until = now() + limit;
    bool ended = false;
    while (refused == 0 && !ended && now() < until && !cancelled && text.size() < 65536) {
        pollfd waiting{pipe[0], POLLIN, 0};
        if (::poll(&waiting, 1, 100) <= 0)
            continue;
        char buffer[4096];
        const ssize_t got = ::read(pipe[0], buffer, sizeof buffer);
        if (got > 0)
            text.append(buffer, static_cast<std::size_t>(got));
        ended = got == 0 || (got < 0 && errno != EINTR);
    }
    ::close(pipe[0]);
    if (refused != 0)
        return std::nullopt;
    // Kills the command if it is still running after its output is closed or its time is over. If it does not
    // end even then, abandons it.
    int status = 0;
    pid_t gone = 0; // -1: its status is not known
    for (const Seconds begin = now(); (gone = ::waitpid(child, &status, WNOHANG)) == 0;) {
        if (!ended || now() - begin > 1)
            ::kill(child, SIGKILL);
        if (now() - begin > 2)
            return std::nullopt;
        const timespec pause{0, 5'000'000};
        ::nanosleep(&pause, nullptr);
    }
    return ended && gone == child && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? std::optional(text)
                                                                                   : std::nullopt;
}

TimeVerdict judge(const TimeLeft& t)
{
    const bool late = t.left < t.lead;
    if (t.waiting >= 0)
        return late && t.waiting > query_timeout + 1 ? TimeVerdict::stop : TimeVerdict::keep_running;
    if (late && t.since_asked <= recent)
        return TimeVerdict::stop;
    return t.left < t.lead + query_ahead && t.since_asked > recent / 2 ? TimeVerdict::ask
                                                                       : TimeVerdict::keep_running;
}

void RecentTimes::add(Seconds time)
{
    if (times_.size() < max_times)
        times_.push_back(time);
    else
        times_[next_++ % max_times] = time;
}

Seconds RecentTimes::usual() const
{
    if (times_.empty())
        return 0;
    std::vector<Seconds> sorted = times_;
    const std::size_t place = (sorted.size() - 1) * 9 / 10;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(place), sorted.end());
    return sorted[place];
}

JobTime::JobTime(const Job& job) : job_(job)
{
    if (job_.id.empty())
        return;
    std::signal(SIGCHLD, SIG_DFL); // if the parent ignored it, the status of no command would be known
    requested_ = true;             // the environment has only the limit at the start of the job
    requested_at_ = last_run_ = now();
    // In a job array, SLURM_JOB_ID alone may match all members.
    const char *array = std::getenv("SLURM_ARRAY_JOB_ID"), *member = std::getenv("SLURM_ARRAY_TASK_ID");
    if (array && member)
        job_.id = str(array, "_", member);
    thread_ = std::thread([this] { run(); });
}

JobTime::~JobTime()
{
    {
        const std::lock_guard lock(mutex_);
        over_ = true;
    }
    wake_.notify_all();
    if (thread_.joinable())
        thread_.join();
}

bool JobTime::is_over(Seconds lead)
{
    const std::lock_guard lock(mutex_);
    if (!job_.end)
        return false;
    if (job_.id.empty()) // not in a Slurm job
        return job_.left() < lead;
    const Seconds time = now();
    const TimeVerdict verdict = judge({.left = job_.left(),
                                       .lead = lead,
                                       .since_asked = time - asked_at_,
                                       .waiting = requested_ ? time - requested_at_ : -1});
    if (verdict == TimeVerdict::ask) {
        requested_ = true;
        requested_at_ = time;
        wake_.notify_all();
    }
    return verdict == TimeVerdict::stop;
}

Seconds JobTime::paused() const
{
    if (!thread_.joinable())
        return 0;
    const std::lock_guard lock(mutex_);
    const Seconds since = now() - last_run_; // the thread may not yet have seen that it was suspended
    return paused_ + (since > (requested_ ? query_timeout + suspension_gap + 1 : suspension_gap) ? since : 0);
}

void JobTime::run()
{
    std::unique_lock lock(mutex_);
    while (!over_) {
        const Seconds time = now();
        if (time - last_run_ > suspension_gap)
            suspended(time);
        last_run_ = time;
        if (requested_ || time - asked_at_ > query_interval) {
            ask(lock);
            if (now() - time > query_timeout + suspension_gap + 1)
                suspended(now());
            last_run_ = now();
        } else
            wake_.wait_for(lock, std::chrono::duration<double>(tick), [this] { return over_ || requested_; });
    }
}

void JobTime::suspended(Seconds time)
{
    paused_ += time - last_run_;
    requested_at_ = time;
    requested_ = true; // Slurm extends the time limit
}

void JobTime::ask(std::unique_lock<std::mutex>& lock)
{
    if (!requested_) {
        requested_ = true;
        requested_at_ = now();
    }
    const std::string id = job_.id;
    lock.unlock();
    const auto text =
        output_of({"squeue", "--noheader", "--jobs", id, "--format", "%e"}, query_timeout, over_);
    lock.lock();
    const JobEnd reply = text ? job_end_in(*text) : JobEnd{};
    if (reply.known && reply.end != job_.end) {
        const bool much =
            !reply.end || !job_.end || std::abs(static_cast<double>(*reply.end - *job_.end)) > 2;
        job_.end = reply.end;
        if (much)
            log_info(job_.end ? str("the job's time limit: ", format_seconds(job_.left()), " left")
                              : "the job no longer has a time limit");
    }
    asked_at_ = now();
    requested_ = false;
}

} // namespace trivium
