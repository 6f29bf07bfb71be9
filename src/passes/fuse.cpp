#include "passes/fuse.hpp"

#include "ir/ops/op_table.hpp"
#include "ir/ops/product_form.hpp"
#include "passes/simplify.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// `second` reads the only result of `first` as its operand `through`. The op `fused` has the operands of
/// `first` and the other operands of `second`, the attributes of both, and the results of `second`. If its
/// row has one more result, that is the intermediate value.
struct Fusion {
    OpKind first, second;
    int through = 0;
    OpKind fused;
    /// Whether the rules of the two ops allow it; null: always.
    bool (*fits)(const FactorRule& first, const FactorRule& second) = nullptr;
    /// The fusion does not apply in the forward phase, where sums must have the same rounding in training, in
    /// evaluation, and with any number of pipeline stages.
    bool gradients_only = false;
};

/// One product without batch, whose result has the memory order that the library writes.
bool plain(const FactorRule& product)
{
    const std::optional<ProductForm> form = find_product_form(product);
    return form && form->batch == 1 && !form->swapped && form->k > 0;
}

bool any_product(const FactorRule& first, const FactorRule&) { return plain(first); }

/// The bias has one element per column of the result.
bool bias_of_columns(const FactorRule& first, const FactorRule& second)
{
    const FactorList &out = second.results[0], &bias = second.operands[1];
    return plain(first) && bias.size() <= out.size() &&
           std::equal(bias.rbegin(), bias.rend(), out.rbegin()) &&
           element_count(second.shape_of(bias)) == find_product_form(first)->n;
}

using K = OpKind;

const Fusion fusions[] = {
    {K::matmul, K::bias_add, 0, K::matmul_bias, bias_of_columns},
    {K::matmul_bias, K::gelu, 0, K::matmul_bias_gelu},
    {K::matmul, K::gelu_grad, 0, K::matmul_gelu_grad, any_product},
    {K::matmul, K::add, 1, K::matmul_add, any_product, true},
    {K::matmul, K::add, 0, K::matmul_add, any_product, true},
    {K::add, K::rms_norm, 0, K::add_rms_norm},
    {K::add, K::layer_norm, 0, K::add_layer_norm},
    {K::rms_norm_grad_x, K::add, 1, K::rms_norm_grad_x_add},
    {K::rms_norm_grad_x, K::add, 0, K::rms_norm_grad_x_add},
    {K::layer_norm_grad_x, K::add, 1, K::layer_norm_grad_x_add},
    {K::layer_norm_grad_x, K::add, 0, K::layer_norm_grad_x_add},
};

/// The first row that fits two ops of a graph, or null. The caller checks region, phase, stage, and other
/// readers of the intermediate value.
const Fusion* find_fusion(const Graph& graph, const Op& first, const Op& second)
{
    if (first.accumulate || second.accumulate || first.results.size() != 1)
        return nullptr;
    // A fused op computes in one type, and the libraries in floating numbers.
    if (first.attrs.dtype || !is_floating(graph[first.results[0]].type.dtype))
        return nullptr;
    for (const Fusion& row : fusions) {
        const auto through = static_cast<std::size_t>(row.through);
        // The second op must read the intermediate value only once, because the fused op has no operand for
        // it.
        if (row.first == first.kind && row.second == second.kind &&
            !(row.gradients_only && first.phase == Phase::forward) &&
            second.operands[through] == first.results[0] &&
            std::count(second.operands.begin(), second.operands.end(), first.results[0]) == 1 &&
            (!row.fits || row.fits(rule_of(graph, first), rule_of(graph, second))))
            return &row;
    }
    return nullptr;
}

/// Whether the fused op also returns the intermediate value.
bool keeps_middle(const Fusion& fusion)
{
    return info(fusion.fused).results.size() > info(fusion.second).results.size();
}

/// The op that replaces `first` and `second`. \pre `fusion` is find_fusion() of them
Op fused_op(const Graph& graph, const Op& first, const Op& second, const Fusion& fusion)
{
    Op op = first;
    op.kind = fusion.fused;
    for (std::size_t i = 0; i < second.operands.size(); ++i)
        if (i != static_cast<std::size_t>(fusion.through))
            op.operands.push_back(second.operands[i]);
    op.results = second.results;
    if (keeps_middle(fusion))
        op.results.push_back(first.results[0]);
    op.attrs = merged(first.attrs, second.attrs);
    op.attrs.rule.reset();
    if (!info(fusion.fused).rule)
        op.attrs.rule = joined_rule(rule_of(graph, first), rule_of(graph, second),
                                    static_cast<std::size_t>(fusion.through), keeps_middle(fusion));
    return op;
}

class Fuser {
public:
    explicit Fuser(Graph graph) : g_(std::move(graph)), needed_(g_.values.size(), 0)
    {
        for (const Op& op : g_.ops)
            for (const ValueId v : op.operands)
                ++needed_[v.index()];
        for (const ValueId v : g_.outputs)
            ++needed_[v.index()];
        for (const Carry& carry : g_.carries)
            ++needed_[carry.out.index()];
    }

    Graph run()
    {
        std::vector<Op> ops;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (ops.empty() || fuses_with_next(i) || !join(ops.back(), g_.ops[i]))
                ops.push_back(std::move(g_.ops[i]));
        g_.ops = std::move(ops);
        drop_unproduced(g_);
        return std::move(g_);
    }

private:
    /// Replaces `first` by one op that does both, if a fusion fits.
    bool join(Op& first, const Op& second)
    {
        const Fusion* fusion = fitting(first, second);
        if (fusion)
            first = fused_op(g_, first, second, *fusion);
        return fusion != nullptr;
    }

    /// A recomputed sum must be fused as in the forward phase, with its norm.
    bool fuses_with_next(std::size_t i) const
    {
        return i + 1 < g_.ops.size() && fitting(g_.ops[i], g_.ops[i + 1]);
    }

    /// The fusion that fits, or null.
    const Fusion* fitting(const Op& first, const Op& second) const
    {
        if (first.region != second.region || first.phase != second.phase ||
            stage_of(g_, first) != stage_of(g_, second))
            return nullptr;
        const Fusion* fusion = find_fusion(g_, first, second);
        if (!fusion)
            return nullptr;
        const bool read_by_others = needed_[first.results[0].index()] > 1;
        if (keeps_middle(*fusion) ? !read_by_others && !in_place(fusion->fused) : read_by_others)
            return nullptr;
        return fusion;
    }

    /// Whether the last result may use an operand's buffer, so that it needs no memory.
    static bool in_place(OpKind kind)
    {
        const OpInfo& row = info(kind);
        const int last = static_cast<int>(row.results.size()) - 1;
        return std::ranges::any_of(row.in_place, [&](const Alias& alias) { return alias.result == last; });
    }

    Graph g_;
    std::vector<int> needed_; ///< number of reads, by value
};

} // namespace

Graph fuse(Graph graph) { return Fuser(std::move(graph)).run(); }

} // namespace trivium
