#pragma once
// Config files: TOML text <-> RunConfig, one generic walk over the keys that the structs list.
#include "config/run_config.hpp"

#include <string>
#include <vector>

namespace trivium {

/// Reads the TOML file at `path` (empty: none), then each override "table.key=value".
/// A preset, of an override or else of the file, comes first; the file's other keys override it, the
/// overrides override both. An override's value is TOML; what is no TOML counts as a string.
/// Throws UserError on a missing file, wrong syntax (line, column), an unknown table or key, a wrong type.
/// Does not call resolve_and_validate.
RunConfig read_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// The same from text; `name` stands for the file in messages.
RunConfig parse_config(const std::string& text, const std::string& name,
                       const std::vector<std::string>& overrides = {});

/// Every key as TOML, of these tables or (none named) of all; parse_config of all gives the same RunConfig,
/// bit for bit.
std::string to_toml(const RunConfig& config, const std::vector<std::string>& tables = {});

/// Markdown: one table per config table, with type, default and meaning of each key.
std::string config_reference();

} // namespace trivium
