#include "ir/general/columns.hpp"

#include "base/check.hpp"
#include "ir/ops/product_form.hpp"

#include <algorithm>

namespace trivium {

namespace {

[[noreturn]] void refuse(const Graph& graph, const Op& op, const std::string& problem,
                         const std::string& reason)
{
    throw UserError(
        {place_of(graph, op), problem, reason, "copy the value, or use an op that takes columns"});
}

/// Whether a kernel that sees a value of `shape` as a matrix has those rows: a token's heads, the rows of a
/// product's stored operand, those that a sum adds.
bool has_rows(const Graph& graph, const Op& op, std::size_t operand, const Shape& shape, i64 rows)
{
    switch (op.kind) {
    case OpKind::rope:
    case OpKind::rope_grad:
    case OpKind::attention:
    case OpKind::attention_step:
    case OpKind::attention_grad:
    case OpKind::attention_grad_step: return shape.size() >= 2 && shape[0] * shape[1] == rows;
    case OpKind::swiglu:
    case OpKind::swiglu_grad: return !shape.empty() && element_count(shape) == rows * shape.back();
    case OpKind::reduce_sum: return element_count(shape) == rows * graph[op.results[0]].type.elements();
    case OpKind::matmul:
    case OpKind::matmul_bias:
    case OpKind::matmul_bias_gelu:
    case OpKind::matmul_gelu_grad:
    case OpKind::matmul_add: {
        const std::optional<ProductForm> form = find_product_form(rule_of(graph, op));
        if (!form || form->batch != 1 || op.attrs->fp8)
            return false;
        return rows == ((operand == 0) != form->swapped ? (form->trans_a ? form->k : form->m)
                                                        : (form->trans_b ? form->n : form->k));
    }
    default: return true;
    }
}

} // namespace

Columns columns_of(const Graph& graph, const Op& op)
{
    TRV_EXPECT(info(op).columns, "an op without columns");
    const bool splits = op.kind == OpKind::split_columns;
    Columns made;
    made.whole = splits ? op.operands[0] : op.results[0];
    made.parts = splits ? op.results : op.operands;
    const Shape& whole = graph[made.whole].type.shape;
    if (whole.empty())
        refuse(graph, op, "divides a scalar", "it has no columns");
    made.width = whole.back();
    made.rows = element_count(Shape(whole.begin(), whole.end() - 1));
    i64 end = 0;
    for (const ValueId part : made.parts) {
        const Shape& shape = graph[part].type.shape;
        if (shape.size() + 1 < whole.size() || !std::equal(whole.begin(), whole.end() - 1, shape.begin()))
            refuse(
                graph, op, str("%", graph[part].name, " is ", graph[part].type),
                str("the rows of %", graph[made.whole].name, ", ", graph[made.whole].type, ", are others"));
        made.first.push_back(end);
        end +=
            element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(whole.size()) - 1, shape.end()));
    }
    if (end != made.width)
        refuse(graph, op, str("the parts have ", end, " columns"),
               str("%", graph[made.whole].name, " has ", made.width));
    return made;
}

bool reads_columns(const Graph& graph, const Op& op, std::size_t operand, i64 rows)
{
    return operand < 32 && (info(op).may_be_columns.operands >> operand & 1u) != 0 &&
           has_rows(graph, op, operand, graph[op.operands[operand]].type.shape, rows);
}

bool writes_columns(const Graph& graph, const Op& op, std::size_t result, i64 rows)
{
    return result < 32 && (info(op).may_be_columns.results >> result & 1u) != 0 &&
           has_rows(graph, op, 0, graph[op.results[result]].type.shape, rows);
}

void check_columns(const Graph& graph)
{
    std::vector<i64> rows(graph.values.size(), -1); // of a part
    std::vector<bool> whole(graph.values.size(), false);
    for (const Op& op : graph.ops) {
        if (!info(op).columns)
            continue;
        const Columns columns = columns_of(graph, op);
        if (!info(op).view)
            continue;
        if (op.kind == OpKind::split_columns) {
            const Value& v = graph[columns.whole];
            if (v.role != Role::computed || v.lifetime != Lifetime::microbatch ||
                info(graph[v.producer]).view || whole[columns.whole.index()])
                refuse(graph, op, str("cannot divide %", v.name),
                       "the whole is computed in a microbatch, is no view, and is divided once");
            whole[columns.whole.index()] = true;
        }
        for (const ValueId part : columns.parts) {
            const Value& v = graph[part];
            if (rows[part.index()] >= 0 || v.role != Role::computed || v.lifetime != Lifetime::microbatch)
                refuse(graph, op, str("%", v.name, " cannot be columns of %", graph[columns.whole].name),
                       "a part is computed in a microbatch and has one whole");
            rows[part.index()] = columns.rows;
        }
    }
    for (const Op& op : graph.ops) {
        if (info(op).view)
            continue;
        for (std::size_t i = 0; i < op.operands.size(); ++i) {
            const ValueId v = op.operands[i];
            if (whole[v.index()])
                refuse(graph, op, str("reads %", graph[v].name), "its parts may be updated in place");
            if (rows[v.index()] >= 0 && !reads_columns(graph, op, i, rows[v.index()]))
                refuse(graph, op, str("cannot read %", graph[v].name), "it is columns of another value");
        }
        for (std::size_t i = 0; i < op.results.size(); ++i)
            if (const ValueId v = op.results[i];
                rows[v.index()] >= 0 && !writes_columns(graph, op, i, rows[v.index()]))
                refuse(graph, op, str("cannot write %", graph[v].name), "it is columns of another value");
    }
    for (const ValueId v : graph.outputs)
        if (rows[v.index()] >= 0 || whole[v.index()])
            throw UserError({source_place(graph, graph[v].line) + "%" + graph[v].name, "is an output",
                             "it is part of a view, or has parts", "copy the value"});
}

std::optional<ProductDims> dims_of_product(const Op& op)
{
    if (op.kind != OpKind::matmul || op.accumulate || op.attrs->fp8 || op.attrs->dtype ||
        op.region != Region::microbatch)
        return {};
    const auto &x = (*op.attrs->rule)->operands[0].dims, &w = (*op.attrs->rule)->operands[1].dims,
               &c = (*op.attrs->rule)->results[0].dims;
    for (std::size_t common = 1; common < std::min(x.size(), w.size() + 1) && common < w.size(); ++common) {
        const auto middle = x.end() - static_cast<std::ptrdiff_t>(common),
                   end = w.begin() + static_cast<std::ptrdiff_t>(common);
        ProductDims dims{{x.begin(), middle}, {middle, x.end()}, {end, w.end()}};
        std::vector<std::string> result = dims.rows;
        result.insert(result.end(), dims.columns.begin(), dims.columns.end());
        if (std::equal(middle, x.end(), w.begin(), end) && result == c)
            return dims;
    }
    return {};
}

bool is_gradient_of_product(const Graph& graph, const Op& op)
{
    if (op.kind != OpKind::matmul || op.accumulate || op.attrs->fp8 || op.attrs->dtype)
        return false;
    const std::optional<ProductForm> form = find_product_form(rule_of(graph, op));
    return form && form->batch == 1 && !form->swapped && !form->trans_a && form->trans_b;
}

bool adds_bias(const Op& op) { return op.kind == OpKind::bias_add; }
bool adds_two(const Op& op) { return op.kind == OpKind::add; }
bool casts(const Op& op) { return op.kind == OpKind::cast; }

namespace {

Rule::Tensor whole_dims(std::size_t rows)
{
    Rule::Tensor whole;
    for (std::size_t d = 0; d < rows; ++d)
        whole.dims.push_back(str("r", d));
    whole.dims.emplace_back("n");
    return whole;
}

/// The dimensions of the parts: rows, then columns, whose sizes are appended.
std::vector<Rule::Tensor> part_dims(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows,
                                    FactorSizes& sizes)
{
    std::vector<Rule::Tensor> made;
    for (const ValueId v : parts) {
        const Shape& shape = graph[v].type.shape;
        Rule::Tensor& part = made.emplace_back(whole_dims(rows));
        part.dims.pop_back();
        for (std::size_t d = rows; d < shape.size(); ++d) {
            part.dims.push_back(str("c", sizes.size()));
            sizes.push_back({part.dims.back(), shape[d]});
        }
    }
    return made;
}

Op of_parts(const Graph& graph, OpKind kind, const std::vector<ValueId>& parts, std::size_t rows)
{
    Op op;
    op.kind = kind;
    op.operands = parts;
    FactorSizes sizes;
    op.attrs.edit().rule = Rule(Rule::Parts{part_dims(graph, parts, rows, sizes), {whole_dims(rows)}});
    i64 width = 0;
    for (const ValueId v : parts) {
        const Shape& shape = graph[v].type.shape;
        width += element_count(Shape(shape.begin() + static_cast<std::ptrdiff_t>(rows), shape.end()));
    }
    op.attrs.edit().sizes = {{"n", width}};
    return op;
}

} // namespace

Op packed_columns(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows, DType dtype)
{
    Op op = of_parts(graph, OpKind::pack_columns, parts, rows);
    op.attrs.edit().dtype = dtype;
    return op;
}

Op divided_columns(const Graph& graph, ValueId whole, const std::vector<ValueId>& parts, std::size_t rows)
{
    Op op;
    op.kind = OpKind::split_columns;
    op.operands = {whole};
    Attributes& attrs = op.attrs.edit();
    attrs.rule = Rule(Rule::Parts{{whole_dims(rows)}, part_dims(graph, parts, rows, attrs.sizes)});
    return op;
}

Op joined_columns(const Graph& graph, const std::vector<ValueId>& parts, std::size_t rows)
{
    return of_parts(graph, OpKind::join_columns, parts, rows);
}

} // namespace trivium
