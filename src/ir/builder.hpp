#pragma once
// Builds a Graph op by op; types are inferred, names are made unique.
#include "ir/graph.hpp"

#include "ir/ops/op_table.hpp"
#include <unordered_map>

namespace trivium {

/// What every optimizer's update of a parameter reads, in the order of the operands.
struct UpdateInputs {
    ValueId gradient, factor, hyper;
};

class Builder {
public:
    /// Appends to `graph`, which must outlive the builder.
    explicit Builder(Graph& graph) : graph_(graph) {}

    /// What the next ops have.
    struct Where {
        Region region = Region::microbatch;
        Phase phase = Phase::forward;
        int block = 0;
        std::string scope;
        bool stays_partial = false; ///< Op::stays_partial
    };
    Where where;
    static Where where_of(const Op& op) { return {op.region, op.phase, op.block, op.scope}; }

    Graph& graph() { return graph_; }
    /// No value made from now on gets this name.
    void reserve(const std::string& name) { used_.try_emplace(name, 0); }

    /// A value that no op computes. Its lifetime follows from its role. \pre no value is called `name`
    ValueId value(const std::string& name, TensorType type, Role role, Init init = {});

    /// Appends an op and returns its results. `names` are hints for the results' names. Throws as infer().
    std::vector<ValueId> op(OpKind kind, std::vector<ValueId> operands, Attributes attrs = {},
                            const std::vector<std::string>& names = {});
    /// Appends an op with one result. Throws InternalError if it has several.
    ValueId op1(OpKind kind, std::vector<ValueId> operands, Attributes attrs = {},
                const std::string& name = "");

    // Structural ops: the only ops that passes create by name.
    ValueId sum_of(ValueId a, ValueId b); ///< a + b, same type
    /// x as `dtype`. Without `name`: x itself if it has that type, or, if x is a cast from `dtype` to its
    /// accumulator type, the operand of that cast.
    ValueId cast_to(ValueId x, DType dtype, const std::string& name = "");
    /// As cast_to(), but a partial x is cast before it is reduced, and reduced in `dtype`.
    ValueId cast_to_send(ValueId x, DType dtype);
    ValueId filled_like(ValueId x, double value);         ///< x's shape, filled
    ValueId scaled_by(ValueId x, double factor);          ///< x times a number
    ValueId squares_of(ValueId x);                        ///< f64[]: sum of squares
    ValueId squares_of_change(ValueId x, ValueId before); ///< f64[]: that of x - before
    /// Adds `x` into the accumulator `into` and returns its next content. If nothing else reads `x`
    /// (`only_reader`), and the op that computes it was appended last and can accumulate in the type of
    /// `into`, that op accumulates and no further op is created.
    ValueId add_into(ValueId into, ValueId x, bool only_reader = true);
    /// Changes the type of `x` to its accumulator type, if the op that computes `x` was appended last and can
    /// accumulate. \pre nothing reads `x`
    void widen(ValueId x);
    /// x with the given sharding. The pass `partition` replaces it by the required communication.
    ValueId reshard_to(ValueId x, Sharding sharding, const std::string& name = "");
    ValueId copy_to(ValueId x, Space space); ///< "NAME.host", or "NAME.device"
    /// f64[n] of scalars.
    ValueId stack_of(const std::vector<ValueId>& scalars, const std::string& name);
    /// f64[2]: norm of the mean gradient, and the factor that clips and averages. `totals` f64[2 + n]: sum of
    /// losses, tokens, then the sum of squares of each of n = `count` gradients, then others.
    ValueId norm_of(ValueId totals, double clip, i64 count);
    /// The states that the op called `update` keeps of a parameter (OpInfo::states): of its type, 0 at the
    /// start.
    std::vector<ValueId> states_of(ValueId parameter, std::string_view update, const Sharding& sharding);
    /// The in-place update of a parameter and its `states` by the op that keeps them, with carries.
    void update(ValueId parameter, const std::vector<ValueId>& states, const UpdateInputs& inputs,
                double weight_decay);

    // Ops of Muon.
    /// Updates the momentum `state` in place, with a carry; returns the Nesterov direction.
    ValueId momentum_of(ValueId state, ValueId gradient, ValueId factor, double momentum);
    ValueId squares_of_each(ValueId stack, const Rule& rule); ///< "x i j -> x": f64[x], of each matrix
    /// x / sqrt(squares); with a rule such as "x i j, x -> x i j" each matrix by its own.
    ValueId normalised(ValueId x, ValueId squares, std::optional<Rule> rule = {});
    ValueId product_of(ValueId a, ValueId b, const Rule& rule);
    ValueId weighted(double alpha, ValueId a, double beta, ValueId b); ///< alpha a + beta b
    /// In place, with a carry: p -= lr (weight_decay p + scale direction), with lr from `hyper`.
    ValueId descend(ValueId parameter, ValueId direction, ValueId hyper, double weight_decay, double scale);

    /// In place, with a carry: p += rate sign(mean(counts) - counts), once `norm` is known.
    ValueId balance(ValueId parameter, ValueId counts, ValueId norm, double rate);
    /// In place, with a carry: p = decay p + (1 - decay) sum / count, once `norm` is known.
    ValueId average(ValueId parameter, ValueId sum, ValueId norm, ValueId count, double decay);

    /// Adds the state `ema.P` of a parameter P, and its update in place, with a carry, once `next`, the
    /// parameter's next content, is known.
    void average_weights(ValueId parameter, ValueId next, const Sharding& sharding, double decay);

    /// x, called `name`, summed over microbatches in its type. `sharding`: of the sum.
    ValueId total(ValueId x, const std::string& name, const Sharding& sharding = {});
    /// The output `name`, f64[]: the op `kind` of x, summed over microbatches.
    ValueId output_sum(OpKind kind, ValueId x, const std::string& name);

    /// Copies `x` into the buffer of `into`, a value of lifetime run, with a carry; returns its next content.
    ValueId overwrite(ValueId into, ValueId x);

    // Communication. `axis` is a mesh axis, a sub-axis, a joint axis, or world_axis; of messages, a mesh
    // axis.
    /// The value that the rank at coordinate `from` of `axis` sends with this tag.
    ValueId receive(const std::string& axis, i64 from, i64 tag, TensorType type, const std::string& name);
    /// `reader`: Attributes::reader.
    void send(const std::string& axis, i64 to, i64 tag, ValueId x, std::optional<i64> reader = {});
    /// Concatenates the shards of dimension `dim`, whose total extent is `extent`.
    ValueId all_gather(ValueId x, const std::string& axis, std::size_t dim, i64 extent);
    /// Reduces, and keeps a shard of dimension `dim`, whose extent is then `extent`.
    ValueId reduce_scatter(ValueId x, const std::string& axis, std::size_t dim, i64 extent,
                           Combine combine = Combine::sum);
    ValueId all_reduce(ValueId x, const std::string& axis, Combine combine);
    /// They differ in reports only. permute: the needed boxes are the owned ones in another order. halo:
    /// ranks need elements of neighbours.
    enum class Exchange { all_to_all, permute, halo };
    /// Exchanges boxes (exchange.hpp) along `axis`: x is the box that this rank owns, the result the box, of
    /// `shape`, that it needs.
    ValueId exchange(Exchange kind, ValueId x, const std::string& axis, const std::vector<Box>& owned,
                     const std::vector<Box>& needed, const Shape& shape);
    /// The slice of `x` that the box `part` covers.
    ValueId part_at(ValueId x, const Box& part);
    /// x from `before` on in a tensor of `shape` that is 0 elsewhere; x itself if it has that shape.
    ValueId padded(ValueId x, const Shape& before, const Shape& shape);
    /// The slice [part.begin, part.begin + part.size) of dimension `dim`.
    ValueId slice_of(ValueId x, std::size_t dim, IndexRange part);
    /// Consecutive slices of dimension `dim` with these extents, which add up to its own.
    std::vector<ValueId> divided(ValueId x, std::size_t dim, const std::vector<i64>& extents);
    /// Concatenates `parts` along dimension `dim`.
    ValueId joined(const std::vector<ValueId>& parts, std::size_t dim, const std::string& name = "");
    /// One collective, not appended, that replaces several of the same kind, axis and element type, with one
    /// operand each; results in their order. \pre none reads another's result
    Op merged(const std::vector<Op>& collectives) const;

private:
    ValueId collective(OpKind kind, ValueId x, std::size_t dim, i64 extent, Attributes attrs,
                       const char* suffix);
    std::string unique(const std::string& hint);

    Graph& graph_;
    std::unordered_map<std::string, int> used_; // hint -> number of uses
    std::size_t seen_ = 0;                      // values already in used_
};

} // namespace trivium
