#pragma once
// Numbers of a graph's text that are written as expressions of named sizes: `f32[b,3,side/2]`.
#include "base/units.hpp"

#include <map>
#include <string>
#include <string_view>

namespace trivium {

/// Sizes by name.
using NamedSizes = std::map<std::string, i64, std::less<>>;

/// The number that `text` stands for, as the grammar writes it: integers and names of sizes with + - * /
/// between them, the latter two first, and ^ (a power) before them. With a real number in it ("1.0/b",
/// "b^0.5") it is real, otherwise an integer, and a division must leave no remainder. Text without a size's
/// name is returned as it is. Throws UserError at `place` for an unknown name and a result that does not fit.
std::string evaluated(std::string_view text, const NamedSizes& sizes, const std::string& place);

/// Whether an expression has the term `name`.
bool mentions(std::string_view expression, std::string_view name);

/// Each of several expressions, separated by blanks.
std::string evaluated_list(std::string_view text, const NamedSizes& sizes, const std::string& place);

} // namespace trivium
