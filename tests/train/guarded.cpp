#include "train/guarded.hpp"

#include <chrono>
#include <csignal>
#include <exception>
#include <fstream>
#include <poll.h>
#include <stdexcept>
#include <sys/wait.h>
#include <unistd.h>

namespace trivium {

namespace {

long resident_kib(int process)
{
    std::ifstream status("/proc/" + std::to_string(process) + "/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmRSS:", 0) == 0)
            return std::stol(line.substr(6));
    return 0;
}

} // namespace

std::string guarded(const std::function<std::string()>& call, double seconds)
{
    int ends[2];
    if (::pipe(ends) != 0)
        throw std::runtime_error("no pipe");
    const long before = resident_kib(::getpid());
    const int child = ::fork();
    if (child == 0) {
        ::close(ends[0]);
        std::string answer;
        try {
            answer = call();
        } catch (const std::exception& error) {
            answer = std::string("threw ") + error.what();
        }
        for (std::size_t done = 0; done < answer.size();) {
            const ssize_t put = ::write(ends[1], answer.data() + done, answer.size() - done);
            if (put <= 0)
                break;
            done += static_cast<std::size_t>(put);
        }
        ::_exit(0);
    }
    ::close(ends[1]);
    std::string answer, instead;
    const auto begin = std::chrono::steady_clock::now();
    for (bool open = true; open;) {
        pollfd wait{ends[0], POLLIN, 0};
        if (::poll(&wait, 1, 10) > 0) {
            char text[4096];
            const ssize_t got = ::read(ends[0], text, sizeof text);
            open = got > 0;
            answer.append(text, static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
        } else if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds)
            instead = "hung";
        else if (resident_kib(child) - before > (2 << 20))
            instead = "took more than 2 GiB";
        if (!instead.empty())
            break;
    }
    if (!instead.empty())
        ::kill(child, SIGKILL);
    ::close(ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    if (instead.empty() && WIFSIGNALED(status))
        instead = "signal " + std::to_string(WTERMSIG(status));
    else if (instead.empty() && WEXITSTATUS(status) != 0)
        instead = "status " + std::to_string(WEXITSTATUS(status));
    return instead.empty() ? answer : instead;
}

} // namespace trivium
