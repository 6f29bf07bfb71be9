#pragma once
// Moves (collectives and slices) from one sharding of a tensor to another, their cost, and their ops.
#include "ir/builder.hpp"
#include "ir/shards.hpp"

namespace trivium {

/// How a value is distributed over the ranks.
struct Layout {
    DimAxes axes;
    std::vector<Partial> partial;
    bool operator==(const Layout&) const = default;
    /// Leaves these sums open, too.
    void add(const std::vector<Partial>& more)
    {
        for (const Partial& p : more)
            if (std::ranges::find(partial, p) == partial.end())
                partial.push_back(p);
    }
};

/// Whether all of `some` are in `all`.
bool within(const std::vector<Partial>& some, const std::vector<Partial>& all);
/// Whether every rank has a shard of the same size.
bool divides_evenly(const Shape& whole, const DimAxes& axes, const Mesh& mesh);
/// Bytes of the largest shard of a tensor of this type.
Bytes largest_shard(const TensorType& type, const DimAxes& axes, const Mesh& mesh);
/// Whether the rank at `at` contributes its part of a value to a sum over all ranks: of ranks with the same
/// part, the first one. Ranks of `stage_axis` have different values.
bool is_contributor(const Layout& layout, const Mesh& mesh, const Coordinates& at,
                    const std::string& stage_axis);
/// `x`, partial over `own`, as an addend of a value that is partial over `all`: it counts on one rank along
/// the other axes, where others have zero. The same ops on all ranks, so that collectives keep their order.
ValueId counted_once(Builder& builder, ValueId x, const std::vector<Partial>& all,
                     const std::vector<Partial>& own, const Coordinates& at);
/// The names of all axes, in the order of dimensions.
std::vector<std::string> names_in(const DimAxes& axes);
/// The layout as a sharding whose dimensions are closed.
Sharding sharding_of(const Layout& layout);

/// slice: each rank keeps a range of its shard. all_to_all: the last axes of some dimensions become the last
/// axes of others. permute: shards change ranks. all_to_all and permute are exchanges.
enum class MoveKind { all_gather, reduce_scatter, all_reduce, slice, all_to_all, permute };

struct Move {
    MoveKind kind{};
    std::string axis; ///< of an exchange, possibly a joint axis
    std::size_t dim = 0;
    Combine combine = Combine::sum; ///< of a reduction
    DimAxes to{};                   ///< the sharding after the move; empty: adds or removes `axis` at the
                                    ///< end of `dim`
};

/// The moves from `from` to complete shards `to` of a tensor of shape `whole` that send the fewest elements;
/// among equals, the fewest moves, slices first.
///
/// If no axis changes its place: slices over axes along which the tensor is not partial; reductions, the
/// fastest axis first, as reduce-scatter if `to` has that axis next, of an axis of which `to` names parts one
/// for each; the other slices; gathers. Otherwise an
/// A* search over layouts, in which an axis may be divided into sub-axes. After `few_layouts` layouts it
/// starts again with exchanges that bring all axes into place at once and may move more. After `search_limit`
/// layouts the moves are all reductions, then one exchange. One exchange also replaces the moves after the
/// last reduction if they send over 1.05 times as much: so without reductions a rank receives, on average, at
/// most 1.05 times what it lacks. With `layouts`, the search visits at most `*layouts` and subtracts those
/// that it visited: many searches share a budget.
std::vector<Move> moves_between(const Layout& from, const DimAxes& to, const Shape& whole, const Mesh& mesh,
                                int* layouts = nullptr);
inline constexpr int few_layouts = 200, search_limit = 20'000;

/// Elements that a rank receives in the moves, on average (of exchanges on a large mesh: over a sample of
/// ranks); for reductions, the elements that it sends.
double elements_moved(const std::vector<Move>& moves, Layout from, const Shape& whole, const Mesh& mesh);

/// Removes from `moves`, which lead to the shards `to`, the all-reduces that sum over axes that shard nothing
/// in `to`. Returns the axes over which the tensor then stays partial.
std::vector<Partial> put_off_sums(std::vector<Move>& moves, const DimAxes& to, const Mesh& mesh);

/// Throws UserError at `x` if `ranks` are too many for one exchange, whose op lists the boxes of each rank.
void require_few(const Graph& graph, ValueId x, i64 ranks);

/// The type of the shard that the rank at `at` holds of a tensor of type `whole`.
TensorType local_type(const TensorType& whole, const DimAxes& axes, const Mesh& mesh, const Coordinates& at);

/// Appends the moves as ops of the rank at `at`. `x` is its local value, of a tensor of type `whole` in the
/// layout `from`; returns its local value after the moves.
ValueId emit_moves(Builder& builder, ValueId x, const std::vector<Move>& moves, const Layout& from,
                   const TensorType& whole, const Coordinates& at);

} // namespace trivium
