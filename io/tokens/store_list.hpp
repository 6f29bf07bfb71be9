#pragma once
// The files of a token store that is a folder or a pattern.
#include <string>
#include <vector>

namespace trivium {

/// Whether `name` is a folder, or a pattern of glob(7): it has `*`, `?` or `[`, and no file is called so.
bool names_several_files(const std::string& name);

/// The files of the store `name`: those in the folder, or those that match the pattern, in order of name (by
/// bytes), without hidden ones; otherwise `name` alone, which need not exist. An index is listed as its file
/// of ids, once. UserError if there are none, if one is a folder, if an index lacks its file of ids, or if a
/// folder cannot be listed; IoError.
std::vector<std::string> files_of_store(const std::string& name);

} // namespace trivium
