#pragma once
// Differences between a resumed run and the run of its checkpoint.
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// One sentence, with its effect, per change of the config or the data that affects training since `before`
/// was saved. Changes of the grid, of paths and of the log are left out. `now` is resolved; `data` and
/// `valid`: TokenStore::content() of the stores. Throws UserError if the saved config cannot be read.
std::vector<std::string> changes_since(const RunState& before, const RunConfig& now, const std::string& data,
                                       const std::string& valid);

} // namespace trivium
