#include "slurm/job.hpp"

#include "base/check.hpp"
#include "io/metrics/metrics.hpp"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <future>
#include <sys/wait.h>
#include <thread>

namespace trivium::slurm {

namespace fs = std::filesystem;

namespace {

std::pair<int, std::string> run_shell(const std::string& line, const std::string& cwd)
{
    const std::string whole = "cd '" + cwd + "' && { " + line + "\n} 2>&1";
    std::FILE* pipe = ::popen(whole.c_str(), "re");
    if (pipe == nullptr)
        throw Failure("cannot start: " + line);
    std::string text;
    char part[4096];
    while (const std::size_t got = std::fread(part, 1, sizeof part, pipe))
        text.append(part, got);
    const int status = ::pclose(pipe);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text};
}

/// The value after `key=` in scontrol's output.
std::string field(const std::string& text, const std::string& key)
{
    const std::size_t at = text.find(" " + key + "=");
    if (at == std::string::npos)
        return "";
    const std::size_t begin = at + key.size() + 2;
    return text.substr(begin, text.find_first_of(" \n", begin) - begin);
}

} // namespace

std::string shell(const std::string& line, const std::string& cwd)
{
    const auto [status, text] = run_shell(line, cwd);
    if (status != 0)
        throw Failure(str(line, "\nended with ", status, ":\n", text));
    return text;
}

int shell_status(const std::string& line, const std::string& cwd) { return run_shell(line, cwd).first; }

Run::Run(const std::string& parent, const std::string& name) : path_(parent + "/" + name)
{
    fs::create_directory(path_);
    write_text(path_ + "/run.toml",
               str("[model]\nlayers = 2\ndim = 16\nheads = 4\nkv_heads = 2\nffn_dim = 32\nseq = 16\n"
                   "[data]\ntrain = \"",
                   parent,
                   "/train.h5\"\n"
                   "[train]\nsteps = ",
                   steps,
                   "\nglobal_batch = 12\nmicro_batch = 2\nlr = 3e-3\nwarmup = 10\n"
                   "[parallel]\ndata = 2\npipeline = 2\ntensor = 2\nzero = 1\nthreads = 1\n"
                   "[checkpoint]\ndir = \"ck\"\nevery = 20\n[log]\ndir = \"log\"\nevery = 10\n"));
}

std::string Run::submit(const std::string& options, const std::string& script,
                        const std::string& arguments) const
{
    const std::string job = shell(
        str("sbatch --parsable ", options, " ", TRIVIUM_SOURCE, "/jobs/", script, " run.toml ", arguments),
        path_);
    return job.substr(0, job.find('\n'));
}

std::string Run::slow_calls(const std::string& folder, int milliseconds) const
{
    const std::string program = path_ + "/slow-trivium";
    write_text(program, str("#!/bin/sh\nexport LD_PRELOAD=", TRIVIUM_FAIL_IO, " TRIVIUM_FAIL_FOLDER=", path_,
                            "/", folder, " TRIVIUM_FAIL_DELAY=", 1000 * milliseconds,
                            " TRIVIUM_FAIL_GATE=", gate(), "\nexec ", TRIVIUM_PROGRAM, " \"$@\"\n"));
    fs::permissions(program, fs::perms::owner_all);
    return "--export=ALL,TRIVIUM=" + program;
}

std::string Run::log() const
{
    std::string text;
    for (const auto& entry : fs::directory_iterator(path_))
        if (entry.path().extension() == ".log")
            text += str("--- ", entry.path().filename().string(), "\n", read_text(entry.path()));
    return text;
}

i64 Run::step() const
{
    if (!fs::exists(path_ + "/log/metrics.jsonl"))
        return 0;
    const std::vector<MetricsRecord> all = read_metrics(path_ + "/log");
    return all.empty() ? 0 : all.back().step;
}

std::vector<double> Run::losses(const std::string& logs) const
{
    std::vector<double> all;
    for (const MetricsRecord& record : read_metrics(path_ + "/" + logs)) {
        all.push_back(record.value("loss"));
        require(record.step == static_cast<i64>(all.size()),
                str(logs, ": line ", all.size(), " is of step ", record.step));
    }
    return all;
}

void Run::wait_until(const std::string& what, const std::function<bool()>& condition, int seconds) const
{
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > end)
            fail(str("not after ", seconds, " s: ", what));
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
}

void Run::wait_for_end(const std::string& job, const std::string& state, int restarts) const
{
    JobState now;
    const auto over = [&] {
        now = state_of(job);
        for (const char* end : {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY",
                                "PREEMPTED", "BOOT_FAIL"})
            if (now.state == end)
                return true;
        return false;
    };
    wait_until(str("job ", job, " has ended"), over, 180);
    require(now.state == state && now.restarts == restarts,
            str("job ", job, " is ", now.state, " with status ", now.exit_status, " after ", now.restarts,
                " restart(s), not ", state, " after ", restarts));
}

void Run::fail(const std::string& what) const
{
    throw Failure(str(what, "\n", path_, ":\n", log(), shell("squeue; sinfo -N"), // a long text
                      "the failure above: ", what));
}

JobState state_of(const std::string& job)
{
    const std::string text = shell("scontrol --oneliner show job " + job);
    JobState state;
    state.state = field(text, "JobState");
    state.restarts = std::atoi(field(text, "Restarts").c_str());
    state.exit_status = std::atoi(field(text, "ExitCode").c_str());
    state.nodes = std::atoi(field(text, "NumNodes").c_str());
    return state;
}

std::string cluster(const std::string& words)
{
    return shell(str(TRIVIUM_SOURCE, "/tests/slurm/cluster ", words));
}

const Ground& Ground::common()
{
    static const Ground ground;
    return ground;
}

Ground::Ground()
{
    ::setenv("TRIVIUM", TRIVIUM_PROGRAM, 1); // jobs inherit the environment
    write_text(folder_ / "text.txt", some_text(4000));
    const Outcome tokens = run_program(
        {"data", "tokenize", "text.txt", "--tokenizer", "bytes", "--output", "train.h5"}, folder_.path());
    if (tokens.status != 0)
        throw Failure(tokens.err);
    const Run here = run("here");
    shell(str(TRIVIUM_SOURCE, "/jobs/submit --cluster laptop run.toml"), here.path()); // without Slurm
    losses_ = here.losses();
    here.require(losses_.size() == steps && losses_.back() < losses_.front(), "it trains to the end");
}

void require_same(const Run& run, const std::vector<double>& losses, const std::vector<double>& expected,
                  double tolerance)
{
    run.require(losses.size() == expected.size(), str(losses.size(), " steps instead of ", expected.size()));
    for (std::size_t i = 0; i < losses.size(); ++i)
        run.require(tolerance > 0 ? std::abs(losses[i] - expected[i]) <= tolerance * expected[i]
                                  : losses[i] == expected[i],
                    str("the loss of step ", i + 1, " is ", losses[i], ", that of the uninterrupted run ",
                        expected[i]));
}

std::vector<std::string> failures(const std::vector<std::pair<std::string, std::function<void()>>>& scenarios)
{
    std::vector<std::future<std::string>> running;
    for (const auto& [name, scenario] : scenarios)
        running.push_back(std::async(std::launch::async, [name = name, scenario = scenario]() -> std::string {
            try {
                scenario();
                return "";
            } catch (const std::exception& error) {
                return str(name, ": ", error.what(), " (", name, ")"); // CI shows the end of a long text
            }
        }));
    std::vector<std::string> all;
    for (std::future<std::string>& each : running)
        if (std::string text = each.get(); !text.empty())
            all.push_back(std::move(text));
    return all;
}

} // namespace trivium::slurm
