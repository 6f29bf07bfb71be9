#pragma once
// What `trivium data show | verify` say about files of arrays.
#include <string>

namespace trivium {

/// Whether `name`, a file, folder or pattern, stands for files of arrays: by the first file.
bool names_arrays(const std::string& name);

/// Prints the arrays of each file, with facts of some of their numbers. UserError, IoError.
void show_arrays(const std::string& name, bool json);

/// Reads a file of arrays whole: hashes and numbers. Returns "3 arrays, 1,000 samples, 1.5 MiB". UserError
/// with the datasets and samples if one has NaN or infinities, or if the file is damaged; IoError.
std::string verify_arrays(const std::string& file);

} // namespace trivium
