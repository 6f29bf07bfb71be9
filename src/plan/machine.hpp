#pragma once
// What the planner knows of a machine. Fixed numbers from a file or these defaults; never measured by
// `train`.
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
    double flops_f32 =
        150e9; ///< of products: what a CPU's thread reaches in large ones, or a device's data sheet says
    double flops_bf16 = 250e9;
    double flops_f64 = 10e9;
    double bytes_per_second = 20e9;     ///< of memory, per rank
    Seconds launch = 1e-6;              ///< per Step
    double link_bytes_per_second = 5e9; ///< that a rank sends to its peers on the same node
    Seconds link_latency = 5e-6;        ///< per message
    /// The same to peers on other nodes; a rate of 0: as on the same node.
    double node_link_bytes_per_second = 0;
    Seconds node_link_latency = 0;
    /// Devices of a node, each with a rank, or on CPUs the ranks that are placed on a node. 0: all ranks are
    /// on one node.
    i64 ranks_per_node = 0;
    /// What a program can use of a device's memory, or of a node's, which the ranks of the node share. 0: not
    /// known.
    Bytes memory = 0;

    /// What computes in a rank: that many of the rates above.
    i64 workers(i64 threads) const { return is_device ? 1 : threads; }
    /// Products of this type that a rank does per second at most.
    double peak(DType type, i64 threads) const
    {
        return (type == DType::f64    ? flops_f64
                : type == DType::bf16 ? flops_bf16
                                      : flops_f32) *
               static_cast<double>(workers(threads));
    }
    /// Of a rank's messages to peers, of which some are on other nodes or none.
    double link_rate(bool between_nodes) const
    {
        return between_nodes && node_link_bytes_per_second > 0 ? node_link_bytes_per_second
                                                               : link_bytes_per_second;
    }
    Seconds latency(bool between_nodes) const
    {
        return between_nodes && node_link_bytes_per_second > 0 ? node_link_latency : link_latency;
    }
    /// The node of a rank; ranks fill one node after the other.
    i64 node_of(i64 rank) const { return ranks_per_node > 0 ? rank / ranks_per_node : 0; }

    /// As config structs list theirs: the keys of a machine file.
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("name", self.name, "what reports call it");
        visit("is_device", self.is_device,
              "a rank has one of it; else the rates of computation are those of a thread");
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
        visit("link_bytes_per_second", self.link_bytes_per_second,
              "that a rank sends to peers on the same node");
        visit("link_latency", self.link_latency, "seconds per message on the same node");
        visit("node_link_bytes_per_second", self.node_link_bytes_per_second,
              "that a rank sends to peers on other nodes; 0 = as on the same node");
        visit("node_link_latency", self.node_link_latency, "seconds per message between nodes");
        visit(
            "ranks_per_node", self.ranks_per_node,
            "devices of a node, each with a rank, or ranks placed on a node; 0 = all ranks are on one node");
        visit("memory", self.memory,
              "usable bytes of a device, or of a node, shared by its ranks; 0 = not known, a CPU has what is "
              "available where it is planned");
    }
};

/// "cpu", which is Machine{}, and GPUs. All GPUs have the same scratch, so that a plan for one holds on
/// another.
std::vector<std::string> machine_names();
/// \throws UserError that names the nearest where there is none of that name
Machine machine_called(const std::string& name);
/// The one whose name stands in what a driver calls a device ("NVIDIA H200"); else a GPU of unknown speed,
/// called "gpu".
Machine machine_of_device(const std::string& device);
/// Every number of it, a line each: what a plan depends on.
std::string to_text(const Machine& machine);
/// What `plan` and `explain` take for granted: what programs of this build compute on.
std::string default_machine();

} // namespace trivium
