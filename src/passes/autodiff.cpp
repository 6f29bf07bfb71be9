#include "passes/autodiff.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "passes/zero.hpp"

#include <map>

namespace trivium {

namespace {

/// State of one differentiation: the gradients so far, by value.
class Reverse {
public:
    Reverse(Graph& graph, const AutodiffConfig& config)
        : graph_(graph), config_(config), builder_(graph), forward_ops_(graph.ops.size())
    {
        find_leaves();
        needs_ = leaf_ok_;
        for (std::size_t i = 0; i < forward_ops_; ++i) {
            const Op& op = graph_.ops[i];
            if (op.region != Region::microbatch)
                continue;
            for (const ValueId v : op.operands)
                if (needs_[v.index()])
                    for (const ValueId r : op.results)
                        needs_[r.index()] = true;
        }
        gradients_.resize(graph_.values.size());
    }

    void run(ValueId loss)
    {
        builder_.where = {Region::microbatch, Phase::backward, graph_[graph_[loss].producer].block, "loss"};
        add(loss, builder_.filled_like(loss, 1));
        for (std::size_t i = forward_ops_; i-- > 0;)
            if (graph_.ops[i].region == Region::microbatch)
                differentiate(graph_.ops[i]); // a copy, because the vector of ops grows
        close_carries();
    }

private:
    class OpTape : public Tape {
    public:
        OpTape(Reverse& reverse, const Op& op) : reverse_(reverse), op_(op) {}
        const Op& op() const override { return op_; }
        Builder& build() override { return reverse_.builder_; }
        ValueId grad(int i) const override { return reverse_.gradients_[result(i).index()]; }
        bool requires_grad(int i) const override { return reverse_.needs_[operand(i).index()]; }
        void accumulate_grad(int i, ValueId gradient) override { reverse_.add(operand(i), gradient); }

    private:
        Reverse& reverse_;
        const Op& op_;
    };

    /// A leaf is a parameter, a value that the prologue computes from one (its cast to the compute type), or
    /// either gathered.
    void find_leaves()
    {
        leaf_ok_.assign(graph_.values.size(), false);
        parameter_.assign(graph_.values.size(), ValueId{});
        for (const ValueId p : graph_.with_role(Role::parameter)) {
            leaf_ok_[p.index()] = true;
            parameter_[p.index()] = p;
        }
        for (const Op& op : graph_.ops)
            if ((op.region == Region::prologue || info(op).placement) && op.operands.size() == 1 &&
                parameter_[op.operands[0].index()]) {
                leaf_ok_[op.results[0].index()] = true;
                parameter_[op.results[0].index()] = parameter_[op.operands[0].index()];
            }
        carries_.resize(graph_.values.size());
    }

    void differentiate(Op op)
    {
        first_own_ = graph_.values.size();
        bool reached = false;
        for (const ValueId r : op.results)
            reached = reached || gradients_[r.index()];
        bool needed = false;
        for (const ValueId v : op.operands)
            needed = needed || needs_[v.index()];
        if (!reached || !needed)
            return;
        if (!info(op).gradient)
            throw UserError({str("graph '", graph_.name, "', ", op.scope),
                             str("the loss depends on a parameter through '", info(op).name, "'"),
                             "this op has no gradient", "use only differentiable ops"});
        builder_.where.block = op.block;
        builder_.where.scope = op.scope;
        OpTape tape(*this, op);
        info(op).gradient(tape);
    }

    void add(ValueId v, ValueId contribution)
    {
        const ValueId parameter = v.index() < parameter_.size() ? parameter_[v.index()] : ValueId{};
        if (parameter)
            return accumulate(parameter, v, contribution);
        ValueId& gradient = gradients_[v.index()];
        gradient = gradient ? builder_.sum_of(gradient, contribution) : contribution;
        gradients_.resize(graph_.values.size());
    }

    /// `leaf` is the parameter as the microbatches read it; its accumulator has the same sharding.
    void accumulate(ValueId parameter, ValueId leaf, ValueId contribution)
    {
        const int block = builder_.where.block;
        Accumulators& mine = carries_[parameter.index()];
        Carry& carry = mine[block];
        if (!carry.in) {
            const std::string name =
                mine.size() == 1 ? grad_name(parameter) : str(grad_name(parameter), ".block", block);
            carry.in = builder_.value(
                name + ".before",
                {config_.accumulate_bf16 ? DType::bf16 : accumulator_of(graph_[leaf].type.dtype),
                 graph_[parameter].type.shape},
                Role::carry);
            Sharding sharding = graph_[leaf].sharding;
            if (!config_.reduce_axis.empty())
                sharding =
                    shard_further(sharding, graph_[parameter].type.shape, graph_.mesh, config_.reduce_axis);
            for (DimSharding& dim : sharding.dims)
                dim.open = false;
            graph_[carry.in].sharding = std::move(sharding);
        }
        // A rule may pass on a result's gradient, which other ops read too; values that it created are its
        // own.
        bool own = contribution.index() >= first_own_;
        if (const Sharding sharding = graph_[carry.in].sharding; shards(sharding, config_.reduce_axis)) {
            if (config_.reduce_bf16)
                contribution = builder_.cast_to(contribution, DType::bf16);
            else if (own)
                builder_.widen(contribution);
            contribution = builder_.reshard_to(contribution, sharding);
            own = false;
        }
        carry.out = builder_.add_into(carry.out ? carry.out : carry.in, contribution, own);
        gradients_.resize(graph_.values.size());
    }

    void close_carries()
    {
        for (const ValueId p : graph_.with_role(Role::parameter)) {
            if (p.index() >= carries_.size() || carries_[p.index()].empty())
                continue;
            const Accumulators& mine = carries_[p.index()];
            ValueId sum;
            for (const auto& [block, carry] : mine) {
                graph_.carries.push_back(carry);
                if (mine.size() > 1)
                    graph_[carry.out].name = str(grad_name(p), ".block", block);
                builder_.where = {Region::epilogue, Phase::update, block,
                                  graph_[graph_[carry.out].producer].scope};
                // Each addend is reduced over ranks separately, so that the sum does not depend on which
                // stage adds the next one.
                const ValueId part =
                    mine.size() > 1 ? builder_.reshard_to(carry.out, {}, str(grad_name(p), ".part", block))
                                    : carry.out;
                builder_.where.block = mine.begin()->first;
                sum = sum ? builder_.sum_of(sum, part) : part;
            }
            graph_[sum].name = grad_name(p);
        }
    }

    std::string grad_name(ValueId parameter) const { return value_name::gradient + graph_[parameter].name; }

    /// By block: a parameter that several blocks read (a tied one) has one accumulator per block. They are
    /// added once per step, lowest block first, so that the sums do not depend on which blocks share a
    /// pipeline stage.
    using Accumulators = std::map<int, Carry>;

    Graph& graph_;
    const AutodiffConfig& config_;
    Builder builder_;
    std::size_t forward_ops_;
    std::size_t first_own_ = 0; ///< values from this one on were created for the gradient of the current op
    std::vector<bool> leaf_ok_, needs_;
    std::vector<ValueId> parameter_;    ///< by value: the parameter of which it is a copy
    std::vector<ValueId> gradients_;    ///< by value
    std::vector<Accumulators> carries_; ///< by parameter
};

} // namespace

Graph autodiff(Graph graph, const AutodiffConfig& config)
{
    const ValueId loss = graph.find(config.loss);
    if (!loss || !graph[loss].producer)
        throw UserError({str("graph '", graph.name, "'"), str("has no value '", config.loss, "'"), "",
                         "name the value of the loss"});
    Reverse(graph, config).run(loss);
    sort_regions(graph);
    return graph;
}

} // namespace trivium
