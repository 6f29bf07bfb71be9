#pragma once
// Builds a Graph op by op; types are inferred, names are made unique.
#include "ir/graph.hpp"
#include "ir/op_table.hpp"

namespace trivium {

class Builder {
public:
    /// Appends to `graph`, which must outlive the builder.
    explicit Builder(Graph& graph) : graph_(graph) {}

    /// Where the next ops go and what they belong to.
    struct Where {
        Region region = Region::microbatch;
        Phase phase = Phase::forward;
        int block = 0;
        std::string scope;
    };
    Where where;

    Graph& graph() { return graph_; }

    /// A value that no op computes. Its lifetime follows from the role.
    ValueId value(const std::string& name, TensorType type, Role role, Init init = {});

    /// Appends an op and returns its results. `names` are hints for the results' names.
    std::vector<ValueId> op(OpKind kind, std::vector<ValueId> operands, Attributes attrs = {},
                            const std::vector<std::string>& names = {});
    /// The same for an op with one result.
    ValueId op1(OpKind kind, std::vector<ValueId> operands, Attributes attrs = {},
                const std::string& name = "");

    // The structural ops, which passes make without knowing any other op.
    ValueId sum_of(ValueId a, ValueId b); ///< a + b, same type
    ValueId cast_to(ValueId x, DType dtype, const std::string& name = "");
    ValueId filled_like(ValueId x, double value); ///< x's shape, filled
    ValueId squares_of(ValueId x);                ///< f64[]: sum of squares
    /// Adds `x` into the accumulator `into` and returns its next content. Where the op that computes `x` can
    /// add by itself and nothing else reads `x` (`only_reader`), that op does it and no other op is made.
    ValueId add_into(ValueId into, ValueId x, bool only_reader = true);
    /// x, sharded as `sharding` says. The pass `partition` replaces it by the communication that this takes.
    ValueId reshard_to(ValueId x, Sharding sharding, const std::string& name = "");
    /// f64[n] of scalars.
    ValueId stack_of(const std::vector<ValueId>& scalars, const std::string& name);
    /// f64[2]: norm of the mean gradient, and the factor that clips and averages. `totals` f64[2 + n]: sum of
    /// losses, tokens, then the sum of squares of each of n gradients.
    ValueId norm_of(ValueId totals, double clip);
    /// The optimizer's update of one parameter, in place; results in the order of `states`.
    std::vector<ValueId> update(const std::vector<ValueId>& states, ValueId gradient, ValueId factor,
                                ValueId hyper, double weight_decay);

    // Communication. `axis` is a mesh axis, or world_axis.
    /// The value that stage `from` sends on that channel.
    ValueId receive(const std::string& axis, i64 from, i64 channel, TensorType type, const std::string& name);
    void send(const std::string& axis, i64 to, i64 channel, ValueId x);
    /// Concatenates the shards of dimension `dim`, `extent` in all.
    ValueId all_gather(ValueId x, const std::string& axis, std::size_t dim, i64 extent);
    /// Sums, and keeps a shard of dimension `dim`, of `extent`.
    ValueId reduce_scatter(ValueId x, const std::string& axis, std::size_t dim, i64 extent);
    ValueId all_reduce(ValueId x, const std::string& axis, Combine combine);
    /// Rows [part.begin, part.begin + part.size) of dimension `dim`.
    ValueId slice_of(ValueId x, std::size_t dim, Stretch part);
    /// One collective in place of several of one kind, axis and element type; results in their order.
    /// \pre none of them reads another's result
    Op merged(const std::vector<Op>& collectives) const;

private:
    ValueId collective(OpKind kind, ValueId x, std::size_t dim, i64 extent, Attributes attrs,
                       const char* suffix);
    std::string unique(const std::string& hint);

    Graph& graph_;
    std::vector<std::pair<std::string, int>> used_; // hint and how often, sorted by hint
    std::size_t seen_ = 0;                          // values already in used_
};

} // namespace trivium
