#pragma once
// `trivium check`: tests machines, network and build before a long job. docs/check.md describes each part.
// All ranks run a part together; rank 0 evaluates it and has the report.
#include "compile/compile.hpp"
#include "mpi/grid.hpp"
#include "plan/op_times.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <vector>

namespace trivium {

/// The environment of a rank.
struct RankFacts {
    std::string node;      ///< node_name()
    std::string processor; ///< device or CPU: equal ones compute the same bits
    std::string build;     ///< version and hash of the program, and MPI library
    std::string libraries; ///< loaded libraries with their sizes
    std::string cores;     ///< cores that the rank may use, "0,1,2"
    int threads = 1;
    Bytes memory = -1; ///< available on the node; -1: unknown
};
/// The facts of this process. `version`: of the program; `device`: its name, empty on the host.
RankFacts facts_of_process(const std::string& version, const std::string& device, int threads);

/// Hooks with which tests inject faults, per rank.
struct CheckHooks {
    std::function<bool(const RunConfig&)> chosen;              ///< which trainings to run; empty: all
    std::function<void(RunConfig&)> config;                    ///< changes a training before it is compiled
    std::function<void(const RunConfig&, Compiled&)> compiled; ///< changes its programs before it runs
    std::function<void(const std::string& kernel, std::vector<double>&)>
        computed;                                       ///< changes the result of a kernel
    std::function<void(const std::string& what)> timed; ///< called within each measurement
    std::function<Seconds()> clock;                     ///< replaces the system's clock
};

enum class CheckPart { environment, folder, arithmetic, composition, rates };
template <>
inline constexpr std::array<std::string_view, 5> names_of_enum<CheckPart>{
    "environment", "folder", "arithmetic", "composition", "rates"};

struct CheckConfig {
    std::vector<CheckPart> parts{CheckPart::environment, CheckPart::folder, CheckPart::arithmetic,
                                 CheckPart::composition, CheckPart::rates};
    std::string dir;         ///< folder to test; empty: none
    bool longer = false;     ///< every combination, and longer measurements
    bool ops = false;        ///< measure each kind of op, for a machine file (with CheckPart::rates)
    bool strict = false;     ///< count warnings as faults
    double slow_rank = 0.75; ///< a rank below this fraction of the median is slow
    double slow_link = 0.5;  ///< a link below this fraction of the median is slow
    Seconds clock = 1;       ///< maximum difference between clocks
    CheckHooks hooks;

    bool has(CheckPart part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
};

enum class Severity { warning, fault };

/// A fault or a warning.
struct Finding {
    CheckPart part{};
    Severity severity = Severity::fault;
    std::vector<int> ranks; ///< affected ranks; empty: no specific ranks
    std::string problem, expected, seen, remedy;
};

/// Measurements; 0 if not measured.
struct RankRates {
    double flops_f32 = 0, flops_bf16 = 0; ///< FLOP/s of matrix products, with all threads
    double bytes_per_second = 0;          ///< memory bandwidth
    double cpu_share = 1; ///< fraction of its cores' time that it got: the minimum of the three measurements
};
struct LinkRate {
    int a = 0, b = 0;            ///< ranks
    double bytes_per_second = 0; ///< per direction, both directions at once
    Seconds latency = 0;         ///< one way
    double cpu_share = 1;        ///< fraction of the CPU time that it needed: the lower value of the two ends
};
struct FolderRate {
    double write = 0, read = 0; ///< bytes per second, all nodes at once
};

struct CheckReport {
    std::vector<RankFacts> facts; ///< by rank
    std::vector<int> node_of_rank;
    std::vector<std::string> nodes; ///< names, by index
    std::vector<Finding> findings;
    std::vector<std::string> parts; ///< summary of each part, one line each
    std::vector<RankRates> rates;   ///< by rank; empty without the part `rates`
    std::vector<LinkRate> links;
    std::vector<OpSample> ops;      ///< of the ranks of rank 0's node
    double stragglers = 0;          ///< Machine::stragglers of these ranks
    std::vector<FolderRate> folder; ///< by node
    std::vector<Seconds> clocks;    ///< by rank: ahead of rank 0's clock, less the error of the measurement
    bool strict = false;
    Seconds seconds = 0;

    int node_of(int rank) const { return node_of_rank[static_cast<std::size_t>(rank)]; }
    std::vector<int> ranks_on(int node) const;
    int count(Severity severity) const;
    /// Exit status: 0 passed, 1 failed.
    int status() const;
};

/// Collective over `world`. Rank 0 gets the report; on the other ranks it has no facts and measurements.
/// Reports progress to Activity, for a watchdog. Throws the errors of the parts.
CheckReport run_check(Comm& world, const CheckConfig& config, const RankFacts& facts);

} // namespace trivium
