#include "ir/ops/fusions.hpp"

#include "base/check.hpp"
#include "ir/ops/product_form.hpp"

#include <algorithm>

namespace trivium {

namespace {

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

/// Whether the row of `fused` takes the op's attributes.
bool takes(OpKind fused, const Op& op)
{
    const OpInfo& row = info(fused);
    const Attributes& attrs = op.attrs;
    bool all = std::ranges::all_of(
        attrs.lists.entries(), [&](Attr attr) { return row.takes(attr); }, &NumberLists::Entry::attr);
    each_attribute([&](Attr attr, const char*, auto member) {
        using Member = std::decay_t<decltype(attrs.*member)>;
        if constexpr (!std::is_same_v<Member, FactorSizes>)
            all = all && (attr == Attr::rule || !(attrs.*member) || row.takes(attr));
    });
    return all;
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

} // namespace

const Fusion* find_fusion(const Graph& graph, const Op& first, const Op& second)
{
    if (first.accumulate || second.accumulate || first.results.size() != 1)
        return nullptr;
    // A fused op computes in one type, and the libraries in floating numbers.
    if (first.attrs->dtype || !is_floating(graph[first.results[0]].type.dtype))
        return nullptr;
    for (const Fusion& row : fusions) {
        const auto through = static_cast<std::size_t>(row.through);
        // The second op must read the intermediate value only once, because the fused op has no operand for
        // it.
        if (row.first == first.kind && row.second == second.kind &&
            !(row.gradients_only && first.phase == Phase::forward) &&
            second.operands[through] == first.results[0] &&
            std::count(second.operands.begin(), second.operands.end(), first.results[0]) == 1 &&
            takes(row.fused, first) && takes(row.fused, second) &&
            (!row.fits || row.fits(rule_of(graph, first), rule_of(graph, second))))
            return &row;
    }
    return nullptr;
}

bool keeps_middle(const Fusion& fusion)
{
    return info(fusion.fused).results.size() > info(fusion.second).results.size();
}

Op fused_op(const Graph& graph, const Op& first, const Op& second, const Fusion& fusion)
{
    TRV_EXPECT(find_fusion(graph, first, second) == &fusion, "another fusion's row");
    Op op = first;
    op.kind = fusion.fused;
    for (std::size_t i = 0; i < second.operands.size(); ++i)
        if (i != static_cast<std::size_t>(fusion.through))
            op.operands.push_back(second.operands[i]);
    op.results = second.results;
    if (keeps_middle(fusion))
        op.results.push_back(first.results[0]);
    op.attrs = merged(first.attrs, second.attrs);
    op.attrs.edit().rule.reset();
    if (!info(fusion.fused).rule)
        op.attrs.edit().rule = joined_rule(rule_of(graph, first), rule_of(graph, second),
                                           static_cast<std::size_t>(fusion.through), keeps_middle(fusion));
    return op;
}

bool is_idle(const Graph& graph, const Op& op)
{
    return op.kind == OpKind::cast && !op.accumulate &&
           graph[op.operands[0]].type == graph[op.results[0]].type;
}

} // namespace trivium
