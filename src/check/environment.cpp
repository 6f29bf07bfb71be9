#include "check/environment.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/cores.hpp"
#include "base/counted.hpp"
#include "check/parts.hpp"
#include "io/files/hash.hpp"
#include "mpi/clock_offset.hpp"
#include "mpi/session.hpp"
#include "runtime/arena.hpp"

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>
#include <set>
#include <sstream>

namespace trivium {

namespace {

std::string processor_name()
{
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.rfind("model name", 0) == 0 || line.rfind("Processor", 0) == 0)
            return line.substr(line.find(':') + 2);
    return "unknown processor";
}

/// Loaded libraries on which results depend, by file name: nodes may keep the same ones in different folders.
/// (Plug-ins of MPI and others differ between ranks.)
std::string loaded_libraries()
{
    static const std::vector<std::string> kinds{
        "libc.",    "libc-",   "libm.",       "libm-",      "libgomp", "libomp",    "libstdc++",
        "libmpi",   "libdnnl", "libkokkos",   "libhdf5",    "libcuda", "libcudart", "libcublas",
        "libcudnn", "libnccl", "libamdhip64", "librocblas", "librccl"};
    std::set<std::string> all;
    std::ifstream in("/proc/self/maps");
    for (std::string line; std::getline(in, line);) {
        const std::size_t at = line.find('/');
        if (at == std::string::npos || line.find(".so", at) == std::string::npos)
            continue;
        const std::filesystem::path path = line.substr(at);
        if (std::ranges::none_of(
                kinds, [&](const std::string& kind) { return path.filename().string().rfind(kind, 0) == 0; }))
            continue;
        std::error_code unknown;
        const auto size = std::filesystem::file_size(path, unknown);
        all.insert(str(path.filename().string(), " ", unknown ? 0 : size));
    }
    std::string text;
    for (const std::string& library : all)
        text += library + "\n";
    return text;
}

Seconds system_clock()
{
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// The lines of one text that the other lacks.
std::vector<std::string> extra_lines(const std::string& text, const std::string& other)
{
    std::vector<std::string> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);)
        if (("\n" + other).find("\n" + line + "\n") == std::string::npos)
            lines.push_back(line);
    return lines;
}

std::string joined(const std::vector<std::string>& lines)
{
    return lines.empty() ? "nothing else" : fmt::format("{}", fmt::join(lines, ", "));
}

/// Libraries of compiler and system, which may differ between nodes after updates.
bool is_of_system(const std::string& library)
{
    constexpr const char* names[] = {"libc.", "libc-", "libm.", "libm-", "libgomp", "libomp", "libstdc++"};
    return std::ranges::any_of(names, [&](const char* name) { return library.starts_with(name); });
}

/// Cores that ranks of a node share, and the threads on them.
struct Shared {
    std::vector<int> ranks;
    i64 cores = 0, threads = 0;
};

std::vector<Shared> shared_cores(const CheckReport& report)
{
    std::vector<std::string> places;
    for (std::size_t rank = 0; rank < report.facts.size(); ++rank)
        places.push_back(str(report.node_of_rank[rank], " ", report.facts[rank].cores));
    std::vector<Shared> all;
    for (const auto& [place, ranks] : group_ranks(places)) {
        Shared shared{ranks, 0, 0};
        const std::string& cores = report.facts[static_cast<std::size_t>(ranks.front())].cores;
        shared.cores = cores.empty() ? 0 : std::ranges::count(cores, ',') + 1;
        for (const int rank : ranks)
            shared.threads += report.facts[static_cast<std::size_t>(rank)].threads;
        if (shared.cores > 0 && shared.threads > shared.cores)
            all.push_back(shared);
    }
    return all;
}

struct Unlike {
    std::string expected, seen;
    Severity severity = Severity::fault;
};

/// Adds a finding for every group of ranks that differs from most ranks.
template <class Member>
void must_be_alike(CheckReport& report, Member member, const std::string& problem, const std::string& remedy,
                   const std::function<Unlike(const std::string& most, const std::string& other)>& compare)
{
    std::vector<std::string> values;
    for (const RankFacts& facts : report.facts)
        values.push_back(str(facts.*member));
    const auto groups = group_ranks(values);
    for (std::size_t i = 1; i < groups.size(); ++i) {
        const Unlike unlike = compare(groups[0].first, groups[i].first);
        report.findings.push_back({CheckPart::environment, unlike.severity, groups[i].second, problem,
                                   unlike.expected, unlike.seen, remedy});
    }
}

} // namespace

RankFacts facts_of_process(const std::string& version, const std::string& device, int threads)
{
    RankFacts facts;
    facts.node = node_name();
    facts.processor = device.empty() ? processor_name() : device;
    facts.build = str(version, ", program ", hex(hash_file("/proc/self/exe")), ", ", mpi_description());
    facts.libraries = loaded_libraries();
    facts.cores = usable_cores();
    facts.threads = threads;
    facts.memory = available_memory();
    return facts;
}

std::vector<int> crowded_nodes(const CheckReport& report)
{
    std::set<int> nodes;
    for (const Shared& shared : shared_cores(report))
        nodes.insert(report.node_of_rank[static_cast<std::size_t>(shared.ranks.front())]);
    return {nodes.begin(), nodes.end()};
}

void judge_environment(CheckReport& report)
{
    must_be_alike(
        report, &RankFacts::build, "a different build from most ranks",
        "run the same program on all nodes: install it on a shared file system, or reinstall it on these",
        [](const std::string& most, const std::string& other) {
            return Unlike{most, other};
        });
    must_be_alike(report, &RankFacts::libraries, "different libraries from most ranks",
                  "load the same modules in the job script on all nodes, and compare LD_LIBRARY_PATH",
                  [](const std::string& most, const std::string& other) {
                      const std::vector<std::string> theirs = extra_lines(most, other),
                                                     own = extra_lines(other, most);
                      const bool system =
                          std::ranges::all_of(theirs, is_of_system) && std::ranges::all_of(own, is_of_system);
                      return Unlike{joined(theirs) + " bytes", joined(own) + " bytes",
                                    system ? Severity::warning : Severity::fault};
                  });
    must_be_alike(report, &RankFacts::threads, "a different number of threads from most ranks",
                  "give each rank as many cores (--cpus-per-task, --map-by), or set --threads (in a run: "
                  "parallel.threads)",
                  [](const std::string& most, const std::string& other) {
                      return Unlike{most + (most == "1" ? " thread" : " threads"), other};
                  });
    must_be_alike(report, &RankFacts::processor, "a different processor from most ranks",
                  "request nodes of one kind (--constraint): a step takes as long as the slowest rank, and "
                  "the bits differ",
                  [](const std::string& most, const std::string& other) {
                      return Unlike{most, other, Severity::warning};
                  });
    for (const Shared& shared : shared_cores(report))
        report.findings.push_back(
            {CheckPart::environment, Severity::warning, shared.ranks, "cores shared with other ranks",
             "a core for each thread",
             str(counted(shared.threads, "thread"), " of ", counted(shared.ranks.size(), "rank"), " on ",
                 counted(shared.cores, "core")),
             "start fewer ranks or threads, or bind each rank to its own cores (--cpus-per-task, --bind-to "
             "core)"});
}

void judge_clocks(CheckReport& report, Seconds most)
{
    TRV_EXPECT(report.clocks.size() == report.node_of_rank.size(), report.clocks.size(), " clocks");
    for (int node = 0; node < static_cast<int>(report.nodes.size()); ++node) {
        std::vector<int> ranks;
        Seconds worst = 0;
        for (std::size_t rank = 0; rank < report.clocks.size(); ++rank)
            if (report.node_of_rank[rank] == node && std::abs(report.clocks[rank]) > most) {
                ranks.push_back(static_cast<int>(rank));
                worst = std::abs(report.clocks[rank]) > std::abs(worst) ? report.clocks[rank] : worst;
            }
        if (!ranks.empty())
            report.findings.push_back(
                {CheckPart::environment, Severity::fault, ranks, "wrong clock",
                 str("at most ", most, " s from rank 0"),
                 fmt::format("{:.1f} s {}", std::abs(worst), worst > 0 ? "ahead" : "behind"),
                 "synchronise the node's clock (chrony, ntpd): time limits and file times depend on it"});
    }
}

void check_environment(const CheckGround& ground, CheckReport& report)
{
    const std::vector<ClockOffset> clocks =
        clock_offsets(ground.world, ground.config.hooks.clock ? ground.config.hooks.clock : system_clock);
    if (!ground.first())
        return;
    for (const ClockOffset& c : clocks) // what is certain of it
        report.clocks.push_back(std::copysign(std::max(0.0, std::abs(c.offset) - c.error), c.offset));
    judge_environment(report);
    judge_clocks(report, ground.config.clock);
    Seconds apart = 0;
    for (const Seconds offset : report.clocks)
        apart = std::max(apart, std::abs(offset));
    report.parts.push_back(fmt::format(
        "environment  {} on {}, {} each; {}; {}; clocks within {:.3f} s",
        counted(report.facts.size(), "rank"), counted(report.nodes.size(), "node"),
        counted(report.facts[0].threads, "thread"), report.facts[0].processor, report.facts[0].build, apart));
}

} // namespace trivium
