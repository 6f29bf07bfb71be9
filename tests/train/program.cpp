#include "program.hpp"

#include "catch.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <spawn.h>
#include <sstream>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace {

/// `words`: a program and its arguments.
int start_words(std::vector<std::string> words, const std::string& cwd)
{
    std::vector<char*> argv;
    for (std::string& word : words)
        argv.push_back(word.data());
    argv.push_back(nullptr);
    // Not fork, which copies the page tables of this process.
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, cwd.c_str());
    for (const auto& [number, file] : {std::pair(1, "/.out"), std::pair(2, "/.err")})
        posix_spawn_file_actions_addopen(&actions, number, (cwd + file).c_str(), O_CREAT | O_TRUNC | O_WRONLY,
                                         0600);
    int child = 0;
    const int error = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
    posix_spawn_file_actions_destroy(&actions);
    INFO(argv[0] << " in " << cwd);
    REQUIRE(error == 0);
    return child;
}

int start(const std::vector<std::string>& arguments, const std::string& cwd)
{
    std::vector<std::string> words{TRIVIUM_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return start_words(words, cwd);
}

bool is_zombie(int process)
{
    return read_text("/proc/" + std::to_string(process) + "/stat").find(") Z ") != std::string::npos;
}

/// The status of a launcher, for waitpid. One that outlives its ranks by half a minute is killed: Open MPI's
/// may deadlock at its end (in PMIx_server_finalize).
int status_of_launcher(int launcher)
{
    int status = 0, alone = 0;
    for (int turn = 1; waitpid(launcher, &status, WNOHANG) == 0; ++turn) {
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (turn % 200 != 0)
            continue;
        const std::vector<int> family = family_of(launcher);
        alone = std::all_of(family.begin(), family.end() - 1, is_zombie) ? alone + 1 : 0;
        if (alone == 30)
            kill(launcher, SIGKILL);
    }
    return status;
}

int status_of_program(int process)
{
    int status = 0;
    waitpid(process, &status, 0);
    return status;
}

Outcome finish(int status, const std::string& cwd, const std::vector<std::string>& arguments)
{
    Outcome outcome;
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.out = read_text(cwd + "/.out");
    outcome.err =
        (!arguments.empty() && arguments[0] == "train" ? outcome.out : "") + read_text(cwd + "/.err");
    return outcome;
}

/// Returns when the program's output contains `when`, or after half a minute.
void wait_until_said(const std::string& when, const std::string& cwd)
{
    const auto says = [&](const char* file) {
        return std::filesystem::exists(cwd + file) && read_text(cwd + file).find(when) != std::string::npos;
    };
    for (int i = 0; i < 3000 && !says("/.err") && !says("/.out"); ++i)
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

void forget_output(const std::string& cwd)
{
    std::filesystem::remove(cwd + "/.err");
    std::filesystem::remove(cwd + "/.out");
}

} // namespace

Outcome run_program(const std::vector<std::string>& arguments, const std::string& cwd)
{
    return finish(status_of_program(start(arguments, cwd)), cwd, arguments);
}

namespace {

std::vector<std::string> launched(const std::vector<Launch>& parts)
{
    std::vector<std::string> words;
    std::istringstream launcher(TRIVIUM_LAUNCHER);
    for (std::string word; launcher >> word;)
        words.push_back(word);
    const std::string count_flag = words.back();
    words.pop_back();
    for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i)
            words.emplace_back(":");
        words.push_back(count_flag);
        const std::string ranks = std::to_string(parts[i].ranks);
        words.push_back(ranks);
        if (!parts[i].folder.empty())
            for (const std::string& word : {std::string("env"), std::string("-C"),
                                            parts[i].folder}) // the options of the launchers differ
                words.push_back(word);
        words.push_back(parts[i].program.empty() ? TRIVIUM_PROGRAM : parts[i].program);
        words.insert(words.end(), parts[i].arguments.begin(), parts[i].arguments.end());
    }
    return words;
}

} // namespace

Outcome run_ranks(const std::vector<Launch>& parts, const std::string& cwd)
{
    return finish(status_of_launcher(start_words(launched(parts), cwd)), cwd, parts[0].arguments);
}

Outcome run_ranks_and(const std::vector<Launch>& parts, const std::string& cwd, const std::string& when,
                      const std::function<void(int)>& then)
{
    forget_output(cwd);
    const int child = start_words(launched(parts), cwd);
    wait_until_said(when, cwd);
    try {
        then(child);
    } catch (...) { // a failed assertion: show what the ranks said, and leave no run behind
        kill(child, SIGTERM);
        const Outcome outcome = finish(status_of_launcher(child), cwd, parts[0].arguments);
        WARN("status " << outcome.status << "\n" << outcome.out << "\n" << outcome.err);
        throw;
    }
    return finish(status_of_launcher(child), cwd, parts[0].arguments);
}

Outcome run_and_signal(const std::vector<std::string>& arguments, const std::string& cwd,
                       const std::string& when, int signal, const std::function<void()>& before)
{
    forget_output(cwd);
    const int child = start(arguments, cwd);
    wait_until_said(when, cwd);
    if (before)
        before();
    kill(child, signal);
    return finish(status_of_program(child), cwd, arguments);
}

bool is_left(int process)
{
    return kill(process, 0) == 0 &&
           read_text("/proc/" + std::to_string(process) + "/stat").find(") Z ") == std::string::npos;
}

Folder::Folder()
{
    std::string name = (std::filesystem::temp_directory_path() / "trivium-test-XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path_ = name;
}

Folder::~Folder() { std::filesystem::remove_all(path_); }

void write_text(const std::string& path, const std::string& text)
{
    std::ofstream(path, std::ios::binary) << text;
}

std::string read_text(const std::string& path)
{
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

std::string some_text(int words)
{
    static const char* const list[] = {"the",   "light", "of",   "a",         "river",  "and",
                                       "stone", "was",   "over", "mountains", "bright", "in"};
    std::string text;
    unsigned state = 1;
    for (int i = 0; i < words; ++i) {
        state = state * 1664525u + 1013904223u;
        text += list[(state >> 16) % 12];
        text += i % 17 == 16 ? ".\n" : " ";
    }
    return text;
}

void make_store(const Folder& folder, int words, const std::string& text, const std::string& store,
                const std::vector<std::string>& more)
{
    write_text(folder / text, some_text(words));
    std::vector<std::string> arguments{"data", "tokenize", text, "--tokenizer", "bytes", "--output", store};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome made = run_program(arguments, folder.path());
    INFO(made.err);
    REQUIRE(made.status == 0);
}

namespace {

/// All processes, by their parent.
std::multimap<int, int> children_by_parent()
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
    return children;
}

} // namespace

std::vector<int> family_of(int process)
{
    const std::multimap<int, int> children = children_by_parent();
    std::vector<int> all;
    const std::function<void(int)> visit = [&](int parent) {
        for (auto [at, end] = children.equal_range(parent); at != end; ++at)
            visit(at->second);
        all.push_back(parent);
    };
    visit(process);
    return all;
}

std::vector<int> processes_below(int process, const std::string& name)
{
    const std::multimap<int, int> children = children_by_parent();
    std::vector<int> found;
    const std::function<void(int)> visit = [&](int each) {
        std::ifstream file("/proc/" + std::to_string(each) + "/comm");
        std::string word;
        if (file >> word && word == name)
            return found.push_back(each);
        for (auto [at, end] = children.equal_range(each); at != end; ++at)
            visit(at->second);
    };
    visit(process);
    return found;
}
