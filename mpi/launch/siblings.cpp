#include "mpi/launch/siblings.hpp"

#include "base/check.hpp"
#include "base/helper_process.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string_view>
#include <sys/stat.h>
#include <unistd.h>

namespace trivium {

namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path)
{
    std::stringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
}

int number_or(std::string_view text, int otherwise)
{
    int number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    return parsed.ec == std::errc{} && parsed.ptr == text.data() + text.size() ? number : otherwise;
}

int variable_or(const char* name, int otherwise)
{
    const char* text = std::getenv(name);
    return text ? number_or(text, otherwise) : otherwise;
}

/// The value of NAME in a process's environment, or null.
const char* value_in(const std::string& environment, const std::string& name)
{
    for (std::size_t at = 0; at < environment.size(); at = environment.find('\0', at) + 1) {
        if (environment.compare(at, name.size(), name) == 0 && environment[at + name.size()] == '=')
            return environment.c_str() + at + name.size() + 1;
        if (environment.find('\0', at) == std::string::npos)
            return nullptr;
    }
    return nullptr;
}

struct Status {
    char state = 'X';
    int parent = 0;
    bool is_helper = false;
};

Status status_of(int process)
{
    const std::string text = content(
        str("/proc/", process, "/stat")); // "PID (NAME) STATE PARENT …"; the name may contain any character
    const std::size_t name_end = text.rfind(')');
    Status status;
    if (name_end != std::string::npos) {
        std::istringstream rest(text.substr(name_end + 1));
        rest >> status.state >> status.parent;
        status.is_helper = text.find(str("(", helper_name, ")")) != std::string::npos;
    }
    return status;
}

std::string program_of(int process)
{
    std::error_code error;
    return fs::read_symlink(str("/proc/", process, "/exe"), error).string();
}

} // namespace

LaunchId launch_of_environment()
{
    struct Launcher {
        const char* rank;
        std::vector<const char*> shared;
    };
    static const Launcher launchers[] = {{"PMIX_RANK", {"PMIX_NAMESPACE"}},
                                         {"PALS_RANKID", {"PALS_APID"}},
                                         {"SLURM_PROCID", {"SLURM_JOB_ID", "SLURM_STEP_ID"}},
                                         {"PMI_RANK", {}}};
    LaunchId id;
    for (const Launcher& launcher : launchers) {
        const bool known =
            std::getenv(launcher.rank) &&
            std::ranges::all_of(launcher.shared, [](const char* name) { return std::getenv(name); });
        if (!known)
            continue;
        id.rank = variable_or(launcher.rank, -1);
        id.rank_variable = launcher.rank;
        for (const char* name : launcher.shared)
            id.shared.push_back(str(name, "=", std::getenv(name)));
        break;
    }
    for (const char* name : {"SLURM_STEP_NUM_TASKS", "PMI_SIZE",
                             "OMPI_COMM_WORLD_SIZE"}) // for mpirun in a Slurm job, its own counts
        id.ranks = std::max(1, variable_or(name, id.ranks));
    for (const char* name : {"MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"})
        id.on_node = variable_or(name, id.on_node);
    return id;
}

std::vector<Sibling> siblings_of(const LaunchId& launch)
{
    std::vector<Sibling> found;
    const int own = ::getpid(), parent = ::getppid();
    const std::string launcher = program_of(parent);
    const bool is_launcher = !launcher.empty() && launcher != program_of(own);
    std::error_code error;
    for (auto entry = fs::directory_iterator("/proc", error); !error && entry != fs::directory_iterator();
         entry.increment(error)) {
        const int process = number_or(entry->path().filename().string(), 0);
        struct stat owner {};
        if (process <= 0 || process == own || ::stat(entry->path().c_str(), &owner) != 0 ||
            owner.st_uid != ::geteuid())
            continue;
        const Status status = status_of(process);
        if (status.state == 'Z' || status.state == 'X' || status.is_helper)
            continue;
        const std::string environment =
            content(str("/proc/", process, "/environ")); // empty for other users' processes
        const bool shares = launch.shared.empty()
                                ? status.parent == parent
                                : std::ranges::all_of(launch.shared, [&](const std::string& line) {
                                      const std::size_t equals = line.find('=');
                                      const char* value = value_in(environment, line.substr(0, equals));
                                      return value && line.substr(equals + 1) == value;
                                  });
        const char* rank =
            launch.rank_variable.empty() || !shares ? nullptr : value_in(environment, launch.rank_variable);
        if (rank && number_or(rank, -1) != launch.rank) // otherwise a wrapper or a helper of this rank
            found.push_back({process, number_or(rank, -1), status.state});
        else if (rank)
            continue;
        else if (is_launcher && status.parent == parent && program_of(process) == launcher)
            found.push_back({process, -1, status.state});
    }
    std::ranges::sort(found, [](const Sibling& a, const Sibling& b) {
        return a.rank != b.rank ? a.rank < b.rank : a.process < b.process;
    });
    return found;
}

std::string describe(const LaunchId& launch, const std::vector<Sibling>& others)
{
    std::string text;
    std::set<int> there{launch.rank};
    for (const Sibling& each : others) {
        if (each.rank >= 0)
            there.insert(each.rank);
        if (each.state == 'T' || each.state == 't')
            text +=
                str(text.empty() ? "" : "; ",
                    each.rank >= 0 ? str("rank ", each.rank) : "a rank that the launcher has not started yet",
                    " is stopped", each.state == 't' ? " by a debugger" : "", " (process ", each.process,
                    ", state ", each.state, ")");
    }
    const int missing = launch.on_node - static_cast<int>(there.size());
    if (missing > 0)
        text += str(text.empty() ? "" : "; ", missing, " of the ", launch.on_node, " ranks of this node ",
                    missing == 1 ? "is" : "are", " missing");
    return text;
}

} // namespace trivium
