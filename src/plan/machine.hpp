#pragma once
// The planner's description of a machine: built in, or numbers from a file. `train` never measures them.
#include "schedule/memory.hpp"

#include <string>
#include <vector>

namespace trivium {

struct Machine {
    std::string name = "generic CPU core";
    /// true: a device, one per rank, and FLOP/s are per device; false: a CPU, and FLOP/s are per thread.
    bool is_device = false;
    /// Maximum scratch of a kernel call, per kind, or the op table's minimum if that is larger. A kernel that
    /// needs more is refused.
    ScratchBudget scratch{Bytes{32} << 20, Bytes{32} << 20, Bytes{1} << 20, Bytes{8} << 20};
    /// Process memory in addition to the arena: program, libraries, mapped tokens, staging. Measured on CPUs:
    /// 30 to 53 MiB, with Open MPI, 1 to 4 ranks, models of up to 10 M parameters.
    Bytes process = Bytes{64} << 20;
    /// FLOP/s of large products, measured on a CPU thread or from a device's data sheet.
    double flops_f32 = 150e9;
    double flops_bf16 = 250e9;
    double flops_f64 = 75e9; ///< a vector has half as many values as in f32
    double flops_fp8 = 0;    ///< of products with train.fp8; 0: as flops_bf16
    /// At most, of products of rows with the matrices of their experts, in any type; 0: as other products.
    double flops_grouped = 0;
    double bytes_per_second = 20e9; ///< memory bandwidth of a rank
    /// Reached fractions of the FLOP/s by products and by attention, and of bytes_per_second by all ops.
    double product_efficiency = 1, attention_efficiency = 1, memory_efficiency = 1;
    /// The edge of a square bf16 product that reaches half of product_efficiency. 0: products of every size
    /// reach all of it.
    double product_half = 0;
    /// The rows of the rank whose experts have most, relative to the mean, at least 1: what plans assume.
    double expert_load = 1;
    /// false: attention is products and element-wise ops over all pairs of a query and a key, masked and
    /// dropped out, as before fused kernels. Changes times, not memory.
    bool fused_attention = true;
    /// false: gradients are reduced after a rank's last backward pass, and not while it runs.
    bool early_reductions = true;
    /// The standard deviation of a rank's speed. Ranks wait for the slowest of them.
    double stragglers = 0;
    /// For values in host memory (parallel.offload), per rank: bandwidth of the link between device and host
    /// memory, one way, and of host memory. 0: as bytes_per_second.
    double host_link_bytes_per_second = 0, host_bytes_per_second = 0;
    Seconds launch = 1e-6;              ///< overhead of a Step
    double link_bytes_per_second = 5e9; ///< of a rank, to peers on the same node
    Seconds link_latency = 5e-6;        ///< per message to a peer on the same node
    Seconds collective_latency = 0;     ///< per collective, in addition to its messages
    double link_efficiency = 1;         ///< reached part of both bandwidths of links
    /// Of collectives along the tensor axis: the part that runs while the product that makes or reads the
    /// tensor runs.
    double tensor_overlap = 0;
    /// The part of a device's compute that a collective takes while it runs, if some of its members share a
    /// node, or if none do.
    double link_share = 0, node_link_share = 0;
    /// Bandwidth and latency to peers on other nodes. A bandwidth of 0: both as on the same node.
    double node_link_bytes_per_second = 0;
    Seconds node_link_latency = 0;
    /// Ranks per node (on GPUs, one per device). 0: all ranks are on one node.
    i64 ranks_per_node = 0;
    /// On CPUs: the rate at which a core copies messages to ranks of its node, and the cache of a core.
    /// Tensors of a transfer that are larger than the cache are also read from memory.
    double copy_bytes_per_second = 5e9;
    Bytes cache = Bytes{2} << 20;
    /// Measured durations of ops, by kind, type and size, in a rank with `ops_threads` threads
    /// (op_times.hpp): for what they cover, instead of FLOP/s, bandwidth and launch.
    std::vector<std::string> ops;
    i64 ops_threads = 1;
    /// What with_delay() adds to each message, and what a byte then takes at least: measured collectives do
    /// not have it. Not keys of a machine file.
    Seconds delay_latency = 0, delay_per_byte = 0;
    /// Usable memory of a device, or of a CPU node, whose ranks share it. 0: unknown.
    Bytes memory = 0;
    /// Relative errors of simulated steps on the rows to which this machine is calibrated (docs/planner.md):
    /// the median and the largest. 0: unknown.
    double calibration_error = 0, calibration_worst = 0;

    /// Number of threads that compute in a rank; for a device 1.
    i64 workers(i64 threads) const { return is_device ? 1 : threads; }
    /// FLOP/s of a rank in products of this type, at an efficiency of 1.
    double peak(DType type, i64 threads) const
    {
        return (type == DType::f64    ? flops_f64
                : type == DType::bf16 ? flops_bf16
                                      : flops_f32) *
               static_cast<double>(workers(threads));
    }
    /// As peak(), of products whose operands are rounded to 8 bits.
    double peak_fp8(i64 threads) const
    {
        return flops_fp8 > 0 ? flops_fp8 * static_cast<double>(workers(threads)) : peak(DType::bf16, threads);
    }
    double host_link_rate() const
    {
        return host_link_bytes_per_second > 0 ? host_link_bytes_per_second : bytes_per_second;
    }
    double host_rate() const { return host_bytes_per_second > 0 ? host_bytes_per_second : bytes_per_second; }
    /// Bandwidth of a rank's messages; `between_nodes`: some peers are on other nodes.
    double link_rate(bool between_nodes) const
    {
        return link_efficiency * (between_nodes && node_link_bytes_per_second > 0 ? node_link_bytes_per_second
                                                                                  : link_bytes_per_second);
    }
    Seconds latency(bool between_nodes) const
    {
        return between_nodes && node_link_bytes_per_second > 0 ? node_link_latency : link_latency;
    }
    /// The node of a rank, if ranks fill one node after the other.
    i64 node_of(i64 rank) const { return ranks_per_node > 0 ? rank / ranks_per_node : 0; }
    /// Ranks on the fullest node, of `ranks` ranks.
    i64 ranks_of_a_node(i64 ranks) const
    {
        return ranks_per_node > 0 && ranks_per_node < ranks ? ranks_per_node : ranks;
    }

    /// The keys of a machine file (config/keys.hpp).
    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("name", self.name, "name in reports");
        visit("is_device", self.is_device,
              "true: a device, one per rank; false: a CPU, and the flops keys are per thread");
        visit("scratch_product", self.scratch.product, "maximum scratch of a product, bytes");
        visit("scratch_attention", self.scratch.attention, "maximum scratch of attention, bytes");
        visit("scratch_reduction", self.scratch.reduction, "maximum scratch of a reduction, bytes");
        visit("scratch_exchange", self.scratch.exchange, "maximum scratch of a collective, bytes");
        visit("process", self.process, "memory of the process in addition to the arena, bytes");
        visit("flops_f32", self.flops_f32, "FLOP/s of products in f32");
        visit("flops_bf16", self.flops_bf16, "FLOP/s of products in bf16");
        visit("flops_f64", self.flops_f64, "FLOP/s of products in f64");
        visit("flops_fp8", self.flops_fp8, "FLOP/s of products with train.fp8; 0 = as flops_bf16");
        visit("flops_grouped", self.flops_grouped,
              "FLOP/s of products of rows with the matrices of experts, at most; 0 = as other products");
        visit("bytes_per_second", self.bytes_per_second, "memory bandwidth of a rank, bytes per second");
        visit("product_efficiency", self.product_efficiency, "part of the FLOP/s that products reach");
        visit("attention_efficiency", self.attention_efficiency, "part of the FLOP/s that attention reaches");
        visit("memory_efficiency", self.memory_efficiency,
              "part of bytes_per_second that ops other than products reach");
        visit("product_half", self.product_half,
              "edge of a square bf16 product that reaches half of product_efficiency; 0 = every product "
              "reaches it");
        visit("expert_load", self.expert_load,
              "rows of the rank whose experts have most, relative to the mean; 1 = equally loaded experts");
        visit("fused_attention", self.fused_attention,
              "false: attention as products and element-wise ops over all pairs, with dropout");
        visit("early_reductions", self.early_reductions,
              "false: gradients are reduced after the last backward pass");
        visit("stragglers", self.stragglers,
              "standard deviation of a rank's speed, as a part of it; ranks wait for the slowest");
        visit("host_link_bytes_per_second", self.host_link_bytes_per_second,
              "bandwidth between a rank's device and host memory, one way, bytes per second; 0 = "
              "bytes_per_second");
        visit("host_bytes_per_second", self.host_bytes_per_second,
              "bandwidth of host memory for a rank, bytes per second; 0 = bytes_per_second");
        visit("launch", self.launch, "overhead of a Step, seconds");
        visit("collective_latency", self.collective_latency,
              "duration of a collective without its messages, seconds");
        visit("link_bytes_per_second", self.link_bytes_per_second,
              "bandwidth of a rank to peers on the same node, bytes per second");
        visit("link_latency", self.link_latency, "latency of a message on the same node, seconds");
        visit("link_efficiency", self.link_efficiency, "part of the bandwidths of links that ranks reach");
        visit("tensor_overlap", self.tensor_overlap,
              "part of the tensor axis' traffic that runs while a product runs");
        visit("link_share", self.link_share,
              "on devices: part of the compute that a collective takes while it runs");
        visit("node_link_share", self.node_link_share,
              "the same for a collective of which no two ranks share a node");
        visit("node_link_bytes_per_second", self.node_link_bytes_per_second,
              "bandwidth of a rank to peers on other nodes, bytes per second; 0 = as on the same node");
        visit("node_link_latency", self.node_link_latency, "latency of a message between nodes, seconds");
        visit("ranks_per_node", self.ranks_per_node,
              "ranks per node (on GPUs, one per device); 0 = all ranks are on one node");
        visit("copy_bytes_per_second", self.copy_bytes_per_second,
              "on CPUs: rate at which a core copies what ranks of a node send each other, bytes per second");
        visit("cache", self.cache, "on CPUs: cache of a core, bytes");
        visit("memory", self.memory,
              "usable bytes of a device, or of a node, shared by its ranks; 0 = unknown (a CPU: what is "
              "available where `plan` runs)");
        visit("ops", self.ops,
              "measured ops, such as \"matmul f32 64:2.5e10 512:8e10\": FLOP/s of products and attention, "
              "bytes per second of others, by size");
        visit("ops_threads", self.ops_threads, "threads of a rank with which `ops` were measured");
        visit("calibration_error", self.calibration_error,
              "median relative error of simulated steps on the rows of calibration; 0 = unknown");
        visit("calibration_worst", self.calibration_worst, "the largest of these errors; 0 = unknown");
    }
};

/// How many standard deviations (Machine::stragglers) the slowest of `ranks` ranks is from the mean: the
/// expected maximum of as many normal variables, nearly.
double expected_maximum(i64 ranks);

/// `machine` with slower links: `latency` more per message, and at most `bytes_per_second` (0: no limit).
Machine with_delay(Machine machine, Seconds latency, double bytes_per_second);

/// Names of the built-in machines: "cpu" (Machine{}) and GPUs. All GPUs have the same scratch, so a plan for
/// one is valid for another.
std::vector<std::string> machine_names();
/// The built-in machine called `name`. \throws UserError with the nearest name if `name` is unknown
Machine machine_called(const std::string& name);
/// The built-in machine whose name occurs in a driver's device name ("NVIDIA H200", "AMD Instinct MI250X");
/// otherwise "gpu", of unknown speed and memory.
Machine machine_of_device(const std::string& device);
/// All keys with their values, one per line.
std::string to_text(const Machine& machine);
/// Name of the default machine of `plan` and `explain`, by the back-end of this build.
std::string default_machine();

} // namespace trivium
