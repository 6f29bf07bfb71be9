#include "passes/autodiff.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/names.hpp"
#include "passes/memory/zero.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace trivium {

namespace {

/// State of one differentiation: the gradients so far, by value.
class Reverse {
public:
    Reverse(Graph& graph, const AutodiffConfig& config)
        : graph_(graph), config_(config), builder_(graph), forward_ops_(graph.ops.size())
    {
        if (!config_.reduce_axis.empty())
            reduced_.emplace(graph, config_.reduce_axis);
        find_leaves();
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

    /// A parameter, a value that the prologue computes from one (its cast to the compute type), a part of
    /// either, or any of these gathered.
    struct Leaf {
        ValueId parameter;
        OpId division; ///< the op of which it is a result, or a gathered result; invalid: it is whole
        int part = 0;  ///< which result
    };

    void find_leaves()
    {
        needs_.assign(graph_.values.size(), false);
        leaves_.assign(graph_.values.size(), Leaf{});
        for (const ValueId p : graph_.with_role(Role::parameter)) {
            if (!row_of(graph_[p].update.kind).by_autodiff)
                continue;
            needs_[p.index()] = true;
            leaves_[p.index()].parameter = p;
        }
        for (std::size_t i = 0; i < graph_.ops.size(); ++i) {
            const Op& op = graph_.ops[i];
            if ((op.region != Region::prologue && !info(op).placement) || op.operands.size() != 1 ||
                !leaves_[op.operands[0].index()].parameter)
                continue;
            for (std::size_t r = 0; r < op.results.size(); ++r) {
                Leaf& leaf = leaves_[op.results[r].index()];
                leaf = leaves_[op.operands[0].index()];
                needs_[op.results[r].index()] = true;
                if (info(op).parts) {
                    TRV_CHECK(!leaf.division, "%", graph_[op.results[r]].name, " is a part of a part");
                    leaf.division = OpId(i);
                    leaf.part = static_cast<int>(r);
                }
            }
        }
        accumulators_.resize(graph_.values.size());
    }

    void differentiate(Op op)
    {
        first_own_ = graph_.values.size();
        const auto reached = [&](ValueId v) { return gradients_[v.index()].valid(); };
        const auto needed = [&](ValueId v) -> bool { return needs_[v.index()]; };
        if (std::ranges::none_of(op.results, reached) || std::ranges::none_of(op.operands, needed))
            return;
        if (!info(op).gradient)
            throw UserError({str("graph '", graph_.name, "', ", op.scope),
                             str("the loss depends on a parameter through '", info(op).name, "'"),
                             "this op has no gradient", "use only differentiable ops"});
        // What is stated of a value holds for its gradient (GSPMD, section 3.2), unless that may be partial.
        for (const ValueId r : op.stays_partial ? std::vector<ValueId>{} : op.results)
            if (const ValueId gradient = gradients_[r.index()];
                gradient && graph_[gradient].sharding->dims.empty())
                graph_[gradient].sharding.edit().dims = graph_[r].sharding->dims;
        builder_.where.block = op.block;
        builder_.where.scope = op.scope;
        builder_.where.stays_partial = op.stays_partial;
        OpTape tape(*this, op);
        info(op).gradient(tape);
    }

    void add(ValueId v, ValueId contribution)
    {
        if (v.index() < leaves_.size() && leaves_[v.index()].parameter)
            return accumulate(leaves_[v.index()], v, contribution);
        ValueId& gradient = gradients_[v.index()];
        gradient = gradient ? builder_.sum_of(gradient, contribution) : contribution;
        gradients_.resize(graph_.values.size());
    }

    /// `read` is the leaf as the microbatches read it; its accumulator has the same shape and sharding.
    void accumulate(const Leaf& leaf, ValueId read, ValueId contribution)
    {
        const ValueId parameter = leaf.parameter;
        const int block = builder_.where.block;
        std::vector<Carry>& mine = accumulators_[parameter.index()][block];
        if (mine.empty()) {
            mine.resize(leaf.division ? graph_[leaf.division].results.size() : 1);
            division_[parameter] = leaf.division;
        }
        TRV_CHECK(division_[parameter] == leaf.division, "%", graph_[parameter].name,
                  " is read whole and in parts");
        Carry& carry = mine[static_cast<std::size_t>(leaf.part)];
        if (!carry.in) {
            carry.in =
                builder_.value(str(grad_name(parameter),
                                   accumulators_[parameter.index()].size() > 1 ? str(".block", block) : "",
                                   leaf.division ? str(".part", leaf.part) : "", ".before"),
                               {config_.accumulate_bf16 && is_trained(graph_[parameter])
                                    ? DType::bf16
                                    : accumulator_of(graph_[read].type.dtype),
                                graph_[read].type.shape},
                               Role::carry);
            Sharding sharding = graph_[read].sharding;
            if (reduced_) {
                // Along the dimension that shards the parameter's states, too.
                const Sharding& whole = graph_[parameter].sharding;
                for (std::size_t d = 0; d < sharding.dims.size(); ++d)
                    sharding.dims[d].open = d >= whole.dims.size() || whole.dims[d].open;
                sharding = (*reduced_)(std::move(sharding), graph_[read].type.shape);
            }
            for (DimSharding& dim : sharding.dims)
                dim.open = false;
            graph_[carry.in].sharding = std::move(sharding);
        }
        // A rule may pass on a result's gradient, which other ops read too; values that it created are its
        // own.
        bool own = contribution.index() >= first_own_;
        const Sharding sharding = graph_[carry.in].sharding;
        if ((shards(sharding, config_.reduce_axis) &&
             is_shared(graph_[read].sharding, graph_.mesh, config_.reduce_axis)) ||
            std::ranges::any_of(config_.batch_axes,
                                [&](const auto& axis) { return shards(sharding, axis); })) {
            if (config_.reduce_bf16 && is_trained(graph_[parameter]))
                contribution = builder_.cast_to_send(contribution, DType::bf16);
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
            if (p.index() >= accumulators_.size() || accumulators_[p.index()].empty())
                continue;
            const auto& blocks = accumulators_[p.index()];
            ValueId sum;
            for (const auto& [block, carries] : blocks) {
                const std::string name =
                    blocks.size() > 1 ? str(grad_name(p), ".block", block) : grad_name(p);
                const ValueId whole = close(carries, name, block, division_[p]);
                // Each addend is reduced over ranks separately, so that the sum does not depend on which
                // stage adds the next one.
                const ValueId part = blocks.size() > 1
                                         ? builder_.reshard_to(whole, {}, str(grad_name(p), ".part", block))
                                         : whole;
                builder_.where.block = blocks.begin()->first;
                sum = sum ? builder_.sum_of(sum, part) : part;
            }
            graph_[sum].name = grad_name(p);
        }
    }

    /// The gradient that one block accumulated, called `name`.
    ValueId close(const std::vector<Carry>& carries, const std::string& name, int block, OpId division)
    {
        std::vector<ValueId> parts;
        for (const Carry& carry : carries) {
            TRV_CHECK(carry.out, name, " lacks a part");
            graph_.carries.push_back(carry);
            graph_[carry.out].name = division ? str(name, ".part", parts.size()) : name;
            parts.push_back(carry.out);
        }
        builder_.where = {Region::epilogue, Phase::update, block, graph_[graph_[parts[0]].producer].scope};
        return division ? builder_.joined(parts, divided_dim(graph_, graph_[division]), name) : parts[0];
    }

    std::string grad_name(ValueId parameter) const { return value_name::gradient + graph_[parameter].name; }

    Graph& graph_;
    const AutodiffConfig& config_;
    Builder builder_;
    std::optional<FurtherSharding> reduced_; ///< of gradients that are reduced in every microbatch
    std::size_t forward_ops_;
    std::size_t first_own_ = 0; ///< values from this one on were created for the gradient of the current op
    std::vector<bool> needs_;   ///< by value: whether its gradient is needed
    std::vector<Leaf> leaves_;  ///< by value
    std::vector<ValueId> gradients_; ///< by value
    /// By parameter and block, one per part: a parameter that several blocks read (a tied one) has
    /// accumulators in each. They are added once per step, lowest block first, so that the sums do not depend
    /// on which blocks share a pipeline stage.
    std::vector<std::map<int, std::vector<Carry>>> accumulators_;
    std::map<ValueId, OpId> division_; ///< of a parameter that is read in parts
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
