#pragma once
// Which keys the queries of an attention see, apart from documents. Ranges are indices in the op's order of
// tokens (Attributes::order_of_tokens).
#include "ir/ops/op_table.hpp"

namespace trivium {

/// Pairs of a query and a key that it sees, as if the sequence were one document.
Flops seen_pairs(const Op& op, const IndexRange& queries, const IndexRange& keys);

/// The smallest range of `keys` that has all that some query sees, whatever documents there are; size 0: none
/// does.
IndexRange seen_keys(const Graph& graph, const Op& op, const IndexRange& queries, const IndexRange& keys);

} // namespace trivium
