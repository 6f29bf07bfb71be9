#include "crash/failing_run.hpp"

#include "train/program.hpp"

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace trivium::crash {

namespace {

std::vector<std::string> command_of(int ranks, const std::vector<std::string>& arguments)
{
    std::vector<std::string> command;
    if (ranks > 1) {
        std::istringstream launcher(TRIVIUM_LAUNCHER);
        for (std::string part; launcher >> part;)
            command.push_back(part);
        command.push_back(std::to_string(ranks));
    }
    command.emplace_back(TRIVIUM_PROGRAM);
    command.insert(command.end(), arguments.begin(), arguments.end());
    return command;
}

int start(std::vector<std::string> command, const std::string& cwd, const Environment& environment)
{
    std::vector<char*> argv;
    for (std::string& part : command)
        argv.push_back(part.data());
    argv.push_back(nullptr);
    const int child = ::fork();
    if (child != 0)
        return child;
    const int out = ::open((cwd + "/.out").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    const int err = ::open((cwd + "/.err").c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
    if (::chdir(cwd.c_str()) != 0 || ::dup2(out, 1) < 0 || ::dup2(err, 2) < 0)
        ::_exit(126);
    for (const auto& [name, value] : environment)
        ::setenv(name.c_str(), value.c_str(), 1);
    ::execv(argv[0], argv.data());
    ::_exit(127);
}

} // namespace

Ended run(int ranks, const std::vector<std::string>& arguments, const std::string& cwd,
          const Environment& environment, const std::function<void(int)>& meanwhile, double seconds)
{
    const auto begin = std::chrono::steady_clock::now();
    for (const char* file : {"/.err", "/.out"})
        std::filesystem::remove(cwd + file);
    const int child = start(command_of(ranks, arguments), cwd, environment);
    Ended ended;
    int status = 0;
    while (::waitpid(child, &status, WNOHANG) == 0) {
        ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (ended.seconds > seconds && !ended.hung) {
            ended.hung = true;
            for (const int process : family_of(child))
                ::kill(process, SIGKILL);
        }
        if (meanwhile)
            meanwhile(child);
        ::usleep(1000);
    }
    ended.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    ended.out = read_text(cwd + "/.out");
    ended.err = (arguments[0] == "train" ? ended.out : "") + read_text(cwd + "/.err"); // its log
    return ended;
}

std::vector<Call> read_calls(const std::string& log)
{
    std::ifstream file(log);
    std::vector<Call> calls;
    Call call;
    while (file >> call.number >> call.name && file.get() == ' ' && std::getline(file, call.path))
        calls.push_back(call);
    return calls;
}

std::vector<long> reported_steps(const std::string& log)
{
    std::vector<long> steps;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
        const std::size_t at = line.find("/step-");
        if (line.rfind("saved ", 0) == 0 && at != std::string::npos)
            steps.push_back(std::stol(line.substr(at + 6)));
    }
    return steps;
}

} // namespace trivium::crash
