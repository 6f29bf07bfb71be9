#pragma once
// Machines by name, or from a file that `trivium check` wrote.
#include "plan/machine.hpp"

namespace trivium {

/// A known machine, or the machine in a file if `name_or_file` ends in ".toml" or contains a '/'. Missing
/// keys have the values of the known machine that is its `name`, otherwise of "cpu"; a device's memory
/// follows from its name. Throws UserError: unknown machine, unreadable file, invalid key or value.
Machine machine_at(const std::string& name_or_file);

/// The text of --help for an option that takes a machine.
std::string machine_help();

/// A file for machine_at, with `origin` as a comment above the keys.
std::string machine_file(const Machine& machine, const std::string& origin);

} // namespace trivium
