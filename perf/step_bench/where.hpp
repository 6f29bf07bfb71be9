#pragma once
// The distribution of a step's time, from an executor's timeline.
#include "compile/compile.hpp"
#include "plan/machine.hpp"
#include "schedule/timeline.hpp"

#include <map>
#include <string>

namespace trivium {

/// Seconds and model FLOPs of a kind of op.
struct Spent {
    Seconds seconds = 0;
    Flops flops = 0;
};

/// By kind of op; with `shapes` a row per product shape: "matmul 1024 x 768 x 3072 nt".
std::map<std::string, Spent> by_kind(const Program& program, const Timeline& timeline, bool shapes);

/// A step divided into compute and idle time of the compute queue.
struct Parts {
    Seconds products = 0, attention = 0, other = 0;
    Seconds exposed = 0; ///< data are transferred between ranks, and nothing computes
    Seconds idle = 0;    ///< nothing computes or is transferred: launches, the host, feeds
    Seconds total = 0;
};
/// `exposed`: as measured by the executor.
Parts parts_of(const Program& program, const Timeline& timeline, Seconds exposed);

/// The duration of each Step.
std::vector<Seconds> durations_of(const Timeline& timeline);

/// A step of all ranks: kernels take as long as measured, transfers as long as the planner expects.
struct SimulatedParts {
    Seconds total = 0, exposed = 0; ///< of rank 0; exposed: its compute queue waits
};
/// `measured`: by rank, durations_of() one step.
SimulatedParts simulated_parts(const RunConfig& config, const Machine& machine, int threads,
                               const std::vector<std::vector<Seconds>>& measured);

} // namespace trivium
