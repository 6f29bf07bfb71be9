#pragma once
// What the planner knows of a machine. Fixed numbers from a file or these defaults; never measured by `train`.
#include "schedule/memory.hpp"

#include <string>
#include <vector>

namespace trivium {

struct Machine {
    std::string name = "generic CPU core";
    /// A rank has one of it, whatever its threads; else the rates of computation are those of a thread.
    bool is_device = false;
    /// Most scratch that one kernel call of each kind may use; a kernel that needs more is refused.
    ScratchBudget scratch{Bytes{32} << 20, Bytes{32} << 20, Bytes{1} << 20, Bytes{8} << 20};
    /// Process memory beside the arena: program, libraries, tokens mapped, staging.
    Bytes process = Bytes{192} << 20;
    double flops_f32 = 150e9; ///< of products: what a CPU's thread reaches in large ones, or a device's data sheet says
    double flops_bf16 = 250e9;
    double flops_f64 = 10e9;
    double bytes_per_second = 20e9; ///< of memory, per rank
    Seconds launch = 1e-6;     ///< per Step
    double link_bytes_per_second = 5e9; ///< that a rank sends to its peers
    Seconds link_latency = 5e-6;        ///< per message

    /// What computes in a rank: that many of the rates above.
    i64 workers(i64 threads) const { return is_device ? 1 : threads; }

    /// As config structs list theirs: the keys of a machine file.
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("name", self.name, "what reports call it");
        visit("is_device", self.is_device, "a rank has one of it; else the rates of computation are those of a thread");
        visit("scratch_product", self.scratch.product, "most scratch of a product, bytes");
        visit("scratch_attention", self.scratch.attention, "of attention");
        visit("scratch_reduction", self.scratch.reduction, "of a reduction");
        visit("scratch_exchange", self.scratch.exchange, "of a collective");
        visit("process", self.process, "memory of the process beside the arena, bytes");
        visit("flops_f32", self.flops_f32, "of products, per second");
        visit("flops_bf16", self.flops_bf16, "of products of bf16, per second");
        visit("flops_f64", self.flops_f64, "of products of f64, per second");
        visit("bytes_per_second", self.bytes_per_second, "of memory, per rank");
        visit("launch", self.launch, "seconds per Step");
        visit("link_bytes_per_second", self.link_bytes_per_second, "that a rank sends to its peers");
        visit("link_latency", self.link_latency, "seconds per message");
    }
};

/// "cpu", which is Machine{}, and GPUs. All GPUs have the same scratch, so that a plan for one holds on another.
std::vector<std::string> machine_names();
/// \throws UserError that names the nearest where there is none of that name
Machine machine_called(const std::string& name);
/// The one whose name stands in what a driver calls a device ("NVIDIA H200"); else a GPU of unknown speed, called "gpu".
Machine machine_of_device(const std::string& device);
/// Every number of it, a line each: what a plan depends on.
std::string to_text(const Machine& machine);
/// What `plan` and `explain` take for granted: what programs of this build compute on.
std::string default_machine();

} // namespace trivium
