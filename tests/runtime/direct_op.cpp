#include "direct_op.hpp"

#include "catch.hpp"
#include "harness.hpp"
#include "ir/builder.hpp"
#include "ir/verify.hpp"
#include "passes/sharding/op_sharding.hpp"
#include "runtime/dispatch.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

namespace trivium::runs {

namespace {

constexpr Bytes scratch_size = Bytes{1} << 22, guard = 256;

/// Aligned memory with a pattern behind it that kernels must leave.
struct Memory {
    std::vector<std::byte> bytes;
    std::size_t begin = 0, size = 0;

    explicit Memory(Bytes wanted) : bytes(static_cast<std::size_t>(wanted + 64 + guard), std::byte{0xa5})
    {
        const auto at = reinterpret_cast<std::uintptr_t>(bytes.data());
        begin = static_cast<std::size_t>((at + 63) / 64 * 64 - at);
        size = static_cast<std::size_t>(wanted);
    }
    void* data() { return bytes.data() + begin; }
    bool intact() const
    {
        const auto end = bytes.begin() + static_cast<std::ptrdiff_t>(begin + size);
        return std::all_of(end, end + (guard - 64), [](std::byte b) { return b == std::byte{0xa5}; });
    }
};

void store(Memory& memory, const Array& array)
{
    with_tensor_type(array.type.dtype, [&](auto t) {
        auto* to = static_cast<decltype(t)*>(memory.data());
        for (const double cell : array.cells)
            *to++ = decltype(t)(static_cast<kernels::Acc<decltype(t)>>(cell));
    });
}

Array load(Memory& memory, const TensorType& type)
{
    Array array{type, {}};
    with_tensor_type(type.dtype, [&](auto t) {
        const auto* from = static_cast<const decltype(t)*>(memory.data());
        for (i64 i = 0; i < type.elements(); ++i)
            array.cells.push_back(static_cast<double>(from[i]));
    });
    return array;
}

/// Runs the last op of `graph`.
std::vector<Array> run_last(const Graph& graph, const std::vector<Array>& operands)
{
    start_runtime();
    static Dispatch dispatch(2);
    const Op& op = graph.ops.back();
    Binding binding;
    binding.graph = &graph;
    binding.op = &op;
    binding.overwrite = true;
    std::vector<Memory> in, out;
    static Memory scratch(scratch_size); // kernels expect nothing in it
    for (const Array& array : operands) {
        in.emplace_back(array.type.bytes());
        store(in.back(), array);
    }
    for (const ValueId id : op.results)
        out.emplace_back(graph[id].type.bytes());
    for (Memory& memory : in)
        binding.operands.push_back(memory.data());
    for (Memory& memory : out)
        binding.results.push_back(memory.data());
    binding.scratch = {scratch.data(), scratch_size};
    dispatch.bind(binding)({2, nullptr});
    REQUIRE(scratch.intact());
    std::vector<Array> results;
    for (std::size_t i = 0; i < out.size(); ++i) {
        REQUIRE(out[i].intact());
        results.push_back(load(out[i], graph[op.results[i]].type));
    }
    for (std::size_t i = 0; i < in.size(); ++i) {
        REQUIRE(in[i].intact());
        check_equal(load(in[i], operands[i].type), operands[i], 0);
    }
    return results;
}

Graph graph_of(const std::vector<Array>& operands)
{
    Graph graph;
    graph.name = "one op";
    Builder b(graph);
    for (std::size_t i = 0; i < operands.size(); ++i)
        b.value(str("in", i), operands[i].type, Role::input);
    return graph;
}

std::vector<ValueId> first_values(std::size_t count)
{
    std::vector<ValueId> ids;
    for (std::size_t i = 0; i < count; ++i)
        ids.emplace_back(i);
    return ids;
}

/// Calls visit(cell of the whole tensor, cell of the box) for each element of the box.
template <class Visit>
void each_cell(const Shape& whole, const Box& box, Visit&& visit)
{
    for_each_run(whole, box, [&](i64 global, i64 local, i64 count) {
        for (i64 i = 0; i < count; ++i)
            visit(static_cast<std::size_t>(global + i), static_cast<std::size_t>(local + i));
    });
}

Array part_of(const Array& whole, const Box& box)
{
    Array part{{whole.type.dtype, box.shape},
               std::vector<double>(static_cast<std::size_t>(element_count(box.shape)))};
    each_cell(whole.type.shape, box,
              [&](std::size_t global, std::size_t local) { part.cells[local] = whole.cells[global]; });
    return part;
}

double joined(double a, double b, Combine combine)
{
    switch (combine) {
    case Combine::max: return std::max(a, b);
    case Combine::min: return std::min(a, b);
    case Combine::product: return a * b;
    default: return a + b;
    }
}

void check_assignment(const Graph& whole_graph, const OpSharding& sharding, const Assignment& assignment,
                      const AxisParts& parts, const std::vector<Array>& operands,
                      const std::vector<Array>& whole)
{
    const Mesh& mesh = whole_graph.mesh;
    std::set<std::string> used;
    for (const PartList& list : assignment)
        for (const std::string& axis : parts.names_of(list))
            used.insert(axis);
    // By result: each element's contributions, by the rank's coordinates on the axes over which it is
    // partial.
    std::vector<std::vector<std::map<std::vector<i64>, double>>> made(whole.size());
    std::vector<Layout> layouts;
    for (std::size_t r = 0; r < whole.size(); ++r) {
        made[r].resize(whole[r].cells.size());
        layouts.push_back(sharding.result_layout(r, assignment));
    }
    for (i64 rank = 0; rank < mesh.ranks(); ++rank) {
        const Coordinates at = mesh.coordinates(rank);
        bool idle = false;
        for (std::size_t a = 0; a < mesh.axes.size(); ++a)
            idle = idle || (at[a] != 0 && used.count(mesh.axes[a].name) == 0);
        if (idle)
            continue;
        std::vector<Array> local;
        for (std::size_t i = 0; i < operands.size(); ++i)
            local.push_back(part_of(operands[i], sharding.operand_box(i, assignment, at)));
        Graph graph = graph_of(local);
        graph.mesh = mesh;
        graph.at = at;
        Op op = sharding.local_op(assignment, at);
        op.operands = first_values(local.size());
        op.results.clear();
        const std::vector<TensorType> types = infer(graph, op);
        for (std::size_t r = 0; r < types.size(); ++r) {
            const Box box = sharding.result_box(r, assignment, at);
            REQUIRE(types[r] == TensorType{whole[r].type.dtype, box.shape});
            Value v;
            v.name = str("out", r);
            v.type = types[r];
            graph.values.push_back(v);
            op.results.emplace_back(graph.values.size() - 1);
        }
        graph.ops.push_back(op);
        const std::vector<Array> results = run_last(graph, local);
        for (std::size_t r = 0; r < results.size(); ++r) {
            std::vector<i64> place;
            for (const Partial& partial : layouts[r].partial)
                place.push_back(mesh.index_along(partial.axis, at));
            const Box box = sharding.result_box(r, assignment, at);
            each_cell(whole[r].type.shape, box, [&](std::size_t global, std::size_t cell) {
                const double value = results[r].cells[cell];
                const auto [known, added] = made[r][global].emplace(place, value);
                if (!added && known->second != value && !(std::isnan(value) && std::isnan(known->second)))
                    FAIL_CHECK("rank " << rank << " has another element " << global << " of result " << r);
            });
        }
    }
    for (std::size_t r = 0; r < whole.size(); ++r) {
        Array all = whole[r];
        for (std::size_t i = 0; i < all.cells.size(); ++i) {
            if (made[r][i].empty())
                FAIL("no rank has element " << i);
            double value = made[r][i].begin()->second;
            for (auto more = std::next(made[r][i].begin()); more != made[r][i].end(); ++more)
                value = joined(value, more->second, layouts[r].partial[0].combine);
            all.cells[i] = rounded(value, all.type.dtype);
        }
        check_equal(all, whole[r], all.type.dtype == DType::f64 ? 1e-12 : 1e-5);
    }
}

/// Whether each rank has a part of each factor, and one range of each dimension.
bool is_possible(const FactorRule& rule, const Assignment& assignment, const AxisParts& parts)
{
    const auto count = [&](int f) {
        i64 product = 1;
        for (const PartId part : assignment[static_cast<std::size_t>(f)])
            product *= parts[part].size;
        return product;
    };
    for (std::size_t f = 0; f < rule.factors.size(); ++f) {
        if (count(static_cast<int>(f)) > rule.factors[f].size)
            return false;
        bool single = true;
        for (const int part : rule.factors[f].parts) {
            if (!single && count(part) > 1)
                return false;
            single = single && count(part) == rule[part].size;
        }
    }
    return true;
}

} // namespace

double rounded(double value, DType type)
{
    return with_tensor_type(type, [&](auto t) {
        return static_cast<double>(decltype(t)(static_cast<kernels::Acc<decltype(t)>>(value)));
    });
}

std::vector<Array> run_op(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands)
{
    Graph graph = graph_of(operands);
    Builder(graph).op(kind, first_values(operands.size()), attrs);
    return run_last(graph, operands);
}

int check_parts(OpKind kind, const Attributes& attrs, const std::vector<Array>& operands,
                const std::vector<Array>& whole)
{
    Graph graph = graph_of(operands);
    graph.mesh = {{{"x", 2}, {"y", 3}}};
    Builder(graph).op(kind, first_values(operands.size()), attrs);
    for (Value& value : graph.values)
        value.sharding.edit().dims.resize(value.type.shape.size());
    const AxisParts parts(graph.mesh, {}, true);
    const OpSharding sharding(graph, graph.ops.back(), parts, "");
    const FactorRule& rule = sharding.rule();
    std::vector<int> factors{-1};
    for (std::size_t f = 0; f < rule.factors.size(); ++f)
        if (!rule.factors[f].composed() && rule.factors[f].kind != FactorKind::replicated)
            factors.push_back(static_cast<int>(f));
    int ways = 0;
    for (const int fx : factors)
        for (const int fy : factors) {
            Assignment assignment(rule.factors.size());
            if (fy >= 0)
                assignment[static_cast<std::size_t>(fy)] = parts.parts_of("y");
            if (fx >= 0)
                assignment[static_cast<std::size_t>(fx)].push_back(parts.parts_of("x")[0]);
            if ((fx < 0 && fy < 0) || !is_possible(rule, assignment, parts))
                continue;
            INFO("x shards factor " << fx << ", y factor " << fy);
            check_assignment(graph, sharding, assignment, parts, operands, whole);
            ++ways;
        }
    return ways;
}

void check_equal(const Array& made, const Array& expected, double tolerance)
{
    REQUIRE(made.type == expected.type);
    REQUIRE(made.cells.size() == expected.cells.size());
    for (std::size_t i = 0; i < made.cells.size(); ++i) {
        const double a = made.cells[i], b = expected.cells[i];
        if (a == b || (std::isnan(a) && std::isnan(b)))
            continue;
        const double scale = std::max({1.0, std::abs(a), std::abs(b)});
        if (!(std::abs(a - b) <= tolerance * scale)) {
            INFO("element " << i);
            CHECK(a == b);
            return;
        }
    }
}

} // namespace trivium::runs
