#pragma once
// `trivium check`: before a long job starts, whether these machines and this build can be trusted.
// docs/check.md says what each part does. All ranks run a part together; rank 0 judges and has the report.
#include "compile/compile.hpp"
#include "mpi/grid.hpp"

#include <array>
#include <functional>
#include <string>
#include <vector>

namespace trivium {

/// What a rank says of itself.
struct RankFacts {
    std::string node;      ///< as node_name()
    std::string processor; ///< the device, or the CPU: like ones give the same bits
    std::string build;     ///< version and hash of the program
    std::string libraries; ///< those that the process has loaded, with their sizes
    std::string cores;     ///< that it may use, "0,1,2"
    int threads = 1;
    Bytes memory = -1; ///< available on the node; -1: nobody says
};
/// Of this process. `version`: of the program; `device`: what it computes on, empty on the host.
RankFacts facts_of_process(const std::string& version, const std::string& device, int threads);

/// Where tests put faults; each rank has its own.
struct CheckHooks {
    std::function<bool(const RunConfig&)> chosen;              ///< which trainings to run; none given: all
    std::function<void(RunConfig&)> config;                    ///< of a training, before it is compiled
    std::function<void(const RunConfig&, Compiled&)> compiled; ///< before it runs
    std::function<void(const std::string& kernel, std::vector<double>&)> computed; ///< what a kernel gave
    std::function<void(const std::string& what)> timed; ///< called within each timed piece of work
    std::function<Seconds()> clock;                     ///< instead of the system's
};

enum class CheckPart { environment, folder, arithmetic, composition, rates };
template <>
inline constexpr std::array<std::string_view, 5> names_of_enum<CheckPart>{
    "environment", "folder", "arithmetic", "composition", "rates"};

struct CheckConfig {
    std::vector<CheckPart> parts{CheckPart::environment, CheckPart::folder, CheckPart::arithmetic,
                                 CheckPart::composition, CheckPart::rates};
    std::string dir;         ///< folder to try; empty: none
    bool longer = false;     ///< every combination, and longer measurements
    bool strict = false;     ///< warnings count as faults
    double slow_rank = 0.75; ///< a rate below so much of the median is slow
    double slow_link = 0.5;
    Seconds clock = 1; ///< most that clocks may be apart
    CheckHooks hooks;
};

enum class Severity { warning, fault };

/// Something that is wrong.
struct Finding {
    CheckPart part{};
    Severity severity = Severity::fault;
    std::vector<int> ranks; ///< whom it is about; empty: nobody more than the others
    std::string problem, expected, seen, remedy;
};

/// What was measured; 0 where it was not.
struct RankRates {
    double flops_f32 = 0, flops_bf16 = 0; ///< of products, per second, by all its threads
    double bytes_per_second = 0;          ///< of memory
    double cpu_share = 1; ///< of its cores' time, what it was given while it computed: the least of the three
};
struct LinkRate {
    int a = 0, b = 0;            ///< ranks
    double bytes_per_second = 0; ///< each way, both at once
    Seconds latency = 0;         ///< one way
    double cpu_share = 1;        ///< of the time that its ends wanted a core, what the worse one was given
};
struct FolderRate {
    double write = 0, read = 0; ///< bytes per second, all nodes at once
};

struct CheckReport {
    std::vector<RankFacts> facts; ///< by rank
    std::vector<int> node_of_rank;
    std::vector<std::string> nodes; ///< names, by number
    std::vector<Finding> findings;
    std::vector<std::string> parts; ///< what was done, a line each
    std::vector<RankRates> rates;   ///< by rank; empty where that part was not run
    std::vector<LinkRate> links;
    std::vector<FolderRate> folder; ///< by node
    std::vector<Seconds> clocks;    ///< by rank, against rank 0
    bool strict = false;
    Seconds seconds = 0;

    int count(Severity severity) const;
    /// 0: all is well; 1: something is wrong.
    int status() const;
};

/// All ranks of `world` call it; rank 0 gets the report, the others an empty one. Tells Activity what it is
/// at, for a watchdog. Throws what a part throws.
CheckReport run_check(Comm& world, const CheckConfig& config, const RankFacts& facts);

} // namespace trivium
