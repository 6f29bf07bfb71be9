#include "base/check.hpp"
#include "base/counted.hpp"
#include "ir/exchange.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>

namespace trivium {

namespace {

/// A required attribute; a graph in text form may lack it.
template <class T>
const T& needed(const Graph& graph, const Op& op, const char* name, const std::optional<T>& attribute)
{
    if (!attribute)
        throw UserError({place_of(graph, op), str("has no attribute '", name, "'"), "",
                         str("write {", name, "=\"…\"} after its operands")});
    return *attribute;
}

/// Operands except the accumulator.
std::size_t plain_operands(const Op& op) { return op.operands.size() - (op.accumulate ? 1 : 0); }

bool has_own_rule(const Op& op) { return op.attrs->rule && info(op).takes(Attr::rule); }

/// If the rule is an attribute, the row has the number of operands.
void check_operand_count(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    const std::size_t plain = plain_operands(op);
    std::size_t required =
        row.operands ? static_cast<std::size_t>(*row.operands) : std::max<std::size_t>(plain, 1);
    if (row.rule) // some operands may be missing
        required = std::clamp(plain, (*row.rule)->operands.size() - static_cast<std::size_t>(row.optional),
                              (*row.rule)->operands.size());
    if ((!row.rule || has_own_rule(op)) && plain != required)
        throw UserError(
            {place_of(graph, op),
             str("has ", plain, " operands, takes ", required, row.operands || row.rule ? "" : " or more"),
             "", "see docs/ops.md for the ops"});
}

/// The tensors of a bucket have the same element type.
void check_bucket(const Graph& graph, const Op& op)
{
    const TensorType& first = graph[op.operands[0]].type;
    for (std::size_t i = 1; i < op.operands.size(); ++i)
        if (const TensorType& type = graph[op.operands[i]].type; type.dtype != first.dtype)
            throw UserError({place_of(graph, op), str("operand ", i, " is ", type, ", operand 0 ", first), "",
                             "put only tensors of one element type into a bucket"});
}

/// `first`: the type to which `same` and `accumulator` refer.
bool fits(OperandType wanted, DType type, std::optional<DType> first)
{
    switch (wanted) {
    case OperandType::any: return true;
    case OperandType::real: return is_floating(type);
    case OperandType::i32: return type == DType::i32;
    case OperandType::same: return type == first;
    case OperandType::accumulator: return first && type == accumulator_of(*first);
    }
    return false;
}

/// Each operand with its place in the row's rule: take(operand, place). The element type of an optional
/// operand tells its place.
template <class Take>
void each_place(const Graph& graph, const Op& op, const Take& take)
{
    const OpInfo& row = info(op);
    const std::size_t optional = static_cast<std::size_t>(row.optional),
                      required = row.rule ? (*row.rule)->operands.size() - optional : 0;
    std::size_t place = 0;
    for (std::size_t i = 0; i < plain_operands(op); ++i, ++place) {
        if (optional > 0 && i >= required) {
            const DType type = graph[op.operands[i]].type.dtype, first = graph[op.operands[0]].type.dtype;
            while (place < required + optional && !fits(row.types[place], type, first))
                ++place;
            if (place >= required + optional)
                throw UserError(
                    {place_of(graph, op), str("operand ", i, ", of ", name_of(type), ", does not fit"),
                     str(counted(optional, "operand"), " after the first ", required, " may be missing"),
                     "see docs/ops.md for their order, and use cast"});
        }
        take(i, place);
    }
}

/// Bit i: the op has optional operand i.
std::size_t optional_operands(const Graph& graph, const Op& op)
{
    const auto optional = static_cast<std::size_t>(info(op).optional),
               required = (*info(op).rule)->operands.size() - optional;
    std::size_t given = 0;
    each_place(graph, op, [&](std::size_t, std::size_t place) {
        if (place >= required && place < required + optional)
            given |= std::size_t{1} << (place - required);
    });
    return given;
}

void check_types(const Graph& graph, const Op& op)
{
    const std::vector<OperandType>& types = info(op).types;
    std::optional<DType> first;
    if (types.empty())
        return;
    each_place(graph, op, [&](std::size_t i, std::size_t place) {
        const OperandType wanted = types[std::min(place, types.size() - 1)];
        const DType type = graph[op.operands[i]].type.dtype;
        if (!fits(wanted, type, first))
            throw UserError({place_of(graph, op),
                             str("operand ", i, " is ", name_of(type), ", must be ",
                                 wanted == OperandType::real          ? "f64, f32 or bf16"
                                 : wanted == OperandType::i32         ? "i32"
                                 : wanted == OperandType::accumulator ? name_of(accumulator_of(*first))
                                                                      : name_of(*first)),
                             "", "use cast"});
        if (!first && wanted != OperandType::i32)
            first = type;
    });
}

DType element_type(const Graph& graph, const Op& op, const ResultType& type, std::size_t result)
{
    switch (type.of) {
    case ResultType::Of::operand:
        return graph[op.operands[static_cast<std::size_t>(type.operand)]].type.dtype;
    case ResultType::Of::accumulator: return accumulator_of(graph[op.operands[0]].type.dtype);
    case ResultType::Of::f64: return DType::f64;
    case ResultType::Of::i32: return DType::i32;
    case ResultType::Of::each: return graph[op.operands[result]].type.dtype;
    case ResultType::Of::attribute: return needed(graph, op, "dtype", op.attrs->dtype);
    }
    throw InternalError(__FILE__, __LINE__, "no such result type");
}

} // namespace

std::string place_of(const Graph& graph, const Op& op)
{
    return str(source_place(graph, op.line), op.scope, op.scope.empty() ? "" : ".", info(op).name);
}

OperandSet linear_operands(const Graph& graph, const Op& op)
{
    const OperandSet linear = op.attrs->beta ? 0 : info(op).linear; // each partial sum would get the constant
    if (op.stays_partial && info(op).separable) { // in each factor; the small one is that of low rank
        OperandSet least = 0;
        i64 elements = 0;
        for (std::size_t i = 0; i < op.operands.size(); ++i) {
            const Value& v = graph[op.operands[i]];
            if (v.lifetime != Lifetime::microbatch || (least != 0 && v.type.elements() >= elements))
                continue;
            least = OperandSet{1} << i;
            elements = v.type.elements();
        }
        return least;
    }
    if (op.kind != OpKind::cast)
        return linear;
    const DType from = graph[op.operands[0]].type.dtype, to = graph[op.results[0]].type.dtype;
    const bool keeps_values = from == to || (is_floating(from) && is_floating(to) &&
                                             (op.stays_partial || size_of(to) > size_of(from)));
    return keeps_values ? linear : 0;
}

FactorRule rule_of(const Graph& graph, const Op& op)
{
    TRV_EXPECT(std::ranges::all_of(op.operands, [&](ValueId v) { return v.index() < graph.values.size(); }),
               "an operand that is not in the graph");
    const OpInfo& row = info(op);
    if (row.factors)
        return row.factors(graph, op);
    check_operand_count(graph, op);
    std::vector<const Shape*> shapes(plain_operands(op));
    for (std::size_t i = 0; i < shapes.size(); ++i)
        shapes[i] = &graph[op.operands[i]].type.shape;
    const Rule& rule = has_own_rule(op)   ? *op.attrs->rule
                       : row.optional > 0 ? row.partial_rules[optional_operands(graph, op)]
                       : row.rule         ? *row.rule
                                          : needed(graph, op, "rule", op.attrs->rule);
    return make_rule(
        rule, shapes, op.attrs->sizes, [&] { return place_of(graph, op); }, row.variadic);
}

int optional_operand(const Graph& graph, const Op& op, int which)
{
    const OpInfo& row = info(op);
    TRV_EXPECT(which < row.optional, row.name, " has no optional operand ", which);
    const std::size_t wanted = (*row.rule)->operands.size() - static_cast<std::size_t>(row.optional - which);
    int found = -1;
    each_place(graph, op, [&](std::size_t i, std::size_t place) {
        if (place == wanted)
            found = static_cast<int>(i);
    });
    return found;
}

std::vector<TensorType> infer(const Graph& graph, const Op& op)
{
    return infer(graph, op, rule_of(graph, op));
}

std::vector<TensorType> infer(const Graph& graph, const Op& op, const FactorRule& rule)
{
    const OpInfo& row = info(op);
    if (const std::size_t required = row.bucket                                ? rule.operands.size()
                                     : row.parts || row.columns || row.factors ? rule.results.size()
                                                                               : row.results.size();
        rule.results.size() != required)
        throw UserError({place_of(graph, op),
                         str("its rule has ", rule.results.size(), " results, the op ", required), "",
                         "write a rule with as many results"});
    if (row.rejects && op.attrs->rule)
        if (const char* why = row.rejects(*op.attrs->rule))
            throw UserError({place_of(graph, op),
                             str("cannot have the rule \"", to_text(*op.attrs->rule), "\""), why,
                             "transpose an operand, or use ops with dims (docs/ops.md)"});
    check_types(graph, op);
    if (row.check)
        row.check(graph, op, rule);
    if (row.bucket)
        check_bucket(graph, op);
    std::vector<TensorType> types;
    types.reserve(rule.results.size());
    for (std::size_t i = 0; i < rule.results.size(); ++i) {
        ResultType type = row.results[std::min(i, row.results.size() - 1)];
        if (i == 0 && row.accumulates && op.attrs->dtype)
            type = ResultType::attribute();
        else if (i == 0 && row.blocks && op.attrs->dtype)
            type = ResultType::accumulator();
        else if (i == 0 && op.accumulate && type.of != ResultType::Of::f64)
            type = ResultType::accumulator();
        types.push_back({element_type(graph, op, type, i), rule.shape_of(rule.results[i])});
    }
    return types;
}

std::vector<Alias> aliases_of(const Op& op)
{
    const OpInfo& row = info(op);
    if (!row.communicates || row.in_place.empty())
        return row.in_place;
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

bool updates_in_place(const Op& op)
{
    for (std::size_t r = 0; r < op.results.size(); ++r)
        if (aliased_operand(op, r))
            return true;
    return false;
}

std::size_t divided_dim(const Graph& graph, const Op& op)
{
    const FactorRule rule = rule_of(graph, op);
    const FactorList &in = rule.operands[0], &out = rule.results[0];
    const auto differs = std::mismatch(in.begin(), in.end(), out.begin(), out.end()).first;
    TRV_EXPECT(info(op).parts && differs != in.end(), "an op whose operands and results are not parts");
    return static_cast<std::size_t>(differs - in.begin());
}

Lifetime result_lifetime(const Graph& graph, const Op& op, std::size_t result)
{
    if (const ValueId operand = aliased_operand(op, result))
        return graph[operand].lifetime;
    return op.region == Region::microbatch ? Lifetime::microbatch : Lifetime::step;
}

Space result_space(const Graph& graph, const Op& op)
{
    if (op.attrs->space)
        return *op.attrs->space;
    return op.operands.empty() ? Space::device : graph[op.operands[0]].space;
}

Flops flops_of(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    return row.flops ? row.flops(op, rule_of(graph, op)) : 0;
}

Bytes least_scratch_of(const Graph& graph, const Op& op)
{
    const OpInfo& row = info(op);
    if (row.scratch == ScratchKind::product &&
        op.attrs->fp8) // both operands in FP8, and the library's scratch
        return graph[op.operands[0]].type.bytes() + graph[op.operands[1]].type.bytes() + (Bytes{4} << 20);
    if (row.exchanges)
        return box_exchange_scratch(exchange_of(graph, op), exchange_rank(graph, op));
    if (!row.least_scratch)
        return 0;
    return row.least_scratch(op, rule_of(graph, op),
                             size_of(accumulator_of(graph[op.operands[0]].type.dtype)));
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
