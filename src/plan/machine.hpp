#pragma once
// What the planner knows of a machine. Fixed numbers from a file or these defaults; never measured by `train`.
#include "schedule/memory.hpp"

namespace trivium {

struct Machine {
    std::string name = "generic CPU core";
    /// Most scratch that one kernel call of each kind may use; a kernel that needs more is refused.
    ScratchBudget scratch{Bytes{32} << 20, Bytes{32} << 20, Bytes{1} << 20, Bytes{8} << 20};
    /// Process memory beside the arena: program, libraries, tokens mapped, staging.
    Bytes process = Bytes{192} << 20;
    double flops_f32 = 150e9;  ///< per thread, large products
    double flops_bf16 = 250e9; ///< per thread
    double flops_f64 = 10e9;   ///< per thread
    double bytes_per_second = 20e9; ///< of memory, per rank
    Seconds launch = 1e-6;     ///< per Step
    double link_bytes_per_second = 5e9; ///< that a rank sends to its peers
    Seconds link_latency = 5e-6;        ///< per message
};

} // namespace trivium
