#pragma once
// For dispatch: where the rows of experts are, from the op's operands.
#include "kernels/experts/rows.hpp"
#include "runtime/op_args.hpp"

namespace trivium {

/// The rows of operand 0; operand `counts` has their counts.
inline kernels::GroupedRows grouped_rows(const Args& a, int counts)
{
    const i64 ranks = a.number_or(Attr::groups, 1), outer = a.dim(0, 0) / std::max<i64>(ranks, 1);
    return {.outer = outer,
            .ranks = ranks,
            .first = a.number_or(Attr::begin, 0),
            .all_ranks = outer > 0 ? a.dim(counts, 0) / outer : 1,
            .rows = a.dim(0, 1),
            .experts = a.dim(counts, 1)};
}

} // namespace trivium
