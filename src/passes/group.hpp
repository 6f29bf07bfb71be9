#pragma once
// Joins the weights of products that read the same X (q, k and v; gate and up) into one. Local graph in and
// out.
#include "ir/graph.hpp"

namespace trivium {

/// Products X W1, X W2, … of one region, phase and stage become one of X and the weights' columns, which the
/// prologue packs into one buffer, and so do their biases. X's gradient, a sum of products, becomes one
/// product. Parts of results and gradients are columns of the buffer of the whole (split_columns,
/// join_columns); the gradients of the weights stay products of their own. So nothing that has a name
/// changes.
///
/// Weights form a group if a step keeps their copies, only products that are replaced read them in a
/// microbatch, and every reader and producer of a part accepts columns. Results differ in rounding: the sum
/// of X's gradient has another order.
Graph group_products(Graph graph);

} // namespace trivium
