#pragma once
// How one op may be sharded: which axes shard which factors, and what each rank then reads and makes.
#include "ir/op_table.hpp"
#include "passes/moves.hpp"
#include "passes/sharding/axis_parts.hpp"

#include <map>
#include <tuple>

namespace trivium {

/// The most ranks along which an op's boxes may differ from shards: each is computed, and named in an
/// exchange.
inline constexpr i64 max_box_ranks = 16'384;

/// The axes that shard each factor of an op, major first.
using Assignment = std::vector<PartList>;

/// The axis over which `v` is annotated as partial, but not in `layout`; "" if there is none.
std::string lacking_partial(const Graph& graph, ValueId v, const Layout& layout);

class OpSharding {
public:
    /// All must outlive it.
    OpSharding(const Graph& graph, const Op& op, const AxisParts& parts, std::string stage_axis);

    const FactorRule& rule() const { return rule_; }

    /// For each axis, the factors that it could shard: those that it shards in some operand or result; -1:
    /// none.
    const std::vector<std::pair<PartId, std::vector<int>>>& options() const { return options_; }
    /// The assignment of one factor (or -1) for each of options(), with the axes of a factor in the order of
    /// some operand or result, otherwise fastest first. Nothing if the op cannot run like that.
    std::optional<Assignment> assignment(const std::vector<int>& factors) const;
    /// All assignments, each way to choose from options(): at least one, unless a result is annotated as
    /// partial. Of an op with very many, those in which most axes shard what they shard in some tensor, and
    /// the one without axes.
    std::vector<Assignment> assignments() const;
    /// The same with each axis on any factor that may be sharded, also where it shards no tensor of the op
    /// yet. Just assignments() if these would be more than `most`.
    std::vector<Assignment> all_assignments(std::size_t most) const;
    /// The assignment by which operand 0 has these axes. Nothing if it cannot.
    std::optional<Assignment> assignment_like(const DimAxes& operand) const;

    DimAxes operand_axes(std::size_t i, const Assignment& assignment) const;
    Layout result_layout(std::size_t r, const Assignment& assignment) const;

    /// What the rank at `at` reads of operand i, and computes of result r.
    Box operand_box(std::size_t i, const Assignment& assignment, const Coordinates& at) const;
    Box result_box(std::size_t r, const Assignment& assignment, const Coordinates& at) const;
    /// Whether some rank's box of the operand or result differs from its shard by operand_axes() or
    /// result_layout(): a window that reads its neighbours' elements, factors that do not divide evenly.
    bool irregular_operand(std::size_t i, const Assignment& assignment) const;
    bool irregular_result(std::size_t r, const Assignment& assignment) const;
    /// operand_axes() without the dimensions in which they differ.
    DimAxes regular_axes(std::size_t i, const Assignment& assignment) const;

    IndexRange range_of(std::size_t factor, const Assignment& assignment, const Coordinates& at) const;
    /// The op of the rank at `at`, but for its operands and results.
    Op local_op(const Assignment& assignment, const Coordinates& at) const;

private:
    using Options = std::vector<std::pair<PartId, std::vector<int>>>;
    std::optional<Assignment> assignment(const Options& options, const std::vector<int>& factors) const;
    std::vector<Assignment> assignments(Options options) const;
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
    /// Whether a dimension of an extent is irregular, by the axes of the factors that it is made of.
    mutable std::map<std::tuple<int, i64, Assignment>, bool> irregular_;
    /// The axes of each factor by the sharding of each operand, then of each result.
    std::vector<Assignment> by_tensor_;
    Options options_;
};

} // namespace trivium
