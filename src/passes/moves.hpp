#pragma once
// From one sharding of a tensor to another: the moves, their cost, and their ops.
#include "ir/builder.hpp"

namespace trivium {

DimAxes dim_axes(const Sharding& sharding);

/// How a value is distributed over the ranks.
struct Layout {
    DimAxes axes;
    std::vector<Partial> partial;
    bool operator==(const Layout&) const = default;
};

/// Whether all of `some` are in `all`.
bool within(const std::vector<Partial>& some, const std::vector<Partial>& all);
/// Whether every rank has a shard of the same size.
bool divides_evenly(const Shape& whole, const DimAxes& axes, const Mesh& mesh);
/// The same as a closed sharding.
Sharding sharding_of(const Layout& layout);

/// slice: ranks keep a part of what they have. all_to_all: the last axes of some dimensions become the last
/// of others. permute: whole shards change ranks.
enum class MoveKind { all_gather, reduce_scatter, all_reduce, slice, all_to_all, permute };

struct Move {
    MoveKind kind{};
    std::string axis; ///< or, of an exchange, a joint axis
    std::size_t dim = 0;
    Combine combine = Combine::sum; ///< of a reduction
    DimAxes to{};                   ///< the sharding after the move; empty: `axis` at the end of `dim`
};

/// The moves from `from` to the combined shards `to` of a tensor of shape `whole` that send the fewest
/// elements; among equals, the fewest moves, slices first. Where no axis changes its place that is:
/// reductions, the fastest axis before the slower ones, as reduce-scatter if `to` has that axis next; then
/// gathers; then slices. Otherwise a shortest-path search over layouts, in which an axis may be divided.
/// After `few_layouts` it starts again with exchanges that bring all axes into place at once, which may move
/// more; beyond `search_limit` layouts it takes all sums, then one exchange, and also where what follows the
/// sums would send 5 % more than that: so without sums no rank gets over 1.05 times what it lacks. With
/// `layouts`, the search visits at most so many, and reduces the number by what it visited: for one of very
/// many prices.
std::vector<Move> moves_between(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                                int* layouts = nullptr);
inline constexpr int few_layouts = 200, search_limit = 20'000;

/// Elements that a rank receives, on average, for the moves; for a reduction, the elements that it sends.
double elements_moved(const std::vector<Move>& moves, Layout from, const Shape& whole, const Mesh& mesh);

/// Removes the sums that may wait from the moves to the shards `to`: those over axes that then shard nothing.
/// Returns the axes over which the tensor stays partial.
std::vector<Partial> put_off_sums(std::vector<Move>& moves, const DimAxes& to, const Mesh& mesh);

/// Throws UserError at `x` if so many ranks cannot exchange parts of it.
void require_few(const Graph& graph, ValueId x, i64 ranks);

/// The type of the shard that the rank at `at` holds of a tensor of type `whole`.
TensorType local_type(const TensorType& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at);

/// Appends the moves to the builder's graph. `x` is the local value; returns the local value after the moves.
ValueId emit_moves(Builder& builder, ValueId x, const std::vector<Move>& moves, const Layout& from,
                   const TensorType& whole, const Coordinates& at);

} // namespace trivium
