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

/// The time that the compute queue waits in a simulated step: kernels take as long as in `timeline`,
/// transfers as long as the planner expects on `machine`.
Seconds simulated_exposed(const Program& program, const Timeline& timeline, const Machine& machine,
                          int threads);

} // namespace trivium
