#pragma once
// Ops that read blocks of all ranks of a group, and the collectives around them. For passes that replace
// these.
#include "ir/builder.hpp"

#include <functional>
#include <map>

namespace trivium {

/// An op whose row says how it is computed in steps (OpInfo::blocks) and which reads gathers along that
/// factor.
struct GatheredOp {
    struct Gathered {
        std::size_t operand = 0, dim = 0;
        ValueId own; ///< the rank's block
    };
    struct Summed {
        std::size_t result = 0, dim = 0;
        std::vector<std::size_t> reductions; ///< ops: sums over other axes, before the one over `axis`
        ValueId own;                         ///< the rank's block of the sum
    };
    std::string axis;
    i64 extent = 0, ranks = 0, rank = 0; ///< of the factor; of the group along `axis`, and in it
    std::vector<Gathered> gathered;
    std::vector<Summed> summed;                   ///< results with the factor, which ranks reduce-scatter
    std::vector<std::size_t> gathers, reductions; ///< ops

    IndexRange block(i64 of) const { return part_of(extent, ranks, of); }
    bool sums(std::size_t result) const
    {
        return std::ranges::find(summed, result, &Summed::result) != summed.end();
    }
};

/// By op: those of a local graph that ranks of the group divide alike.
std::map<std::size_t, GatheredOp> gathered_ops(const Graph& graph);

/// The graph without `ops`, the reductions of their results and the gathers that only they read. In the place
/// of each op is what `make` appends. It calls let_be() for each result that is not summed, and for each
/// block of a sum. Ops that nothing reads any more remain.
Graph without_gathers(const Graph& graph, const std::map<std::size_t, GatheredOp>& ops,
                      const std::function<void(Builder&, std::size_t op, const GatheredOp&)>& make);

/// Lets the value `v`, made by the ops from `begin` on, be `as` instead.
void let_be(Graph& graph, std::size_t begin, ValueId v, ValueId as);

} // namespace trivium
