#pragma once
// What partition() refuses.
#include "passes/sharding/moves.hpp"

#include <functional>

namespace trivium {

/// An axis over which `v` is annotated as partial but `layout` is not; "" if there is no such axis.
std::string lacking_partial(const Graph& graph, ValueId v, const Layout& layout);

/// The sums that the annotation of an op's result leaves open are open. Throws UserError.
void require_partial(const Graph& graph, ValueId v, const Layout& layout);

/// Throws UserError: the op cannot run where the buffers are that it updates. `layout_of`: of a buffer.
[[noreturn]] void refuse_buffers(const Graph& graph, const Op& op,
                                 const std::function<const Layout&(ValueId)>& layout_of);

} // namespace trivium
