#include "ir/ops/op_table.hpp"

#include "base/activation.hpp"
#include "base/check.hpp"
#include "base/expert_rows.hpp"
#include "ir/builder.hpp"
#include "ir/general/expert_rules.hpp"
#include "ir/general/general_gradients.hpp"
#include "ir/general/general_rules.hpp"
#include "ir/ops/seen_keys.hpp"

#include <algorithm>
#include <map>

namespace trivium {

namespace {

i64 size_of(const FactorRule& rule, const char* name)
{
    const int factor = rule.find(name);
    TRV_CHECK(factor >= 0, "no factor is called ", name);
    return rule[factor].size;
}

/// Whether the dimensions of `last` are the last ones of `all`.
bool ends_with(const Rule::Tensor& all, const Rule::Tensor& last)
{
    return all.dims.size() >= last.dims.size() &&
           std::equal(last.dims.rbegin(), last.dims.rend(), all.dims.rbegin());
}

/// Whether the first dimensions of `all` are `rows`.
bool begins_with(const Rule::Tensor& all, const Rule::Tensor& rows)
{
    return all.dims.size() >= rows.dims.size() &&
           std::equal(rows.dims.begin(), rows.dims.end(), all.dims.begin());
}

/// Whether the dimensions of `all` are `rows`, then `last`.
bool divides(const Rule::Tensor& all, const Rule::Tensor& rows, const Rule::Tensor& last)
{
    return begins_with(all, rows) && ends_with(all, last) &&
           all.dims.size() == rows.dims.size() + last.dims.size();
}

Flops all_factors(const Op&,
                  const FactorRule& rule) // a product: one multiply-add per combination of factor indices
{
    Flops product = 2;
    for (const Factor& f : rule.factors)
        product *= static_cast<Flops>(f.size);
    return product;
}

/// One multiply-add per output, channel of its group and index of the window.
Flops convolution_flops(const Op& op, const FactorRule& rule)
{
    const FactorList& outputs = op.kind == OpKind::convolution ? rule.results[0] : rule.operands[0];
    const FactorList& weights =
        op.kind == OpKind::convolution_grad_w ? rule.results[0] : rule.operands[1]; // outputs first
    Flops product = 2;
    for (const int dim : outputs)
        product *= static_cast<Flops>(rule[dim].size);
    for (std::size_t d = 1; d < weights.size(); ++d)
        product *= static_cast<Flops>(rule[weights[d]].size);
    if (const auto* base = op.attrs->lists.find(Attr::base)) // other taps meet gaps
        for (const i64 gap : *base)
            product /= static_cast<Flops>(gap);
    return product;
}

/// The weights in a library's layout, which may round channels up, for their gradient those of a block, too,
/// in reverse if x has gaps; and a block of x and y with other sums (kernels/host/convolution_blocks.hpp).
Bytes convolution_weights(const Op& op, const FactorRule& rule, Bytes)
{
    const Shape weights =
        rule.shape_of(op.kind == OpKind::convolution_grad_w ? rule.results[0] : rule.operands[1]);
    Bytes bytes = 4;
    for (std::size_t d = 0; d < weights.size(); ++d)
        bytes *= d < 2 ? round_up(weights[d], 16) : weights[d];
    const i64 times =
        1 + (op.kind == OpKind::convolution_grad_w) + (op.attrs->lists.find(Attr::base) != nullptr);
    return bytes * times + (Bytes{24} << 20);
}

/// The keys that an attention has.
IndexRange keys_of(const Op& op, i64 count)
{
    const auto* begin = op.attrs->lists.find(Attr::begin);
    return {begin ? begin->front() : 0, count};
}

/// Two products (Q K', P V) over the keys that a query may see: with as many keys as queries, and neither
/// window nor chunks, half of them plus the diagonal. Documents may hide more of them.
Flops causal_attention(const Op& op, const FactorRule& rule)
{
    const auto size = [&](const char* name) { return static_cast<Flops>(size_of(rule, name)); };
    const i64 s = size_of(rule, "s"), t = size_of(rule, "t");
    // The queries of a cache are the last ones.
    const i64 first = op.attrs->offsets.empty() ? std::max<i64>(t - s, 0) : op.attrs->offset_of("s");
    const Flops pairs = seen_pairs(op, {first, s}, keys_of(op, t));
    return 2 * size("b") * size("g") * size("r") * (size("e") + size("u")) * std::max(pairs, size("s"));
}

/// One worker's tiles of 64 queries by 64 keys, and rows of the padded head sizes for each.
Bytes attention_tiles(const Op&, const FactorRule& rule, Bytes element)
{
    const i64 widths = round_up(size_of(rule, "e"), 16) + round_up(size_of(rule, "u"), 16);
    return element * (3 * 64 * 64 + 4 * 64 * widths) + 4096;
}

/// The tiles, and a group's dK and dV while they are summed; on tensor cores two statistics per query.
Bytes attention_grad_tiles(const Op& op, const FactorRule& rule, Bytes element)
{
    const Bytes sums = element * round_up(size_of(rule, "t"), 64) *
                       (round_up(size_of(rule, "e"), 16) + round_up(size_of(rule, "u"), 16));
    const Bytes statistics =
        8 * size_of(rule, "b") * size_of(rule, "g") * round_up(size_of(rule, "s") * size_of(rule, "r"), 64);
    return std::max(attention_tiles(op, rule, element) + sums, statistics);
}

/// A double per block of 16384 numbers.
Bytes block_sums(const Op&, const FactorRule& rule, Bytes)
{
    const i64 sums = std::max<i64>(element_count(rule.shape_of(rule.results[0])), 1);
    return 8 * sums * ceil_div(element_count(rule.shape_of(rule.operands[0])) / sums, 16384);
}

/// A place for each element of the first operand, as i32.
Bytes place_of_elements(const Op&, const FactorRule& rule, Bytes)
{
    return 4 * element_count(rule.shape_of(rule.operands[0]));
}

/// dV, dP, dQ, dK are model FLOPs; recomputing Q K' is not counted.
Flops causal_attention_grad(const Op& op, const FactorRule& rule) { return 2 * causal_attention(op, rule); }

/// One multiply-add per row that arrives if experts are equally loaded, and element of an expert's matrix.
Flops grouped_product(const Op& op, const FactorRule& rule)
{
    const Shape rows = rule.shape_of(rule.operands[0]), others = rule.shape_of(rule.operands[1]);
    const auto* expected = op.attrs->lists.find(Attr::expected);
    const i64 n = expected ? expected->front() : rows[1];
    const i64 columns = op.kind == OpKind::grouped_matmul_grad_rows ? others[1] : others[2];
    return 2 * static_cast<Flops>(rows[0]) * static_cast<Flops>(n) * static_cast<Flops>(rows[2]) *
           static_cast<Flops>(columns);
}

/// The rows that end an expert's, padded, and the library's scratch.
Bytes grouped_tiles(const Op&, const FactorRule& rule, Bytes element)
{
    const i64 columns = rule.shape_of(rule.operands[0]).back() + rule.shape_of(rule.results[0]).back();
    return element * grouped_pad * round_up(columns, 64) + (Bytes{2} << 20);
}

/// A number per token.
Bytes token_places(const Op&, const FactorRule& rule, Bytes element)
{
    const Shape logits = rule.shape_of(rule.operands[0]);
    return element * logits[0] * logits[1];
}

/// As dispatch_scratch(), for each group's part of each sequence.
Bytes places_of_rows(const Op& op, const FactorRule& rule, Bytes)
{
    const Shape tokens = rule.shape_of(rule.operands[0]);
    const i64 parts = op.attrs->lists.find(Attr::spread)->back();
    return dispatch_scratch(tokens[0] * parts, tokens[1] / std::max<i64>(parts, 1),
                            op.attrs->lists.find(Attr::count)->front());
}

/// Rows of each group, as i64.
Bytes count_of_groups(const Op&, const FactorRule& rule, Bytes)
{
    return 8 * rule.shape_of(rule.results[0]).front();
}

/// Refuses functions of a gate and a value.
void of_one_number(const Graph& graph, const Op& op, const FactorRule&)
{
    if (op.attrs->activation && only_gated(*value_named<Activation>(*op.attrs->activation)))
        throw UserError({place_of(graph, op), str("cannot compute '", *op.attrs->activation, "'"),
                         "this function has two arguments", "use swiglu"});
}

const TensorType& type_of(Tape& t, ValueId id) { return t.build().graph()[id].type; }

/// The gradient of a result, passed on to operand i.
void pass_on(Tape& t, int i)
{
    if (t.requires_grad(i))
        t.accumulate_grad(i, t.grad(0));
}

/// The gradient of operand i, made by one op.
void gradient_by(Tape& t, int i, OpKind kind, std::vector<ValueId> operands, Attributes attributes = {})
{
    if (t.requires_grad(i))
        t.accumulate_grad(i, t.build().op1(kind, std::move(operands), std::move(attributes)));
}

/// The gradient of result 0, then the operands but the first.
std::vector<ValueId> with_other_operands(Tape& t)
{
    std::vector<ValueId> all = t.op().operands;
    all[0] = t.grad(0);
    return all;
}

/// The gradients of operands 0, 1, …, which one op computes together.
void accumulate_each(Tape& t, const std::vector<ValueId>& gradients)
{
    for (std::size_t i = 0; i < gradients.size(); ++i)
        if (t.requires_grad(static_cast<int>(i)))
            t.accumulate_grad(static_cast<int>(i), gradients[i]);
}

/// The op's attributes that the row of `kind` takes, without its rule.
Attributes attributes_for(Tape& t, OpKind kind)
{
    const OpInfo& row = info(kind);
    Attributes taken;
    each_attribute([&](Attr attr, const char*, auto member) {
        if (attr != Attr::rule && row.takes(attr))
            taken.*member = (*t.op().attrs).*member;
    });
    for (const NumberLists::Entry& list : t.op().attrs->lists.entries())
        if (row.takes(list.attr))
            taken.lists.set(list.attr, list.numbers);
    return taken;
}

/// As above, with a rule.
Attributes attributes_for(Tape& t, OpKind kind, Rule::Parts rule)
{
    Attributes taken = attributes_for(t, kind);
    taken.rule = Rule(std::move(rule));
    return taken;
}

using A = Attr;
using R = ResultType;
using S = ScratchKind;
using T = OperandType;

std::vector<OpInfo> all_rows()
{
    return {
#define TRV_OP(op, ...) OpInfo{.kind = OpKind::op, .name = #op, __VA_ARGS__},
#include "ir/ops.inc"
#undef TRV_OP
    };
}

/// The rules of an op that has some of its row's optional operands.
std::vector<Rule> partial_rules(const OpInfo& row)
{
    std::vector<Rule> rules;
    for (unsigned given = 0; row.optional > 0 && given < 1u << row.optional; ++given) {
        Rule::Parts parts = *row.rule->operator->();
        const auto required = static_cast<std::ptrdiff_t>(parts.operands.size()) - row.optional;
        for (int i = row.optional; i-- > 0;)
            if ((given >> i & 1u) == 0)
                parts.operands.erase(parts.operands.begin() + required + i);
        rules.emplace_back(std::move(parts));
    }
    return rules;
}

/// Apart from all_rows(), whose frame is so large that a sanitizer takes its time to enter it.
const std::vector<OpInfo>& table()
{
    static const std::vector<OpInfo> rows = [] {
        std::vector<OpInfo> made = all_rows();
        for (OpInfo& row : made)
            row.partial_rules = partial_rules(row);
        return made;
    }();
    return rows;
}

} // namespace

const OpInfo& info(OpKind kind) { return table()[static_cast<std::size_t>(kind)]; }

const OpInfo* find_op(std::string_view name)
{
    static const std::map<std::string_view, const OpInfo*> rows = [] {
        std::map<std::string_view, const OpInfo*> made;
        for (const OpInfo& row : table())
            made.emplace(row.name, &row);
        return made;
    }();
    const auto at = rows.find(name);
    return at == rows.end() ? nullptr : at->second;
}

std::vector<std::string> op_names()
{
    std::vector<std::string> names;
    for (const OpInfo& row : table())
        names.emplace_back(row.name);
    return names;
}

} // namespace trivium
