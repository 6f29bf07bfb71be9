#include "ir/op_table.hpp"

#include "base/check.hpp"
#include "ir/gradients.hpp"

#include <algorithm>

namespace trivium {

namespace {

i64 size_of(const FactorRule& rule, const char* name)
{
    return rule.factors[static_cast<std::size_t>(rule.find(name))].size;
}

Flops all_factors(const FactorRule& rule) // a product: a multiply-add for each point of the factors' box
{
    Flops product = 2;
    for (const Factor& f : rule.factors)
        product *= static_cast<Flops>(f.size);
    return product;
}

/// Two products (Q K', P V) over the keys that a query may see: with as many keys as queries, half and the
/// diagonal.
Flops causal_attention(const FactorRule& rule)
{
    const auto size = [&](const char* name) { return static_cast<Flops>(size_of(rule, name)); };
    const Flops s = size("s"), t = size("t");
    const Flops pairs = s * (t - s) + s * (s + 1) / 2;
    return 4 * size("b") * size("g") * size("r") * size("e") * std::max(pairs, s);
}

/// One worker's tiles of 64 queries by 64 keys, and rows of the padded head size for each.
Bytes attention_tiles(const FactorRule& rule, Bytes element)
{
    return element * (3 * 64 * 64 + 8 * 64 * round_up(size_of(rule, "e"), 16)) + 4096;
}

/// The tiles, and a group's dK and dV while they are summed; on tensor cores two statistics a query.
Bytes attention_grad_tiles(const FactorRule& rule, Bytes element)
{
    const Bytes sums = 2 * element * round_up(size_of(rule, "t"), 64) * round_up(size_of(rule, "e"), 16);
    const Bytes statistics =
        8 * size_of(rule, "b") * size_of(rule, "g") * round_up(size_of(rule, "s") * size_of(rule, "r"), 64);
    return std::max(attention_tiles(rule, element) + sums, statistics);
}

/// A double per block of 16384 numbers.
Bytes block_sums(const FactorRule& rule, Bytes)
{
    return 8 * ceil_div(element_count(rule.shape_of(rule.operands[0])), 16384);
}

/// dV, dP, dQ, dK: the model's share; recomputing Q K' is the kernel's own business.
Flops causal_attention_grad(const FactorRule& rule) { return 2 * causal_attention(rule); }

using K = OpKind;
using S = ScratchKind;

const std::vector<OpInfo>& table()
{
    static const std::vector<OpInfo> rows{
        {K::matmul,
         "matmul",
         "",
         "0",
         "rule:2 fp8?",
         gradients::matmul,
         all_factors,
         {},
         S::product,
         nullptr,
         true},
        // What the pass `fuse` makes of a product and what follows it; a kept middle value is the last
        // result.
        {K::matmul_bias, "matmul_bias", "", "0", "rule:3 fp8?", nullptr, all_factors, {}, S::product},
        {K::matmul_bias_gelu,
         "matmul_bias_gelu",
         "",
         "00",
         "rule:3 fp8?",
         nullptr,
         all_factors,
         {},
         S::product},
        {K::matmul_gelu_grad,
         "matmul_gelu_grad",
         "",
         "0",
         "rule:3 fp8?",
         nullptr,
         all_factors,
         {},
         S::product},
        {K::embedding, "embedding", "v d, * -> * d | v?", "0", "", gradients::embedding},
        {K::embedding_grad,
         "embedding_grad",
         "* d, * -> v d | v?",
         "a",
         "",
         nullptr,
         nullptr,
         {},
         S::none,
         nullptr,
         true},
        {K::rms_norm, "rms_norm", "* d, d -> * d, * | d", "0a", "eps?", gradients::rms_norm},
        {K::rms_norm_grad_x,
         "rms_norm_grad_x",
         "* d, * d, d, * -> * d | d",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0}}},
        {K::rms_norm_grad_w,
         "rms_norm_grad_w",
         "* d, * d, * -> d",
         "a",
         "",
         nullptr,
         nullptr,
         {},
         S::none,
         nullptr,
         true},
        {K::add_rms_norm,
         "add_rms_norm",
         "* d, * d, d -> * d, *, * d | d",
         "0a0",
         "eps?",
         nullptr,
         nullptr,
         {{2, 0}, {2, 1}}},
        {K::rms_norm_grad_x_add,
         "rms_norm_grad_x_add",
         "* d, * d, d, *, * d -> * d | d",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0}, {0, 4}}},
        {K::layer_norm, "layer_norm", "* d, d, d -> * d, *, * | d", "0aa", "eps?", gradients::layer_norm},
        {K::layer_norm_grad_x,
         "layer_norm_grad_x",
         "* d, * d, d, *, * -> * d | d",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0}}},
        {K::layer_norm_grad_w,
         "layer_norm_grad_w",
         "* d, * d, *, * -> d",
         "a",
         "",
         nullptr,
         nullptr,
         {},
         S::none,
         nullptr,
         true},
        {K::add_layer_norm,
         "add_layer_norm",
         "* d, * d, d, d -> * d, *, *, * d | d",
         "0aa0",
         "eps?",
         nullptr,
         nullptr,
         {{3, 0}, {3, 1}}},
        {K::layer_norm_grad_x_add,
         "layer_norm_grad_x_add",
         "* d, * d, d, *, *, * d -> * d | d",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0}, {0, 5}}},
        {K::rope,
         "rope",
         "b s * e, b s, p c t -> b s * e | e p c t",
         "0",
         "",
         gradients::rope,
         nullptr,
         {{0, 0}}},
        {K::rope_grad,
         "rope_grad",
         "b s * e, b s, p c t -> b s * e | e p c t",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0}}},
        {K::attention,
         "attention",
         "b s g r e, b t g e, b t g e -> b s g r e, b g r s | s t e",
         "0a",
         "scale?",
         gradients::attention,
         causal_attention,
         {},
         S::attention,
         attention_tiles},
        {K::attention_cached,
         "attention_cached",
         "b s g r e, b t g e, b t g e, . -> b s g r e, b g r s | s t e",
         "0a",
         "scale?",
         nullptr,
         causal_attention,
         {},
         S::attention,
         attention_tiles},
        {K::attention_grad,
         "attention_grad",
         "b s g r e, b s g r e, b t g e, b t g e, b s g r e, b g r s -> b s g r e, b t g e, b t g e | s t e",
         "000",
         "scale?",
         nullptr,
         causal_attention_grad,
         {},
         S::attention,
         attention_grad_tiles},
        {K::cache_write,
         "cache_write",
         "b t g e, b s g e, . -> b t g e | t s",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0, true}}},
        {K::swiglu, "swiglu", "*, * -> *", "0", "", gradients::swiglu, nullptr, {{0, 0}, {0, 1}}},
        {K::swiglu_grad, "swiglu_grad", "*, *, * -> *, *", "00", "", nullptr, nullptr, {{0, 1}, {1, 2}}},
        {K::gelu, "gelu", "* -> *", "0", "", gradients::gelu, nullptr, {{0, 0}}},
        {K::gelu_grad, "gelu_grad", "*, * -> *", "0", "", nullptr, nullptr, {{0, 0}, {0, 1}}},
        {K::add,
         "add",
         "*, * -> *",
         "0",
         "",
         gradients::add,
         nullptr,
         {{0, 0}, {0, 1}},
         S::none,
         nullptr,
         false,
         false,
         true},
        {K::bias_add, "bias_add", "", "0", "rule:2", gradients::bias_add, nullptr, {{0, 0}}},
        {K::reduce_sum, "reduce_sum", "", "a", "rule:1", nullptr, nullptr, {}, S::none, nullptr, true},
        {K::accumulate, "accumulate", "* -> *", "a", "", nullptr, nullptr, {}, S::none, nullptr, true},
        {K::cast, "cast", "* -> *", "?", "dtype", gradients::cast},
        {K::fill, "fill", "* -> *", "0", "value"},
        {K::select_row, "select_row", "b s d, . -> b d | s", "0"},
        {K::xent_stats, "xent_stats", "* v, * -> *:lse, * | v?", "aa", "", gradients::xent_stats},
        {K::xent_stats_grad,
         "xent_stats_grad",
         "* v, *, *, *, * -> * v | v?",
         "0",
         "",
         nullptr,
         nullptr,
         {{0, 0}}},
        {K::token_loss,
         "token_loss",
         "*, *, * -> *",
         "0",
         "",
         gradients::token_loss,
         nullptr,
         {{0, 0}, {0, 1}}},
        {K::token_loss_grad, "token_loss_grad", "*, * -> *, *", "00"},
        {K::sum, "sum", "* -> .", "d", "", nullptr, nullptr, {}, S::none, nullptr, true},
        {K::count_valid, "count_valid", "* -> .", "d", "", nullptr, nullptr, {}, S::none, nullptr, true},
        {K::sum_squares, "sum_squares", "* -> .", "d", "", nullptr, nullptr, {}, S::reduction, block_sums},
        {K::stack,
         "stack",
         ". -> n",
         "d",
         "at",
         nullptr,
         nullptr,
         {},
         S::none,
         nullptr,
         false,
         true,
         false,
         false,
         false,
         true},
        {K::global_norm, "global_norm", "n -> w", "d", "clip"},
        {K::adamw,
         "adamw",
         "*, *, *, *, w, h -> *, *, * | w h",
         "012",
         "weight_decay",
         nullptr,
         nullptr,
         {{0, 0, true}, {1, 1, true}, {2, 2, true}}},
        {K::reshard,
         "reshard",
         "* -> *",
         "0",
         "",
         gradients::reshard,
         nullptr,
         {{0, 0}},
         S::none,
         nullptr,
         false,
         false,
         true,
         false,
         true},
        {K::slice, "slice", "", "0", "rule:1 dim offset"},
        {K::all_gather,
         "all_gather",
         "",
         "0",
         "axis rule dim",
         nullptr,
         nullptr,
         {},
         S::exchange,
         nullptr,
         false,
         false,
         false,
         true},
        {K::reduce_scatter,
         "reduce_scatter",
         "",
         "0",
         "axis rule dim",
         nullptr,
         nullptr,
         {},
         S::exchange,
         nullptr,
         false,
         false,
         false,
         true},
        {K::all_reduce,
         "all_reduce",
         "",
         "0",
         "axis rule combine",
         nullptr,
         nullptr,
         {{0, 0}},
         S::exchange,
         nullptr,
         false,
         false,
         false,
         true},
        {K::send,
         "send",
         "",
         "",
         "axis rule:1 to channel",
         nullptr,
         nullptr,
         {},
         S::none,
         nullptr,
         false,
         false,
         false,
         true},
        {K::recv,
         "recv",
         "",
         "?",
         "axis rule:0 from channel dtype",
         nullptr,
         nullptr,
         {},
         S::none,
         nullptr,
         false,
         false,
         false,
         true},
    };
    return rows;
}

} // namespace

const OpInfo& info(OpKind kind)
{
    const OpInfo& row = table()[static_cast<std::size_t>(kind)];
    TRV_CHECK(row.kind == kind, "the op table is out of order at ", row.name);
    return row;
}

const OpInfo* find_op(std::string_view name)
{
    for (const OpInfo& row : table())
        if (name == row.name)
            return &row;
    return nullptr;
}

std::vector<std::string> op_names()
{
    std::vector<std::string> names;
    for (const OpInfo& row : table())
        names.emplace_back(row.name);
    return names;
}

namespace {

/// A text attribute that the op cannot do without; a textual graph may lack it.
const std::string& needed_text(const Graph& graph, const Op& op, std::string_view name)
{
    for (const auto& [key, value] : op.attrs)
        if (const std::string* text = std::get_if<std::string>(&value); text && key == name)
            return *text;
    throw UserError({place_of(graph, op), str("has no text attribute '", name, "'"), "",
                     str("write {", name, "=\"…\"} behind its operands")});
}

/// The element type of the attribute "dtype".
DType named_dtype(const Graph& graph, const Op& op)
{
    const std::string& name = needed_text(graph, op, "dtype");
    if (const auto dtype = tensor_type_named(name))
        return *dtype;
    throw UserError(
        {place_of(graph, op), str("there is no element type '", name, "'"), "", "use f64, f32, bf16 or i32"});
}

/// A bucket: as many results as operands, all of one type.
bool is_bucket(const OpInfo& row) { return row.communicates && row.dtypes == std::string_view("0"); }

/// Where the rule is an attribute, the row says for how many operands.
void check_operand_count(const Graph& graph, const Op& op, std::size_t plain)
{
    const std::string_view attrs = info(op).attrs;
    const auto at = attrs.find("rule");
    if (at == std::string_view::npos)
        return;
    const bool fixed = at + 4 < attrs.size() && attrs[at + 4] == ':';
    const std::size_t wanted =
        fixed ? static_cast<std::size_t>(attrs[at + 5] - '0') : std::max<std::size_t>(plain, 1);
    if (plain != wanted)
        throw UserError({place_of(graph, op),
                         str("has ", plain, " operands, takes ", wanted, fixed ? "" : " or more"), "",
                         "see docs/ops.md for the ops"});
}

} // namespace

std::string place_of(const Graph& graph, const Op& op)
{
    return str(source_place(graph, op.line), op.scope, op.scope.empty() ? "" : ".", info(op).name);
}

FactorRule rule_of(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    check_operand_count(graph, op, op.operands.size() - (op.accumulate ? 1 : 0));
    std::vector<Shape> shapes;
    for (std::size_t i = 0; i + (op.accumulate ? 1 : 0) < op.operands.size(); ++i)
        shapes.push_back(graph[op.operands[i]].type.shape);
    FactorSizes sizes;
    for (const auto& [name, value] : op.attrs)
        if (const i64* size = std::get_if<i64>(&value))
            sizes.emplace_back(name, *size);
    const std::string_view text = *row.rule ? std::string_view(row.rule) : needed_text(graph, op, "rule");
    return make_rule(text, shapes, sizes, place_of(graph, op), row.variadic);
}

std::vector<TensorType> infer(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    const FactorRule rule = rule_of(graph, op);
    const std::string_view codes = row.dtypes;
    if (const std::size_t wanted = is_bucket(row) ? rule.operands.size() : codes.size();
        rule.results.size() != wanted)
        throw UserError({place_of(graph, op),
                         str("its rule has ", rule.results.size(), " results, the op ", wanted), "",
                         "write a rule with as many"});
    for (std::size_t i = 1; is_bucket(row) && i < op.operands.size(); ++i)
        if (graph[op.operands[i]].type.dtype != graph[op.operands[0]].type.dtype)
            throw UserError({place_of(graph, op),
                             str("operand ", i, " is ", graph[op.operands[i]].type, ", operand 0 ",
                                 graph[op.operands[0]].type),
                             "", "send tensors of one element type together"});
    std::vector<TensorType> types;
    for (std::size_t i = 0; i < rule.results.size(); ++i) {
        const char code = codes[std::min(i, codes.size() - 1)]; // a bucket's results are of one type
        DType dtype{};
        if (i == 0 && op.accumulate)
            dtype = code == 'd' ? DType::f64 : accumulator_of(graph[op.operands[0]].type.dtype);
        else if (code == 'a')
            dtype = accumulator_of(graph[op.operands[0]].type.dtype);
        else if (code == 'd')
            dtype = DType::f64;
        else if (code == '?')
            dtype = named_dtype(graph, op);
        else
            dtype = graph[op.operands[static_cast<std::size_t>(code - '0')]].type.dtype;
        types.push_back({dtype, rule.shape_of(rule.results[i])});
    }
    return types;
}

std::vector<Alias> aliases_of(const Op& op)
{
    const OpInfo& row = info(op);
    if (!row.communicates || row.aliases.empty())
        return row.aliases;
    std::vector<Alias> each; // of a bucket
    for (std::size_t i = 0; i < op.results.size(); ++i)
        each.push_back({static_cast<int>(i), static_cast<int>(i)});
    return each;
}

ValueId aliased_operand(const Op& op, std::size_t result)
{
    if (op.accumulate && result == 0)
        return op.operands.back();
    for (const Alias& alias : aliases_of(op))
        if (alias.must && static_cast<std::size_t>(alias.result) == result &&
            static_cast<std::size_t>(alias.operand) < op.operands.size())
            return op.operands[static_cast<std::size_t>(alias.operand)];
    return {};
}

Lifetime result_lifetime(const Graph& graph, const Op& op, std::size_t result)
{
    if (const ValueId operand = aliased_operand(op, result))
        return graph[operand].lifetime;
    return op.region == Region::microbatch ? Lifetime::microbatch : Lifetime::step;
}

Flops flops_of(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    return row.flops ? row.flops(rule_of(graph, op)) : 0;
}

Bytes least_scratch_of(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    if (row.scratch == ScratchKind::product &&
        has_attr(op.attrs, "fp8")) // both operands in FP8, and what a library takes
        return graph[op.operands[0]].type.bytes() + graph[op.operands[1]].type.bytes() + (Bytes{4} << 20);
    if (!row.least_scratch)
        return 0;
    return row.least_scratch(rule_of(graph, op), size_of(accumulator_of(graph[op.operands[0]].type.dtype)));
}

Bytes bytes_of(const Graph& graph, const Op& op)
{
    Bytes bytes = 0;
    for (const ValueId id : op.operands)
        bytes += graph[id].type.bytes();
    for (const ValueId id : op.results)
        bytes += graph[id].type.bytes();
    return bytes;
}

} // namespace trivium
