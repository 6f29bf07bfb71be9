#pragma once
// How one op may be sharded: which axes shard which factors, and what each rank then reads and makes.
#include "ir/ops/op_table.hpp"
#include "passes/sharding/axis_parts.hpp"
#include "passes/sharding/moves.hpp"

#include <map>
#include <tuple>

namespace trivium {

/// Most ranks along which an op's boxes may differ from shards: an exchange lists the boxes of each.
inline constexpr i64 max_box_ranks = 16'384;

/// By factor of an op's rule: the axes that shard it, major first.
using Assignment = std::vector<PartList>;

/// Not thread-safe, even where const: it caches.
class OpSharding {
public:
    /// `graph`, `op` and `parts` must outlive this. No factor is sharded over `stage_axis`.
    OpSharding(const Graph& graph, const Op& op, const AxisParts& parts, std::string stage_axis);

    const FactorRule& rule() const { return rule_; }

    /// The assignments in which each axis shards no factor, one that it shards in some operand or result, or,
    /// if it shards a replicated factor there, another one: at least one, unless a result is annotated as
    /// partial. If they are very many, those in which most axes shard a factor that they shard in some
    /// tensor, and the one without axes; already
    /// if they are many, parts of an axis stay together where all tensors of the op have them together.
    std::vector<Assignment> assignments() const { return assignments(options_); }
    /// As assignments(), but each axis may shard any factor that may be sharded. assignments() if these ways
    /// would be more than `most`.
    std::vector<Assignment> all_assignments(std::size_t most) const;
    /// The assignment with operand_axes(i) == operand. Nothing if the op cannot run with it.
    std::optional<Assignment> assignment_like(std::size_t i, const DimAxes& operand) const;

    DimAxes operand_axes(std::size_t i, const Assignment& assignment) const;
    Layout result_layout(std::size_t r, const Assignment& assignment) const;

    /// The box of operand i that the rank at `at` reads, and the box of result r that it computes.
    Box operand_box(std::size_t i, const Assignment& assignment, const Coordinates& at) const;
    Box result_box(std::size_t r, const Assignment& assignment, const Coordinates& at) const;
    /// Whether some rank's box of the operand or result differs from its shard by operand_axes() or
    /// result_layout(): a window that reads elements of neighbours, factors that do not divide evenly.
    bool irregular_operand(std::size_t i, const Assignment& assignment) const;
    bool irregular_result(std::size_t r, const Assignment& assignment) const;
    /// operand_axes(), without axes in the irregular dimensions.
    DimAxes regular_axes(std::size_t i, const Assignment& assignment) const;
    /// operand_axes(), but a dimension that no axis shards, and of which the op reads a part, keeps the axes
    /// that it has in `from`.
    DimAxes axes_before_exchange(std::size_t i, const Assignment& assignment, const DimAxes& from) const;

    IndexRange range_of(std::size_t factor, const Assignment& assignment, const Coordinates& at) const;
    /// The op of the rank at `at`, with the operands and results of the op of all ranks.
    Op local_op(const Assignment& assignment, const Coordinates& at) const;

private:
    /// For each axis part, the factors that it could shard: -1 (none), and others.
    using Options = std::vector<std::pair<PartId, std::vector<int>>>;
    /// The assignment that follows from a factor (or -1) for each option, with the axes of a factor in the
    /// order of some operand or result, otherwise fastest first. Nothing if the op cannot run with it.
    std::optional<Assignment> assignment(const Options& options, const std::vector<int>& factors) const;
    std::vector<Assignment> assignments(Options options) const;
    /// Numbers of neighbouring options that are for parts of one axis which no tensor has apart: what one of
    /// them shards, the others may as well.
    std::vector<std::size_t> bundles(const Options& options) const;
    /// The axes that shard an entry of a FactorList: of its factors, one after another.
    PartList parts_for(int dim, const Assignment& assignment) const;
    DimAxes axes_for(const FactorList& dims, const Assignment& assignment) const;
    IndexRange dim_range(int dim, i64 extent, const Assignment& assignment, const Coordinates& at) const;
    Box box(const FactorList& dims, const Shape& whole, const Assignment& assignment,
            const Coordinates& at) const;
    bool irregular(int dim, i64 extent, const Assignment& assignment) const;
    bool possible(const Assignment& assignment) const;
    bool leaves_partial(const Assignment& assignment) const;
    void order(Assignment& assignment) const;

    const Graph& g_;
    const Op& op_;
    const AxisParts& parts_;
    std::string stage_axis_;
    FactorRule rule_;
    bool composed_ = false; ///< some dimension is made of factors
    bool pinned_ = false;   ///< some factor has given axes
    /// By dimension: a window that reads a part of it even if no axis shards the window, from a sharded
    /// operand.
    std::vector<bool> read_in_part_;
    /// irregular() by dimension, extent, and the axes of the dimension's factors.
    mutable std::map<std::tuple<int, i64, Assignment>, bool> irregular_;
    /// By operand, then by result: the axes of each factor according to the tensor's sharding.
    std::vector<Assignment> by_tensor_;
    Options options_;
};

} // namespace trivium
