#include "stablehlo/writer.hpp"

#include "base/bf16.hpp"
#include "base/check.hpp"
#include "ir/ops/op_table.hpp"
#include "stablehlo/import.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <limits>

namespace trivium {

namespace {

template <class Each>
std::string joined(std::size_t count, const char* between, const Each& each)
{
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
        text += (i > 0 ? between : "") + each(i);
    return text;
}

/// A number as its bits, which no reader rounds; of an integer its digits.
std::string number_text(DType dtype, double value)
{
    char text[24];
    if (dtype == DType::f64)
        std::snprintf(text, sizeof text, "0x%016llX", std::bit_cast<unsigned long long>(value));
    else if (dtype == DType::f32)
        std::snprintf(text, sizeof text, "0x%08X", std::bit_cast<unsigned>(static_cast<float>(value)));
    else if (dtype == DType::bf16)
        std::snprintf(text, sizeof text, "0x%04X", unsigned{bf16(static_cast<float>(value)).bits});
    else
        std::snprintf(text, sizeof text, "%d", static_cast<int>(value));
    return text;
}

std::string types_text(const std::vector<HloName>& values)
{
    return "(" +
           joined(values.size(), ", ",
                  [&](std::size_t i) { return HloWriter::type_text(values[i].dtype, values[i].shape); }) +
           ")";
}

const char* name_in_hlo(Combine combine)
{
    switch (combine) {
    case Combine::sum: return "add";
    case Combine::max: return "maximum";
    case Combine::min: return "minimum";
    case Combine::product: return "multiply";
    default: throw InternalError(__FILE__, __LINE__, "a reduction by lse");
    }
}

} // namespace

std::string HloWriter::type_text(std::optional<DType> dtype, const Shape& shape)
{
    std::string text = "tensor<";
    for (const i64 extent : shape)
        text += std::to_string(extent) + "x";
    return text + (dtype ? name_of(*dtype) : "i1") + ">";
}

std::string HloWriter::bracketed(const Numbers& numbers)
{
    return "[" + joined(numbers.size(), ", ", [&](std::size_t i) { return std::to_string(numbers[i]); }) +
           "]";
}

std::string HloWriter::array(const Numbers& numbers)
{
    const std::string list = bracketed(numbers);
    return numbers.empty() ? "array<i64>" : "array<i64: " + list.substr(1, list.size() - 2) + ">";
}

std::string HloWriter::padding(const Numbers& low, const Numbers& high)
{
    return "dense<[" +
           joined(low.size(), ", ", [&](std::size_t d) { return str("[", low[d], ", ", high[d], "]"); }) +
           str("]> : tensor<", low.size(), "x2xi64>");
}

void HloWriter::refuse(const Op& op, const std::string& reason) const
{
    throw UserError({place_of(graph_, op), str("cannot export ", info(op).name), reason,
                     "docs/jax.md lists what StableHLO text can express"});
}

std::vector<HloName> HloWriter::operands(const Op& op) const
{
    std::vector<HloName> all;
    for (const ValueId v : op.operands)
        all.push_back(names_.at(v));
    return all;
}

void HloWriter::give(const Op& op, HloName value, std::size_t result)
{
    const TensorType& type = result_type(op, result);
    TRV_CHECK(value.dtype == type.dtype && value.shape == type.shape, info(op).name, " is written as ",
              type_text(value.dtype, value.shape), ", not ", type);
    names_[op.results[result]] = std::move(value);
}

HloWriter::Numbers HloWriter::list(const Op& op, Attr attr) const
{
    const Numbers* found = op.attrs->lists.find(attr);
    return found ? *found : Numbers();
}

HloWriter::Numbers HloWriter::list_or(const Op& op, Attr attr, std::size_t length, i64 otherwise) const
{
    const Numbers* found = op.attrs->lists.find(attr);
    return found ? *found : Numbers(length, otherwise);
}

// ---- ops of stablehlo

std::vector<HloName> HloWriter::ops(const std::string& name, const std::vector<HloName>& operands,
                                    const std::vector<HloName>& results, const std::string& attributes,
                                    const std::string& region)
{
    const std::string made = fresh();
    const std::string dialect = name.find('.') == std::string::npos ? "stablehlo." : "";
    std::string text = made + (results.size() > 1 ? ":" + std::to_string(results.size()) : "") + " = \"" +
                       dialect + name + "\"(" +
                       joined(operands.size(), ", ", [&](std::size_t i) { return operands[i].name; }) + ")";
    if (!attributes.empty())
        text += " <{" + attributes + "}>";
    if (!region.empty())
        text += " " + region;
    std::vector<HloName> all = results;
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i].name = all.size() > 1 ? str(made, "#", i) : made;
    lines_.push_back({std::move(text), "",
                      types_text(operands) + " -> " +
                          (all.size() == 1 ? type_text(all[0].dtype, all[0].shape) : types_text(all))});
    return all;
}

HloName HloWriter::op(const std::string& name, const std::vector<HloName>& operands,
                      std::optional<DType> dtype, const Shape& shape, const std::string& attributes,
                      const std::string& region)
{
    return ops(name, operands, {{"", dtype, shape}}, attributes, region)[0];
}

HloName HloWriter::constant(DType dtype, const Shape& shape, double value)
{
    return op("constant", {}, dtype, shape,
              "value = dense<" + number_text(dtype, value) + "> : " + type_text(dtype, shape));
}

HloName HloWriter::cast(const HloName& x, std::optional<DType> dtype)
{
    return x.dtype == dtype ? x : op("convert", {x}, dtype, x.shape);
}

HloName HloWriter::reshape(const HloName& x, const Shape& shape)
{
    return x.shape == shape ? x : op("reshape", {x}, x.dtype, shape);
}

HloName HloWriter::transpose(const HloName& x, const Numbers& dims)
{
    if (std::ranges::is_sorted(dims))
        return x;
    Shape shape;
    for (const i64 d : dims)
        shape.push_back(x.shape[static_cast<std::size_t>(d)]);
    return op("transpose", {x}, x.dtype, shape, "permutation = " + array(dims));
}

HloName HloWriter::broadcast(const HloName& x, const Numbers& dims, const Shape& shape)
{
    return op("broadcast_in_dim", {x}, x.dtype, shape, "broadcast_dimensions = " + array(dims));
}

HloName HloWriter::reduce(const HloName& x, const Numbers& dims, Combine combine)
{
    if (dims.empty())
        return x;
    Shape shape;
    for (std::size_t d = 0; d < x.shape.size(); ++d)
        if (std::ranges::find(dims, static_cast<i64>(d)) == dims.end())
            shape.push_back(x.shape[d]);
    const HloName start = identity(combine, *x.dtype);
    return op("reduce", {x, start}, x.dtype, shape, "dimensions = " + array(dims), region(combine, *x.dtype));
}

HloName HloWriter::compare(const HloName& a, const HloName& b, const std::string& direction)
{
    std::string upper = direction;
    std::ranges::transform(upper, upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? c - 32 : c; });
    return op("compare", {a, b}, {}, a.shape,
              "comparison_direction = #stablehlo<comparison_direction " + upper + ">");
}

HloName HloWriter::select(const HloName& which, const HloName& yes, const HloName& no)
{
    return op("select", {which, yes, no}, yes.dtype, yes.shape);
}

std::string HloWriter::region(Combine combine, DType dtype)
{
    const std::string type = type_text(dtype, {}), a = fresh(), b = fresh(), c = fresh();
    return str("({\n    ^bb0(", a, ": ", type, ", ", b, ": ", type, "):\n      ", c, " = \"stablehlo.",
               name_in_hlo(combine), "\"(", a, ", ", b, ") : (", type, ", ", type, ") -> ", type,
               "\n      \"stablehlo.return\"(", c, ") : (", type, ") -> ()\n    })");
}

HloName HloWriter::identity(Combine combine, DType dtype)
{
    constexpr double most = std::numeric_limits<std::int32_t>::max(),
                     least = std::numeric_limits<std::int32_t>::min();
    const bool real = is_floating(dtype);
    return constant(dtype, {},
                    combine == Combine::sum       ? 0
                    : combine == Combine::product ? 1
                    : combine == Combine::max     ? (real ? -HUGE_VAL : least)
                                                  : (real ? HUGE_VAL : most));
}

// ---- the graph

std::string HloWriter::sharding_of(const Sharding& sharding, std::size_t rank, const std::string& place) const
{
    const auto quoted = [](const std::string& axis) {
        const std::size_t colon = axis.find(':'); // "x:(2)4"
        return "\"" + axis.substr(0, colon) + "\"" + (colon == std::string::npos ? "" : axis.substr(colon));
    };
    std::string text = "<@mesh, [";
    for (std::size_t d = 0; d < rank; ++d) {
        const DimSharding dim = sharding.dims.empty() ? DimSharding() : sharding.dims[d];
        text += str(d > 0 ? ", {" : "{",
                    joined(dim.axes.size(), ", ", [&](std::size_t a) { return quoted(dim.axes[a]); }),
                    dim.open ? (dim.axes.empty() ? "?" : ", ?") : "", "}",
                    dim.priority > 0 ? str("p", dim.priority) : "");
    }
    text += "]";
    if (!sharding.replicated.empty())
        text += ", replicated={" +
                joined(sharding.replicated.size(), ", ",
                       [&](std::size_t a) { return quoted(sharding.replicated[a]); }) +
                "}";
    for (const Partial& partial : sharding.partial)
        if (partial.combine != Combine::sum)
            throw UserError({place, "is partial, to be combined by " + std::string(name_of(partial.combine)),
                             "StableHLO's annotations have sums only", "annotate the reduced value"});
    if (!sharding.partial.empty())
        text += ", unreduced={" +
                joined(sharding.partial.size(), ", ",
                       [&](std::size_t a) { return quoted(sharding.partial[a].axis); }) +
                "}";
    return text + ">";
}

void HloWriter::write(const Op& given)
{
    if (given.accumulate)
        refuse(given, "it adds into an accumulator");
    HloExporter exporter = general_exporter(given.kind);
    if (!exporter)
        exporter = window_exporter(given.kind);
    if (!exporter)
        exporter = model_exporter(given.kind);
    if (!exporter)
        refuse(given, "it has no equivalent in StableHLO");
    const std::size_t before = lines_.size();
    exporter(*this, given);
    if (graph_.mesh.axes.empty())
        return;
    for (const ValueId id : given.results) {
        const Value& result = graph_[id];
        if (result.sharding->dims.empty() && result.sharding->replicated.empty())
            continue;
        const std::string sharding =
            sharding_of(result.sharding, result.type.shape.size(), "%" + result.name);
        HloName& x = names_.at(id);
        if (info(given).placement || lines_.size() == before || given.results.size() > 1)
            x = op("sdy.sharding_constraint", {x}, x.dtype, x.shape, "sharding = #sdy.sharding" + sharding);
        else
            lines_.back().attributes = " {sdy.sharding = #sdy.sharding_per_value<[" + sharding + "]>}";
    }
}

std::string HloWriter::text()
{
    const bool meshed = !graph_.mesh.axes.empty();
    std::string arguments, results, types, returned;
    for (std::size_t i = 0; i < graph_.values.size(); ++i) {
        const Value& value = graph_.values[i];
        if (value.producer)
            continue;
        const std::string place = "%" + value.name;
        if (value.role == Role::constant) {
            const FillInit* fill = std::get_if<FillInit>(&*value.init);
            if (!fill)
                throw UserError({place, "is a constant that StableHLO cannot state",
                                 "it is not filled with one number", "make it an input"});
            names_[ValueId(i)] = constant(value.type.dtype, value.type.shape, fill->value);
            continue;
        }
        if (value.role == Role::carry || value.role == Role::kept)
            throw UserError({place, str("is a ", name_of(value.role), ", which a StableHLO function lacks"),
                             "", "export the forward graph"});
        const std::string name = "%arg" + std::to_string(names_.size());
        names_[ValueId(i)] = {name, value.type.dtype, value.type.shape};
        arguments +=
            str(arguments.empty() ? "" : ", ", name, ": ", type_text(value.type.dtype, value.type.shape));
        if (meshed && value.sharding != Sharding())
            arguments += " {sdy.sharding = #sdy.sharding" +
                         sharding_of(value.sharding, value.type.shape.size(), place) + "}";
        arguments += " loc(\"" + value.name + "\")";
    }
    if (!graph_.carries.empty())
        throw UserError({str("graph '", graph_.name, "'"), "has carries, which a StableHLO function lacks",
                         "", "export the forward graph"});
    for (const Op& op : graph_.ops)
        write(op);
    for (const ValueId id : graph_.outputs) {
        const HloName& value = names_.at(id);
        const std::string type = type_text(value.dtype, value.shape);
        results += str(results.empty() ? "" : ", ", type, " {jax.result_info = \"", graph_[id].name, "\"}");
        types += (types.empty() ? "" : ", ") + type;
        returned += (returned.empty() ? "" : ", ") + value.name;
    }
    std::string name;
    for (const char c : graph_.name)
        name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
    std::string text =
        "module @" + (name.empty() || std::isdigit(static_cast<unsigned char>(name[0])) ? "_" + name : name) +
        " {\n";
    if (meshed)
        text += "  sdy.mesh @mesh = <[" +
                joined(graph_.mesh.axes.size(), ", ",
                       [&](std::size_t a) {
                           return str("\"", graph_.mesh.axes[a].name, "\"=", graph_.mesh.axes[a].size);
                       }) +
                "]>\n";
    text += "  func.func public @main(" + arguments + ") -> (" + results + ") {\n";
    for (const Line& line : lines_)
        text += "    " + line.text + line.attributes + " : " + line.signature + "\n";
    return text + "    return " + returned + (types.empty() ? "" : " : " + types) + "\n  }\n}\n";
}

std::string export_hlo(const Graph& graph)
{
    if (!graph.at.empty())
        throw UserError({str("graph '", graph.name, "'"), "cannot be exported",
                         "it has a line `at`, so it is the graph of one of several ranks",
                         "export the graph of all ranks"});
    return HloWriter(graph).text();
}

} // namespace trivium
