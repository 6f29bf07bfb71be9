#include "plan/machine.hpp"

#include "base/check.hpp"
#include "base/words.hpp"
#include "config/keys.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace trivium {

namespace {

constexpr Bytes mebibyte = Bytes{1} << 20;

/// From NVIDIA's data sheets of the SXM parts and of the DGX systems of 8 of them: dense products (f32
/// outside the tensor cores, f64 on them), memory, NVLink one way, and between nodes one network card per
/// GPU: 200 Gb/s for an A100, 400 Gb/s for the others. The link to the host is PCIe with 16 lanes, of
/// generation 4 for an A100 and 5 for the others, at 87 % of its rate; host memory is that of a DGX, shared
/// by 8. `memory` is the size that a driver reports as usable,
/// not that of the data sheet: about 79 GiB of "80 GB", 140 of "141 GB".
Machine gpu(const char* name, double tflops_bf16, double tflops_f32, double tflops_f64,
            double terabytes_per_second, double link_gigabytes, double node_link_gigabytes, Bytes memory)
{
    Machine m;
    m.name = name;
    m.is_device = true;
    // The scratch of attention is enough for cuDNN's gradient of 16 heads and 4096 tokens, or 4 and 8192
    // (kernels/cudnn_attention.hpp).
    m.scratch = {Bytes{32} << 20, Bytes{576} << 20, Bytes{8} << 20, Bytes{64} << 20};
    m.process = Bytes{2} << 30;
    m.flops_bf16 = tflops_bf16 * 1e12;
    m.flops_f32 = tflops_f32 * 1e12;
    m.flops_f64 = tflops_f64 * 1e12;
    m.bytes_per_second = terabytes_per_second * 1e12;
    // Usual for large shapes; `trivium check` measures products and bandwidth.
    m.product_efficiency = 0.7;
    m.attention_efficiency = 0.5;
    m.memory_efficiency = 0.7;
    m.launch = 3e-6;
    m.link_bytes_per_second = link_gigabytes * 1e9;
    m.node_link_bytes_per_second = node_link_gigabytes * 1e9;
    // NCCL's own model of a ring with its low-latency protocol: a start, then one message per hop.
    m.collective_latency = 6.6e-6;
    m.link_latency = 0.6e-6;
    m.node_link_latency = 2.7e-6;
    const bool new_link = node_link_gigabytes > 25;
    m.host_link_bytes_per_second = new_link ? 55e9 : 27e9;
    m.host_bytes_per_second = new_link ? 75e9 : 50e9;
    m.ranks_per_node = 8;
    m.memory = memory;
    return m;
}

/// `machine` as an AMD GPU: its own links to host memory, and attention by the portable kernels, which
/// compute outside the matrix cores. Both of these GPUs reach 1/8 of their bf16 FLOP/s there; 0.05 assumes
/// that the kernels reach 40 % of it (not measured).
Machine amd(Machine machine, double host_link_gigabytes, double host_gigabytes)
{
    machine.attention_efficiency = 0.05;
    machine.host_link_bytes_per_second = host_link_gigabytes * 1e9;
    machine.host_bytes_per_second = host_gigabytes * 1e9;
    return machine;
}

/// A GCD, half of an MI250X, in a node of four (Frontier, LUMI).
Machine mi250x()
{
    // AMD's data sheet of the MI250X, divided by 2: 383.0 TFLOP/s in bf16, 95.7 in f32 and in f64, all on
    // the matrix cores; 3.2 TB/s.
    const double tflops_bf16 = 191.5, tflops_f32 = 47.85, tflops_f64 = 47.85, terabytes_per_second = 1.6;
    // OLCF's guide to Frontier: 200 GB/s between the GCDs of an MI250X, 50 to 100 between others, so that a
    // ring around the node has links of 100. Four network cards of 200 Gb/s for 8 GCDs.
    const double link = 100, node_link = 12.5;
    const Bytes memory = 65520 * mebibyte; // "64 GB"; what the driver reports
    // The same guide: 36 GB/s between host and GCD, here at 87 %. Host memory of 8 channels of DDR4-3200
    // (205 GB/s), shared by 8.
    return amd(
        gpu("mi250x", tflops_bf16, tflops_f32, tflops_f64, terabytes_per_second, link, node_link, memory), 31,
        25);
}

/// An MI300X, one of 8 on AMD's platform, with its memory in one part (SPX, NPS1).
Machine mi300x()
{
    // AMD's data sheet: 1307.4 TFLOP/s in bf16 (dense), 163.4 in f32 and in f64 on the matrix cores;
    // 5.3 TB/s.
    const double tflops_bf16 = 1307.4, tflops_f32 = 163.4, tflops_f64 = 163.4, terabytes_per_second = 5.3;
    // 7 links of 64 GB/s one way, one to each other GPU; one network card of 400 Gb/s per GPU.
    const double link = 448, node_link = 50;
    const Bytes memory = 196592 * mebibyte; // "192 GB"; what the driver reports
    // PCIe 5.0 with 16 lanes at 87 %; two CPUs with 12 channels of DDR5-4800 (921 GB/s), shared by 8.
    return amd(
        gpu("mi300x", tflops_bf16, tflops_f32, tflops_f64, terabytes_per_second, link, node_link, memory), 55,
        115);
}

std::vector<Machine> all()
{
    Machine cpu;
    return {cpu,
            gpu("gpu", 312, 19.5, 19.5, 2.0, 300, 25, 0), // of unknown speed and memory
            gpu("a100", 312, 19.5, 19.5, 2.0, 300, 25, 81000 * mebibyte),
            gpu("h100", 989, 67, 67, 3.35, 450, 50, 81000 * mebibyte),
            gpu("h200", 989, 67, 67, 4.8, 450, 50, 143000 * mebibyte),
            gpu("b200", 2250, 75, 37, 8.0, 900, 50, 182500 * mebibyte),
            mi250x(),
            mi300x()};
}

/// The name in configs and options.
std::string name_of(const Machine& machine) { return machine.is_device ? machine.name : "cpu"; }

} // namespace

Machine with_delay(Machine machine, Seconds latency, double bytes_per_second)
{
    machine.link_latency += latency;
    machine.node_link_latency += latency;
    if (bytes_per_second > 0)
        for (double* rate : {&machine.link_bytes_per_second, &machine.node_link_bytes_per_second})
            *rate = std::min(*rate, bytes_per_second);
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
    for (Machine& machine : all())
        if (machine.is_device && machine.name != "gpu" && lower.find(machine.name) != std::string::npos)
            return machine;
    return machine_called("gpu");
}

} // namespace trivium
