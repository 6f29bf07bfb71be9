#include "plan/machine.hpp"

#include "base/check.hpp"
#include "config/keys.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace trivium {

namespace {

/// From NVIDIA's data sheets of the SXM parts: dense products (f32 outside the tensor cores, f64 on them), memory, and
/// NVLink one way.
Machine gpu(const char* name, double tflops_bf16, double tflops_f32, double tflops_f64, double terabytes_per_second, double link_gigabytes)
{
    Machine m;
    m.name = name;
    m.is_device = true;
    // Attention's does for cuDNN's gradient of 16 heads and 4096 tokens, or 4 and 8192 (kernels/cudnn_attention.hpp).
    m.scratch = {Bytes{32} << 20, Bytes{576} << 20, Bytes{8} << 20, Bytes{64} << 20};
    m.process = Bytes{2} << 30;
    m.flops_bf16 = tflops_bf16 * 1e12;
    m.flops_f32 = tflops_f32 * 1e12;
    m.flops_f64 = tflops_f64 * 1e12;
    m.bytes_per_second = terabytes_per_second * 1e12;
    m.launch = 3e-6;
    m.link_bytes_per_second = link_gigabytes * 1e9;
    m.link_latency = 10e-6;
    return m;
}

std::vector<Machine> all()
{
    Machine cpu;
    Machine unknown = gpu("gpu", 312, 19.5, 19.5, 2.0, 300);
    return {cpu, unknown, gpu("a100", 312, 19.5, 19.5, 2.0, 300), gpu("h100", 989, 67, 67, 3.35, 450), gpu("h200", 989, 67, 67, 4.8, 450),
            gpu("b200", 2250, 75, 37, 8.0, 900)};
}

/// The name that users write.
std::string name_of(const Machine& machine) { return machine.is_device ? machine.name : "cpu"; }

} // namespace

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
    Machine::keys(machine, [&](const char* key, const auto& value, const char*) { out << key << ' ' << value << '\n'; });
    return out.str();
}

Machine machine_called(const std::string& name)
{
    for (Machine& machine : all())
        if (name_of(machine) == name)
            return machine;
    const std::string near = nearest_word(name, machine_names());
    throw UserError({"machine", str("there is none called '", name, "'"), near.empty() ? "" : str("the nearest is '", near, "'"),
                     "take " + one_of(machine_names())});
}

Machine machine_of_device(const std::string& device)
{
    std::string lower = device;
    std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    for (Machine& machine : all())
        if (machine.is_device && machine.name != "gpu" && lower.find(machine.name) != std::string::npos)
            return machine;
    return machine_called("gpu");
}

} // namespace trivium
