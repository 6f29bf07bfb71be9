// A small run for tests of signals, time limits, restarts and hangs, and functions to find its ranks.
#pragma once

#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/launches.hpp"
#include "io/metrics/metrics.hpp"
#include "program.hpp"

#include <algorithm>
#include <csignal>
#include <cstdlib>

/// An environment variable for programs that start during its lifetime.
struct Variable {
    std::string name;
    Variable(const std::string& n, const std::string& value) : name(n)
    {
        setenv(n.c_str(), value.c_str(), 1);
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() { unsetenv(name.c_str()); }
};

/// Whether the launcher has started `process` as this rank (Open MPI, MPICH).
inline bool is_rank(int process, int rank)
{
    const std::string environment =
        std::string(1, '\0') + read_text(trivium::str("/proc/", process, "/environ"));
    for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"})
        if (environment.find(std::string(1, '\0') + name + trivium::str("=", rank) + '\0') !=
            std::string::npos)
            return true;
    return false;
}

inline bool is_open_mpi()
{
    const std::string launcher(TRIVIUM_LAUNCHER);
    return std::system((launcher.substr(0, launcher.find(' ')) +
                        " --version 2>&1 | grep -q 'Open MPI\\|OpenRTE\\|PRRTE'")
                           .c_str()) == 0;
}

/// Sends `signal` to these ranks of the launcher's job.
inline void signal_ranks(int launcher, const std::vector<int>& ranks, int signal)
{
    for (const int process : processes_below(launcher, "trivium"))
        if (std::any_of(ranks.begin(), ranks.end(), [&](int rank) { return is_rank(process, rank); }))
            kill(process, signal);
}

/// A folder with a corpus and a config whose watchdog waits for 3 s.
struct Run {
    Folder folder;
    Run()
    {
        make_store(folder, 3000);
        make_store(folder, 60000, "long.txt", "valid.h5");
        write_text(folder / "run.toml",
                   "[model]\npreset = \"toy\"\nlayers = 2\nseq = 16\n[data]\ntrain = \"train.h5\"\n"
                   "[train]\nsteps = 8\nglobal_batch = 4\nmicro_batch = 1\nlr = 3e-3\nmin_lr = "
                   "3e-3\n[parallel]\nthreads = 1\n"
                   "[checkpoint]\ndir = \"ck\"\n[log]\ndir = \"log\"\n[job]\nwatchdog = 3\n");
    }

    static std::vector<std::string> arguments(int data, int tensor, const std::vector<std::string>& more = {})
    {
        std::vector<std::string> all{"train", "run.toml", "parallel.data=" + std::to_string(data),
                                     "parallel.tensor=" + std::to_string(tensor)};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    Outcome train(const std::vector<std::string>& more = {}) const
    {
        return run_program(arguments(1, 1, more), folder.path());
    }

    std::vector<trivium::MetricsRecord> metrics(const std::string& log = "log") const
    {
        return trivium::read_metrics(folder / log);
    }
    std::vector<trivium::Launch> launches() const { return trivium::read_launches(folder / "log"); }
    std::vector<double> losses(const std::string& log = "log") const
    {
        std::vector<double> all;
        for (const trivium::MetricsRecord& r : metrics(log))
            all.push_back(r.value("loss"));
        return all;
    }
};
