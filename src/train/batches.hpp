#pragma once
// Token windows for the inputs of a program: tokens, targets, positions.
#include "io/tokens/token_store.hpp"
#include "ir/graph.hpp"

#include <map>
#include <string>

namespace trivium {

/// Which rows of each input a rank is fed, by name.
std::map<std::string, Box> input_boxes(const Graph& graph);

/// Writes one window of `store` into row `row` of a value's buffer: tokens, targets or positions, by its
/// name. A window of -1 is padding: its targets are ignored.
void fill_row(const Value& value, i64 row, const TokenStore& store, i64 window, void* destination);

} // namespace trivium
