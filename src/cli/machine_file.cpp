#include "cli/machine_file.hpp"

#include "base/check.hpp"
#include "config/keys.hpp"
#include "io/files/key_file.hpp"
#include "plan/op_times.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

/// Sizes are from 1 byte to 1 PiB, speeds at least 1. Times and optional values may be zero.
void require_sound(const std::string& path, const std::vector<KeyPlace>& keys)
{
    for (const KeyPlace& key : keys) {
        const bool time = key.name == "launch" || key.name.ends_with("latency");
        const bool efficiency = key.name.ends_with("efficiency");
        const bool part = efficiency || key.name.ends_with("_share") || key.name.ends_with("_overlap") ||
                          key.name == "stragglers" || key.name.starts_with("calibration_");
        const bool zero_is_fine = time || (part && !efficiency) || key.name.starts_with("node_link") ||
                                  key.name.starts_with("host_") || key.name == "flops_fp8" ||
                                  key.name == "flops_grouped" || key.name == "product_half" ||
                                  key.name == "ranks_per_node" || key.name == "memory";
        // Larger values are typing errors, and their sums would overflow.
        const auto check = [&](double value, double least, double most) {
            if (!(std::isfinite(value) && value <= most && (value >= least || (value == 0 && zero_is_fine))))
                throw UserError({path, str(key.name, " = ", value),
                                 str("it must be ", zero_is_fine ? "0 or " : "", "a finite number from ",
                                     least, " to ", most),
                                 "measure the machine again with `trivium check --output`"});
        };
        if (const auto* real = std::get_if<double*>(&key.value))
            check(**real, time ? 1e-12 : efficiency ? 1e-3 : part ? 0 : 1, time ? 1e6 : part ? 1 : 1e24);
        if (const auto* whole = std::get_if<i64*>(&key.value))
            check(static_cast<double>(**whole), 1, 0x1p50);
        if (const auto* lines = std::get_if<std::vector<std::string>*>(&key.value))
            OpTimes(**lines, path);
    }
}

} // namespace

Machine machine_at(const std::string& name_or_file)
{
    if (!name_or_file.ends_with(".toml") && name_or_file.find('/') == std::string::npos)
        return machine_called(name_or_file);
    Machine machine;
    const std::vector<KeyPlace> keys = key_places(machine);
    read_key_file(name_or_file, "machine file", keys);
    if (const std::vector<std::string> known = machine_names(); std::ranges::count(known, machine.name) > 0) {
        machine = machine_called(machine.name); // what the file does not have
        read_key_file(name_or_file, "machine file", keys);
    }
    require_sound(name_or_file, keys);
    if (machine.is_device && machine.memory == 0) // from before machine files had this key
        machine.memory = machine_of_device(machine.name).memory;
    return machine;
}

std::string machine_help()
{
    return "machine of the run: " + one_of(machine_names()) + ", or a machine file (FILE.toml)";
}

std::string machine_file(const Machine& machine, const std::string& origin)
{
    Machine copy = machine;
    return "# " + origin + "\n" + print_key_file(key_places(copy));
}

} // namespace trivium
