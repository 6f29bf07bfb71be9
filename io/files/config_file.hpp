#pragma once
// Config files: TOML text <-> RunConfig, by a generic walk over the keys that the structs list.
#include "config/run_config.hpp"

#include <map>
#include <string>
#include <vector>

namespace trivium {

/// Reads the TOML file at `path` (empty: no file), then applies each override "table.key=value".
/// Precedence: overrides, then the file, then family, preset and optimizer (which an override or the file
/// names). An override's value is TOML; text that is not valid TOML counts as a string.
/// UserError on a missing file, wrong syntax (line, column), an unknown table or key, a wrong type.
/// Does not call resolve_and_validate.
RunConfig read_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// As read_config, from the text of a file; `name` names the file in messages.
RunConfig parse_config(const std::string& text, const std::string& name,
                       const std::vector<std::string>& overrides = {});

/// All keys of `tables` as TOML; of all tables if it is empty. parse_config of the complete text yields the
/// same RunConfig, bit for bit.
std::string to_toml(const RunConfig& config, const std::vector<std::string>& tables = {});

/// The values in a text of to_toml, as TOML, by dotted key ("train.lr"), including keys that this version
/// does not know.
std::map<std::string, std::string> values_by_key(const std::string& toml);
/// The kind of a key by its dotted name; `free` if there is no such key.
KeyKind kind_of_key(const std::string& key);

/// The reference page in Markdown: for each config table, the type, default and meaning of its keys.
std::string config_reference();

} // namespace trivium
