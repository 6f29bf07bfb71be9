#pragma once
// Machines as users name them: by a known name, or by a file that `trivium check` wrote.
#include "plan/machine.hpp"

namespace trivium {

/// A known machine, or where the word ends in ".toml" or has a '/', the one of that file; keys that the file
/// leaves out are those of "cpu", but for a device's memory, which goes by the device's name. Throws
/// UserError: no such machine, a file that cannot be read, a key or a value that makes none.
Machine machine_at(const std::string& name_or_file);

/// What --help says of an option that takes one.
std::string machine_help();

/// A file for machine_at, with `origin` as a comment above the keys.
std::string machine_file(const Machine& machine, const std::string& origin);

} // namespace trivium
