#pragma once
// How a resumed run differs from the run of its checkpoint.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// One sentence for each change of the config or the data, since `before` was saved, that affects training,
/// with its effect; none for changes of the grid, of paths and of the log. `now` is resolved;
/// `data` and `valid`: the stores' TokenStore::content(). UserError where the saved config cannot be read.
std::vector<std::string> changes_since(const RunState& before, const RunConfig& now, const std::string& data,
                                       const std::string& valid);

} // namespace trivium
