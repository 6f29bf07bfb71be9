#include "plan/machine.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "config/keys.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <sstream>

namespace trivium {

namespace {

constexpr Bytes mebibyte = Bytes{1} << 20;

/// Of a device: dense products in TFLOP/s (0: none in FP8), memory in TB/s, links in GB/s one way, `memory`
/// in MiB as a driver reports it, which is less than the data sheet says: about 79 GiB of "80 GB".
struct Sheet {
    const char* name;
    double bf16, fp8, f32, f64, memory_rate, link, node_link;
    i64 memory, ranks_per_node = 8;
};

/// What data sheets lack: parts of the FLOP/s that are reached, and the part of tensor parallelism's traffic
/// that overlaps. `product` and `tensor_overlap` are found by `perf/plan_error --fit` on measured steps, with
/// the median `error` and the `worst` (docs/planner.md), which are 0 where a device takes another one's
/// calibration. `attention` is published for fused kernels of the time.
struct Calibration {
    double product, attention, tensor_overlap, error = 0, worst = 0;
};
constexpr Calibration of_a100{0.66, 0.5, 0, 0.025, 0.043}, of_a100_2021{0.668, 0.5, 0, 0.025, 0.051},
    of_h100{0.671, 0.5, 0.71, 0.019, 0.053}, of_h100_500w{0.482, 0.35, 0.71, 0.01, 0.01},
    of_h200{0.7255, 0.3, 0.71, 0.015, 0.015}; // of Trivium on one GPU: its gradient of attention is
                                              // deterministic

/// The calibration of another device, at another part of the FLOP/s of products.
constexpr Calibration taken_from(Calibration other, double times = 1)
{
    return {other.product * times, other.attention, other.tensor_overlap};
}

/// Five published steps on B200 took 3 % longer, relative to those on H100, than one scale for both GPUs
/// says.
constexpr Calibration of_blackwell = taken_from(of_h100, 0.97);

Machine device(const Sheet& sheet, const Calibration& found)
{
    Machine m;
    m.name = sheet.name;
    m.is_device = true;
    // The scratch of attention is enough for cuDNN's gradient of 16 heads and 4096 tokens, or 4 and 8192
    // (kernels/cudnn_attention.hpp).
    m.scratch = {Bytes{32} << 20, Bytes{576} << 20, Bytes{8} << 20, Bytes{64} << 20};
    m.process = Bytes{2} << 30;
    m.flops_bf16 = sheet.bf16 * 1e12;
    m.flops_fp8 = sheet.fp8 * 1e12;
    m.flops_f32 = sheet.f32 * 1e12;
    m.flops_f64 = sheet.f64 * 1e12;
    m.flops_grouped = sheet.f32 * 1e12; // Trivium's kernel computes outside the tensor cores
    m.bytes_per_second = sheet.memory_rate * 1e12;
    m.product_efficiency = found.product;
    m.product_half = 400; // of Trivium's products on an H200; Megatron-LM's rows on A100s alone give 334
    m.attention_efficiency = found.attention;
    m.tensor_overlap = found.tensor_overlap;
    m.stragglers = 0.005; // steps on 2,048 ranks take 1 to 2 % longer than on 16
    m.calibration_error = found.error;
    m.calibration_worst = found.worst;
    m.memory_efficiency = 0.8; // assumed
    m.launch = 3e-6;
    m.link_bytes_per_second = sheet.link * 1e9;
    m.node_link_bytes_per_second = sheet.node_link * 1e9;
    m.link_efficiency = 0.8; // of NCCL's rings for large messages; its own model has 235 of 300 GB/s
    // NCCL's own model of a ring with its low-latency protocol: a start, then one message per hop.
    m.collective_latency = 6.6e-6;
    m.link_latency = 0.6e-6;
    m.node_link_latency = 2.7e-6;
    // Isaev et al. 2023 (Calculon), for A100: what collectives take of the compute.
    m.link_share = 0.15;
    m.node_link_share = 0.02;
    m.ranks_per_node = sheet.ranks_per_node;
    m.memory = sheet.memory * mebibyte;
    return m;
}

/// `machine` with its own links to host memory and host memory, in GB/s per device.
Machine with_host(Machine machine, double link, double memory)
{
    machine.host_link_bytes_per_second = link * 1e9;
    machine.host_bytes_per_second = memory * 1e9;
    return machine;
}

/// Of NVIDIA, from the data sheets of the SXM parts and of the DGX systems of 8 of them: dense products (f32
/// outside the tensor cores, f64 on them), memory, NVLink one way, and between nodes one network card per
/// GPU: 200 Gb/s for an A100, 400 Gb/s for the others. The link to the host is PCIe with 16 lanes, of
/// generation 4 for an A100 and 5 for the others, at 87 % of its rate; host memory is that of a DGX, shared
/// by 8.
Machine nvidia(const Sheet& sheet, const Calibration& found)
{
    const bool new_link = sheet.node_link > 25;
    return with_host(device(sheet, found), new_link ? 55 : 27, new_link ? 75 : 50);
}

/// An A100 with the programs of 2021, to plan what was published then: attention of separate kernels, and
/// gradients that are reduced after the backward pass.
Machine a100_2021()
{
    Machine m = nvidia({"a100-2021", 312, 0, 19.5, 19.5, 2.0, 300, 25, 81000}, of_a100_2021);
    m.fused_attention = m.early_reductions = false;
    return m;
}

/// A device of a rack of 72 that NVLink connects, with half of a Grace CPU: NVLink-C2C at 450 GB/s one way
/// and LPDDR5X at 512 GB/s, both shared by two devices.
Machine of_rack(const Sheet& sheet) { return with_host(device(sheet, of_blackwell), 195, 220); }

/// Of AMD. Attention by the portable kernels, which compute outside the matrix cores: both of these GPUs
/// reach 1/8 of their bf16 FLOP/s there; 0.05 assumes that the kernels reach 40 % of it (not measured).
Machine amd(const Sheet& sheet, double host_link, double host)
{
    Machine m = with_host(device(sheet, taken_from(of_h100)), host_link, host);
    m.attention_efficiency = 0.05;
    m.tensor_overlap = 0;
    return m;
}

/// A GCD, half of an MI250X, in a node of four (Frontier, LUMI). AMD's data sheet of the MI250X, divided by
/// 2: 383.0 TFLOP/s in bf16, 95.7 in f32 and in f64, all on the matrix cores; 3.2 TB/s. OLCF's guide to
/// Frontier: 200 GB/s between the GCDs of an MI250X, 50 to 100 between others, so that a ring around the node
/// has links of 100. Four network cards of 200 Gb/s for 8 GCDs. 36 GB/s between host and GCD, here at 87 %;
/// host memory of 8 channels of DDR4-3200 (205 GB/s), shared by 8.
Machine mi250x() { return amd({"mi250x", 191.5, 0, 47.85, 47.85, 1.6, 100, 12.5, 65520}, 31, 25); }

/// An MI300X, one of 8 on AMD's platform, with its memory in one part (SPX, NPS1). AMD's data sheet: 1307.4
/// TFLOP/s in bf16 (dense), 163.4 in f32 and in f64 on the matrix cores; 5.3 TB/s. 7 links of 64 GB/s one
/// way, one to each other GPU; one network card of 400 Gb/s per GPU. PCIe 5.0 with 16 lanes at 87 %; two CPUs
/// with 12 channels of DDR5-4800 (921 GB/s), shared by 8.
Machine mi300x() { return amd({"mi300x", 1307.4, 2614.9, 163.4, 163.4, 5.3, 448, 50, 196592}, 55, 115); }

/// A core, half of a TPU v3 chip, for plans alone: Trivium does not run there. Google's documentation, of a
/// chip: 123 TFLOP/s in bf16, 32 GiB at 900 GB/s, four links of 656 Gb/s to its neighbours on a torus, of
/// which a ring uses two; all chips of a pod are on it, so there are no links between nodes. No rate is
/// published for f32 products (here six passes in bf16), and f64 is emulated.
Machine tpu_v3()
{
    Machine m = device({"tpu-v3", 61.5, 0, 10, 0.1, 0.45, 82, 0, 16384, 0}, taken_from(of_a100));
    m.link_share = 0; // the links have their own engines
    return with_host(m, 8, 12);
}

std::vector<Machine> all()
{
    return {Machine{},                                                                 // cpu
            nvidia({"gpu", 312, 0, 19.5, 19.5, 2.0, 300, 25, 0}, taken_from(of_a100)), // of unknown speed
            nvidia({"a100", 312, 0, 19.5, 19.5, 2.0, 300, 25, 81000}, of_a100), a100_2021(),
            nvidia({"h100", 989, 1979, 67, 67, 3.35, 450, 50, 81000}, of_h100),
            // With 96 GB of HBM2e at 500 W instead of 700 W.
            nvidia({"h100-500w", 989, 1979, 67, 67, 2.4, 450, 50, 97000}, of_h100_500w),
            nvidia({"h200", 989, 1979, 67, 67, 4.8, 450, 50, 143000}, of_h200),
            nvidia({"b200", 2250, 4500, 75, 37, 8.0, 900, 50, 182500}, of_blackwell),
            of_rack({"gb200", 2500, 5000, 80, 40, 8.0, 900, 50, 188400, 72}),
            of_rack({"gb300", 2500, 5000, 80, 1.3, 8.0, 900, 100, 283000, 72}), mi250x(), mi300x(), tpu_v3()};
}

/// The name in configs and options.
std::string name_of(const Machine& machine) { return machine.is_device ? machine.name : "cpu"; }

} // namespace

double expected_maximum(i64 ranks)
{
    return std::sqrt(2 * std::log(static_cast<double>(std::max<i64>(1, ranks))));
}

Machine with_delay(Machine machine, Seconds latency, double bytes_per_second)
{
    machine.link_latency += latency;
    machine.node_link_latency += latency;
    machine.delay_latency += latency;
    if (bytes_per_second > 0) {
        machine.delay_per_byte = std::max(machine.delay_per_byte, 1 / bytes_per_second);
        for (double* rate : {&machine.link_bytes_per_second, &machine.node_link_bytes_per_second})
            *rate = std::min(*rate, bytes_per_second);
    }
    return machine;
}

std::vector<std::string> machine_names()
{
    std::vector<std::string> names;
    for (const Machine& machine : all())
        names.push_back(name_of(machine));
    return names;
}

std::string to_text(const Machine& machine)
{
    std::ostringstream out;
    out << std::setprecision(17);
    Machine::keys(machine, [&](const char* key, const auto& value, const char*) {
        if constexpr (std::is_same_v<decltype(value), const std::vector<std::string>&>)
            for (const std::string& line : value)
                out << key << ' ' << line << '\n';
        else
            out << key << ' ' << value << '\n';
    });
    return out.str();
}

Machine machine_called(const std::string& name)
{
    for (Machine& machine : all())
        if (name_of(machine) == name)
            return machine;
    const std::string near = nearest_word(name, machine_names());
    throw UserError({"machine", str("unknown machine '", name, "'"),
                     near.empty() ? "" : str("the nearest is '", near, "'"),
                     "use " + one_of(machine_names())});
}

Machine machine_of_device(const std::string& device)
{
    const std::string lower = lower_case(device);
    Machine found = machine_called("gpu");
    for (Machine& machine : all()) // "NVIDIA GB200" contains "b200"
        if (machine.is_device && lower.find(machine.name) != std::string::npos &&
            (found.name == "gpu" || machine.name.size() > found.name.size()))
            found = std::move(machine);
    return found;
}

} // namespace trivium
