#include "stablehlo/importer.hpp"

#include "base/check.hpp"
#include "ir/limits.hpp"
#include "ir/needed.hpp"
#include "ir/verify.hpp"
#include "stablehlo/hlo_text.hpp"
#include "stablehlo/integers.hpp"

#include <algorithm>
#include <cctype>

namespace trivium {

namespace {

constexpr std::size_t max_visited = 1'000'000;
constexpr int max_calls = 100; ///< within each other

/// params['dense']['w'] becomes params.dense.w
std::string legal_name(const std::string& text)
{
    std::string name;
    for (const char c : text)
        if (std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-')
            name += c;
        else if (!name.empty() && name.back() != '.')
            name += '.';
    while (!name.empty() && name.back() == '.')
        name.pop_back();
    return name;
}

/// The name that loc("x") gives an argument; "" if it is a place in a file.
std::string located_name(const std::string& location)
{
    if (!location.starts_with("\""))
        return "";
    const std::size_t end = location.find('"', 1);
    if (end == std::string::npos || (end + 1 < location.size() && location[end + 1] != '('))
        return "";
    const std::string text = location.substr(1, end - 1);
    return text.find('/') == std::string::npos ? legal_name(text) : ""; // "jit(f)/add": of an op
}

const HloHandlers& handlers()
{
    static const HloHandlers all = [] {
        HloHandlers made;
        for (const auto add : {add_pointwise, add_shapes, add_contractions, add_windows, add_integers,
                               add_indices, add_orders, add_control, add_manual})
            add(made);
        return made;
    }();
    return all;
}

std::regex parameters_of(const HloImport& how)
{
    try {
        return std::regex(how.parameters);
    } catch (const std::regex_error& error) {
        throw UserError({"--parameters", str("'", how.parameters, "' is not a regular expression"),
                         error.what(), "write, for example, 'params.*'"});
    }
}

bool is_wide(const HloType& type)
{
    return type.refused.empty() && !is_real(type.element) && type.element != HloElement::i32 &&
           type.element != HloElement::i1;
}

} // namespace

HloImporter::HloImporter(const HloModule& module, const std::string& file, const HloImport& how)
    : module_(module), file_(file), how_(how), parameters_(parameters_of(how)), builder_(graph_),
      mesh_(module, file)
{
    for (const HloFunction& function : module.functions)
        if (!functions_.emplace(function.name, &function).second)
            throw UserError({str(file, ":", function.line), str("defines @", function.name, " twice"), "",
                             "give StableHLO text, as jax.export writes it"});
}

std::string HloImporter::place(const HloOp& op) const { return str(file_, ":", op.line); }

HloAttribute HloImporter::inner_dictionary(const HloOp& op, const HloAttribute& raw) const
{
    const std::string text = "{" + raw.text + "}";
    return HloText(text, file_, op.line).dictionary();
}

void HloImporter::refuse(const HloOp& op, const std::string& reason, const std::string& remedy) const
{
    throw UserError({place(op), str("cannot import ", op.name), reason,
                     remedy.empty() ? "docs/jax.md lists what a graph can express" : remedy});
}

std::vector<std::string> HloImporter::enter_manual(const HloOp& op, const std::vector<std::string>& axes)
{
    std::vector<std::string> before = manual_;
    for (const std::string& axis : axes) {
        require(graph_.mesh.find(axis) >= 0, op, str("the mesh has no axis '", axis, "'"));
        manual_.push_back(axis);
    }
    return before;
}

void HloImporter::require_manual(const HloOp& op, const std::vector<std::string>& axes) const
{
    for (const std::string& axis : axes)
        require(std::ranges::find(manual_, axis) != manual_.end(), op,
                str("it is not in a manual computation over '", axis, "'"));
}

const HloValue* HloImporter::find(const std::string& name) const
{
    for (const Scope* scope = scope_; scope; scope = scope->outer)
        if (const auto found = scope->values.find(name); found != scope->values.end())
            return &found->second;
    return nullptr;
}

const HloValue& HloImporter::operand(const HloOp& op, std::size_t i) const
{
    if (i >= op.operands.size())
        refuse(op, str("it has ", op.operands.size(), " operands"));
    const std::string& name = op.operands[i];
    const HloValue* found = find(name);
    if (!found && !name.ends_with("#0"))
        found = find(name + "#0");
    if (!found)
        refuse(op, str("its operand ", name, " is not defined before it"));
    if (!found->type.refused.empty())
        refuse(op, str("its operand ", name, " is ", found->type.refused),
               "use tensors of f64, f32, bf16, i32 or i1, with known extents above 0");
    return *found;
}

std::vector<HloValue> HloImporter::operands(const HloOp& op) const
{
    std::vector<HloValue> all;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
        all.push_back(operand(op, i));
    return all;
}

const HloType& HloImporter::result_type(const HloOp& op, std::size_t i) const
{
    require(i < op.result_types.size(), op, "it lacks the type of its result");
    return op.result_types[i];
}

DType HloImporter::dtype(const HloType& type, const HloOp& op) const
{
    if (!type.refused.empty() || std::ranges::find(type.shape, 0) != type.shape.end())
        refuse(op, "a graph has no tensors of type " + to_string(type),
               "use tensors of f64, f32, bf16, i32 or i1, with known extents above 0");
    switch (type.element) {
    case HloElement::f64: return DType::f64;
    case HloElement::f32: return DType::f32;
    case HloElement::bf16: return DType::bf16;
    default: return DType::i32;
    }
}

ValueId HloImporter::value_of(const HloValue& value, const HloOp& op)
{
    require(value.id || value.known, op, "it reads a tensor without elements");
    return value.id ? value.id : literal_value(*value.known, op);
}

std::vector<ValueId> HloImporter::values(const HloOp& op)
{
    std::vector<ValueId> all;
    for (std::size_t i = 0; i < op.operands.size(); ++i)
        all.push_back(value(op, i));
    return all;
}

void HloImporter::give(const HloOp& op, HloValue value, std::size_t result)
{
    require(result < op.results.size(), op, "it lacks a result");
    scope_->values[op.results[result]] = std::move(value);
}

void HloImporter::give(const HloOp& op, ValueId id, std::size_t result, i64 iota_dim)
{
    if (result >= op.results.size())
        return;
    const HloType& stated = result_type(op, result);
    const TensorType &made = graph_[id].type, wanted{dtype(stated, op), stated.shape};
    if (made != wanted)
        refuse(op, str("its result is ", to_string(stated), ", and computed as ", made));
    scope_->values[op.results[result]] = {stated, {}, id, iota_dim};
}

std::optional<i64> HloImporter::known_int(const HloOp& op, std::size_t i) const
{
    const HloValue& value = operand(op, i);
    if (!value.known || is_real(value.type.element) || !value.type.shape.empty())
        return {};
    return int_at(*value.known, 0);
}

HloImporter::Numbers HloImporter::list(const HloOp& op, const char* name, const char* other) const
{
    const HloAttribute* found = op.attributes.find(name);
    return numbers_of(found || !other ? found : op.attributes.find(other));
}

HloImporter::Numbers HloImporter::list_or(const HloOp& op, const HloAttribute* found, const char* name,
                                          std::size_t length, i64 otherwise) const
{
    Numbers all = numbers_of(found);
    if (all.empty())
        all.assign(length, otherwise);
    require(all.size() == length, op, str("its attribute ", name, " has ", all.size(), " numbers"));
    return all;
}

const HloRegion& HloImporter::region(const HloOp& op, std::size_t i) const
{
    require(i < op.regions.size(), op, "it lacks a region");
    return op.regions[i];
}

std::string HloImporter::simple_region(const HloOp& op, std::size_t i) const
{
    const HloRegion& body = region(op, i);
    if (body.arguments.size() != 2 || body.ops.empty())
        return "";
    const std::string &first = body.arguments[0].name, &second = body.arguments[1].name;
    const HloOp& end = body.ops.back();
    if (end.operands.size() != 1)
        return "";
    if (body.ops.size() == 1)
        return end.operands[0] == second ? "second" : end.operands[0] == first ? "first" : "";
    const HloOp& only = body.ops[0];
    const bool both = only.operands == std::vector{first, second} ||
                      (only.operands == std::vector{second, first} && only.name != "stablehlo.subtract");
    if (body.ops.size() != 2 || !both || only.results != end.operands || !only.name.starts_with("stablehlo."))
        return "";
    return only.name.substr(10);
}

// ---- ops and functions

void HloImporter::visit(const HloOp& op)
{
    if (++visited_ > max_visited)
        refuse(op, str("the program runs more than ", max_visited, " ops when its loops are written out"),
               "use fewer or smaller loops");
    const std::size_t dot = op.name.find('.');
    const std::string_view name = std::string_view(op.name).substr(dot == std::string::npos ? 0 : dot + 1);
    const auto is_empty = [](const HloType& made) { return std::ranges::count(made.shape, 0) > 0; };
    if (!op.result_types.empty() && std::ranges::all_of(op.result_types, is_empty)) {
        for (std::size_t r = 0; r < op.results.size(); ++r)
            give(op, HloValue{result_type(op, r)}, r);
        return;
    }
    std::vector<const HloLiteral*> known;
    std::optional<HloElement> wide;
    for (std::size_t i = 0; i < op.operands.size(); ++i) {
        const HloValue& value = operand(op, i);
        if (value.known)
            known.push_back(&*value.known);
        if (is_wide(value.type) && !value.known)
            wide = value.type.element;
    }
    if (!op.operands.empty() && known.size() == op.operands.size() && op.results.size() == 1)
        if (auto literal = folded(op, known, result_type(op)))
            return give(op, HloValue{result_type(op), std::move(literal)});
    for (const HloType& type : op.result_types)
        if (is_wide(type))
            wide = type.element;
    const i64 most = largest_result(*this, op);
    if (wide && most < 0 && !keeps_integers(name, *wide))
        refuse(op, "its integers are not i32, and what it computes may leave the range of i32",
               "compute with i32 (in JAX, without jax_enable_x64)");
    const auto found = handlers().find(name);
    if (found == handlers().end())
        refuse(op, "there is no such op");
    found->second(*this, op);
    if (most >= 0 && !op.results.empty())
        if (const auto made = scope_->values.find(op.results[0]); made != scope_->values.end())
            made->second.most = most;
    annotate(op);
}

/// What the op's attributes state of its results.
void HloImporter::annotate(const HloOp& op)
{
    if (op.attributes.names.empty())
        return;
    for (std::size_t i = 0; i < op.results.size(); ++i) {
        const auto held = scope_->values.find(op.results[i]);
        if (held == scope_->values.end() || !held->second.id)
            continue;
        Value& value = graph_[held->second.id];
        if (value.sharding->dims.empty() && value.producer)
            if (auto stated = mesh_.of(op.attributes, value.type.shape.size(), place(op), i))
                value.sharding = std::move(*stated);
    }
}

std::vector<HloValue> HloImporter::run_ops(const HloOp* caller, const std::vector<HloOp>& ops)
{
    for (const HloOp& op : ops) {
        if (!op.name.ends_with(".return")) {
            visit(op);
            continue;
        }
        return operands(op);
    }
    if (caller)
        refuse(*caller, "its region does not return");
    throw UserError(
        {file_, "has a function that does not return", "", "give StableHLO text, as jax.export writes it"});
}

std::vector<HloValue> HloImporter::run_region(const HloOp& op, const HloRegion& region,
                                              std::vector<HloValue> arguments)
{
    require(arguments.size() == region.arguments.size(), op,
            str("its region has ", region.arguments.size(), " arguments, not ", arguments.size()));
    Scope inner{scope_};
    for (std::size_t i = 0; i < arguments.size(); ++i)
        inner.values[region.arguments[i].name] = std::move(arguments[i]);
    if (++depth_ > max_calls)
        refuse(op, str("it is in more than ", max_calls, " calls"));
    scope_ = &inner;
    std::vector<HloValue> results = run_ops(&op, region.ops);
    scope_ = inner.outer;
    --depth_;
    return results;
}

std::vector<HloValue> HloImporter::call(const HloOp& op, const std::string& name,
                                        std::vector<HloValue> arguments)
{
    const auto found = functions_.find(name);
    require(found != functions_.end(), op, str("there is no function @", name));
    Scope* const before = scope_;
    scope_ = nullptr; // a function sees only its arguments
    std::vector<HloValue> results = run_region(op, found->second->body, std::move(arguments));
    scope_ = before;
    require(results.size() >= op.results.size(), op, str("@", name, " returns ", results.size(), " values"));
    return results;
}

void HloImporter::add_argument(const HloFunction& main, std::size_t i)
{
    const HloArgument& argument = main.body.arguments[i];
    const HloOp here{"argument " + argument.name, main.line};
    std::string name = located_name(argument.location);
    if (name.empty() || names_.contains(name))
        name = legal_name(argument.name.substr(1));
    while (name.empty() || !names_.insert(name).second)
        name += "_";
    const bool trained =
        !how_.parameters.empty() && is_real(argument.type.element) && std::regex_search(name, parameters_);
    const ValueId id =
        builder_.value(name, {dtype(argument.type, here), argument.type.shape},
                       trained ? Role::parameter : Role::input, trained ? Init(NormalInit{0.02}) : Init());
    if (auto sharding = mesh_.of(argument.attributes, argument.type.shape.size(), place(here)))
        graph_[id].sharding = std::move(*sharding);
    scope_->values[argument.name] = {argument.type, {}, id};
}

void HloImporter::add_output(const HloFunction& main, std::size_t i, const HloValue& value, const HloOp& op)
{
    std::optional<Sharding> sharding;
    if (i < main.result_attributes.size())
        sharding = mesh_.of(main.result_attributes[i], value.type.shape.size(), place(op));
    ValueId id = value_of(value, op);
    const bool is_output = std::ranges::find(graph_.outputs, id) != graph_.outputs.end();
    if (!graph_[id].producer || is_output || (sharding && !graph_[id].sharding->dims.empty()))
        id = emit(op, K::reshard, {id});
    if (sharding)
        graph_[id].sharding = std::move(*sharding);
    std::string name = i == 0 && how_.loss ? "loss" : str("out", i);
    require(!(i == 0 && how_.loss) || value.type.shape.empty(), op,
            "--loss: the first result is not a scalar");
    while (names_.contains(name))
        name += "_";
    graph_[id].name = name;
    graph_.outputs.push_back(id);
}

HloGraph HloImporter::run()
{
    const HloFunction* main = nullptr;
    for (const HloFunction& function : module_.functions)
        if (function.is_public && (!main || function.name == "main"))
            main = &function;
    if (!main)
        throw UserError(
            {file_, "has no public function", "", "give StableHLO text, as jax.export writes it"});
    graph_.name = legal_name(module_.name.empty() ? main->name : module_.name);
    if (graph_.name.empty())
        graph_.name = "main";
    graph_.mesh = mesh_.mesh();
    Scope scope;
    scope_ = &scope;
    for (std::size_t i = 0; i < main->body.arguments.size(); ++i)
        add_argument(*main, i);
    for (const char* name : {"out", "loss"}) // names of results
        builder_.reserve(name);
    const std::vector<HloValue> results = run_ops(nullptr, main->body.ops);
    for (std::size_t i = 0; i < results.size(); ++i)
        add_output(*main, i, results[i], main->body.ops.back());
    std::vector<ValueId> constants;
    for (const HloContents& contents : made_.contents)
        constants.push_back(graph_.find(contents.name));
    graph_ = only_needed(std::move(graph_), constants);
    std::erase_if(made_.contents, [&](const HloContents& c) { return !graph_.find(c.name); });
    try {
        verify(graph_, Level::global);
    } catch (const UserError& error) {
        throw UserError(
            {file_, "does not become a legal graph", on_one_line(error), "correct the shardings and types"});
    }
    return std::move(made_);
}

std::vector<std::string> imported_hlo_ops()
{
    std::vector<std::string> names;
    for (const auto& [name, handler] : handlers())
        names.emplace_back(name);
    std::ranges::sort(names);
    return names;
}

HloGraph import_hlo(std::string_view text, const std::string& file, const HloImport& how)
{
    const HloModule module = parse_hlo(text, file);
    return HloImporter(module, file, how).run();
}

} // namespace trivium
