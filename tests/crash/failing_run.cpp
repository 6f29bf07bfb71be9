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

std::vector<std::string> words_of(int ranks, const std::vector<std::string>& arguments)
{
    std::vector<std::string> words;
    if (ranks > 1) {
        std::istringstream launcher(TRIVIUM_LAUNCHER);
        for (std::string word; launcher >> word;)
            words.push_back(word);
        words.push_back(std::to_string(ranks));
    }
    words.emplace_back(TRIVIUM_PROGRAM);
    words.insert(words.end(), arguments.begin(), arguments.end());
    return words;
}

int start(std::vector<std::string> words, const std::string& cwd, const Environment& environment)
{
    std::vector<char*> argv;
    for (std::string& word : words)
        argv.push_back(word.data());
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

/// A process and all below it, itself last.
std::vector<int> family_of(int process)
{
    std::multimap<int, int> children;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
        const std::string name = entry.path().filename();
        if (name.find_first_not_of("0123456789") != std::string::npos)
            continue;
        std::ifstream status(entry.path() / "status");
        for (std::string line; std::getline(status, line);)
            if (line.rfind("PPid:", 0) == 0)
                children.emplace(std::stoi(line.substr(5)), std::stoi(name));
    }
    std::vector<int> all;
    const std::function<void(int)> visit = [&](int parent) {
        for (auto [at, end] = children.equal_range(parent); at != end; ++at)
            visit(at->second);
        all.push_back(parent);
    };
    visit(process);
    return all;
}

} // namespace

std::vector<int> processes_below(int process, const std::string& name)
{
    std::vector<int> found;
    for (const int each : family_of(process)) {
        std::ifstream file("/proc/" + std::to_string(each) + "/comm");
        std::string word;
        if (file >> word && word == name)
            found.push_back(each);
    }
    return found;
}

Ended run(int ranks, const std::vector<std::string>& arguments, const std::string& cwd, const Environment& environment,
          const std::function<void(int)>& meanwhile, double seconds)
{
    const auto begin = std::chrono::steady_clock::now();
    std::filesystem::remove(cwd + "/.err");
    const int child = start(words_of(ranks, arguments), cwd, environment);
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
    ended.err = read_text(cwd + "/.err");
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
