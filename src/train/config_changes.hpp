#pragma once
// What a run that resumes learns otherwise than the run of its checkpoint.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// One sentence for each change of the config, or of the data, since `before` was saved that changes what is
/// learned, and what follows from it; none for those of the grid, of paths and of the log. `now` is resolved;
/// `data` and `valid`: the stores' TokenStore::content(). UserError where the saved config cannot be read.
std::vector<std::string> changes_since(const RunState& before, const RunConfig& now, const std::string& data,
                                       const std::string& valid);

} // namespace trivium
