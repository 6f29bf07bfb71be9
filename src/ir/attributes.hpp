#pragma once
// Attributes of ops and of first contents: each name has one form, and each row of the op table says which
// names an op takes.
#include "ir/op_table.hpp"

namespace trivium {

/// Throws UserError where `op` has an attribute that its row does not name, lacks one, has one twice, or has
/// one of another form. `rule` is the op's. \pre types of operands and results are within the limits
void check_attributes(const Graph& graph, const Op& op, const FactorRule& rule);

/// The same for the first content of `value`.
void check_init(const Graph& graph, const Value& value);

} // namespace trivium
