#pragma once
// Merges products that read the same X (q, k and v; gate and up) into one. Local graph in and out.
#include "ir/graph.hpp"

namespace trivium {

/// Products X W1, X W2, … of one region, phase and stage become one product X [W1 W2 …]. The prologue packs
/// the weights as columns of one buffer, and their biases as well. X's gradient, a sum of products, becomes
/// one product. The results of the former products, and their gradients, are columns of one buffer
/// (split_columns, join_columns). The gradient of each weight stays a product, so nothing that has a name
/// changes.
///
/// Weights form a group if they outlive the microbatch, only products that are replaced read them in a
/// microbatch, and every op that reads or computes columns accepts them (ir/general/columns.hpp). Results
/// differ in rounding, because X's gradient is summed in another order.
Graph group_products(Graph graph);

} // namespace trivium
