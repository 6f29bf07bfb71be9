// Functions that JAX exported as StableHLO compute what JAX computed, on one and on several ranks.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "jax_cases.hpp"
#include "passes/autodiff.hpp"
#include "plan/graph_file.hpp"
#include "programs/compare.hpp"
#include "programs/runs.hpp"
#include "ranks/elements.hpp"
#include "stablehlo/import.hpp"

#include <cmath>
#include <cstdlib>

using namespace trivium;

namespace {

constexpr double tolerance = 1e-5;

const std::vector<jax::Case>& cases()
{
    static const std::vector<jax::Case> all = jax::read_cases(TRIVIUM_TEST_DATA "/stablehlo/jax");
    return all;
}

using Tensors = std::map<std::string, TensorBytes>;

TensorBytes bytes_of(const TensorType& type, const std::vector<double>& elements)
{
    TensorBytes bytes(static_cast<std::size_t>(type.bytes()));
    for (std::size_t i = 0; i < elements.size(); ++i)
        put(type.dtype, bytes.data(), static_cast<i64>(i), elements[i]);
    return bytes;
}

/// The arguments of the case, and constants that became inputs.
Tensors tensors_of(const jax::Case& c, const HloGraph& made)
{
    Tensors tensors;
    for (const HloContents& contents : made.contents)
        tensors[contents.name] = contents.bytes;
    int argument = 0;
    for (const Value& value : made.graph.values)
        if (!value.producer && !tensors.contains(value.name)) {
            const jax::CaseTensor& tensor = c.in.at(argument++);
            REQUIRE(static_cast<i64>(tensor.elements.size()) == value.type.elements());
            tensors[value.name] = bytes_of(value.type, tensor.elements);
        }
    return tensors;
}

/// On a mesh with x=2 and, if `both`, y=2: x shards the first dimension of each argument, y the last one.
Graph on_mesh(Graph graph, bool both)
{
    graph = unpartitioned(std::move(graph));
    graph.mesh.axes = {{"x", 2}};
    if (both)
        graph.mesh.axes.push_back({"y", 2});
    for (Value& value : graph.values) {
        const Shape& shape = value.type.shape;
        if (value.producer || value.role == Role::carry || shape.empty())
            continue;
        value.sharding.edit().dims.resize(shape.size());
        if (shape[0] > 1)
            value.sharding.edit().dims[0].axes = {"x"};
        if (both && shape.size() > 1 && shape.back() > 1)
            value.sharding.edit().dims.back().axes = {"y"};
    }
    return graph;
}

std::vector<ComparedOutput> run(const Graph& graph, const Tensors& tensors)
{
    runs::start_runtime();
    const Graph sharded = sharded_graph(read_graph(to_text(graph), "imported"));
    const TensorSource source = [&](const Value& value, const Box& box, std::byte* to) {
        if (value.role == Role::carry)
            std::fill_n(to, element_count(box.shape) * size_of(value.type.dtype), std::byte{0});
        else
            copy_box(value.type, tensors.at(value.name).data(), box, to);
    };
    return runs::comparison_on_threads(sharded, source).outputs;
}

/// The largest |got - expected| over the largest |expected|, or over 1 if that is more and `absolute`.
double difference(const ComparedOutput& got, const jax::CaseTensor& expected)
{
    double largest = 0, most = 0;
    for (std::size_t i = 0; i < expected.elements.size(); ++i) {
        const double x = expected.elements[i], y = get(got.type.dtype, got.whole.data(), static_cast<i64>(i));
        if (std::isnan(x) != std::isnan(y) || (std::isinf(x) && x != y))
            return INFINITY;
        if (std::isfinite(x)) {
            largest = std::max(largest, std::abs(x));
            most = std::max(most, std::abs(x - y));
        }
    }
    return most == 0 ? 0 : most / (largest > 0 ? largest : 1);
}

void check_outputs(const jax::Case& c, const Graph& graph, const Tensors& tensors, const std::string& where)
{
    INFO(c.name << " on " << where);
    try {
        const std::vector<ComparedOutput> outputs = run(graph, tensors);
        REQUIRE(outputs.size() == c.out.size());
        for (std::size_t i = 0; i < outputs.size(); ++i) {
            const jax::CaseTensor& expected = c.out.at(static_cast<int>(i));
            INFO("output " << i << ", " << outputs[i].type);
            CHECK(outputs[i].type.dtype == expected.dtype);
            REQUIRE(static_cast<i64>(expected.elements.size()) == outputs[i].type.elements());
            CHECK(difference(outputs[i], expected) <= (expected.dtype == DType::i32 ? 0 : tolerance));
        }
    } catch (const std::exception& error) {
        FAIL_CHECK(error.what());
    }
}

/// Some cases only, for who looks for a mistake.
bool chosen(const jax::Case& c)
{
    const char* only = std::getenv("TRIVIUM_JAX_CASE");
    return !only || c.name == only;
}

} // namespace

TEST_CASE("functions of JAX on one, two and four ranks")
{
    REQUIRE(cases().size() >= 40);
    for (const jax::Case& c : cases()) {
        if (!chosen(c))
            continue;
        const HloGraph made = import_hlo(c.text, c.name + ".mlir");
        const Tensors tensors = tensors_of(c, made);
        check_outputs(c, unpartitioned(made.graph), tensors, "one rank");
        if (made.graph.mesh.ranks() > 1) {
            check_outputs(c, made.graph, tensors, "its own mesh");
        } else {
            check_outputs(c, on_mesh(made.graph, false), tensors, "two ranks");
            check_outputs(c, on_mesh(made.graph, true), tensors, "four ranks");
        }
    }
}

TEST_CASE("gradients of functions of JAX are those of JAX")
{
    int with_gradients = 0;
    for (const jax::Case& c : cases()) {
        if (c.gradient.empty() || !chosen(c))
            continue;
        ++with_gradients;
        INFO(c.name);
        const HloGraph made = import_hlo(c.text, c.name + ".mlir", {.parameters = ".", .loss = true});
        const Tensors tensors = tensors_of(c, made);
        Graph graph = autodiff(made.graph, {});
        std::vector<const jax::CaseTensor*> expected;
        int argument = 0;
        for (const Value& value : made.graph.values)
            if (!value.producer) {
                const auto found = c.gradient.find(argument++);
                if (value.role != Role::parameter || found == c.gradient.end())
                    continue;
                const ValueId gradient = graph.find(str(value_name::gradient, value.name));
                REQUIRE(gradient);
                graph.outputs.push_back(gradient);
                expected.push_back(&found->second);
            }
        const auto check = [&](const Graph& on, const char* where) {
            const std::vector<ComparedOutput> outputs = run(on, tensors);
            REQUIRE(outputs.size() == expected.size() + 1);
            for (std::size_t i = 0; i < expected.size(); ++i) {
                INFO(where << ", gradient " << i);
                CHECK(difference(outputs[i + 1], *expected[i]) <= tolerance);
            }
        };
        try {
            check(unpartitioned(graph), "one rank");
            check(made.graph.mesh.ranks() > 1 ? graph : on_mesh(graph, true), "four ranks");
        } catch (const UserError& error) {
            FAIL_CHECK(error.what());
        }
    }
    CHECK((with_gradients >= 10 || std::getenv("TRIVIUM_JAX_CASE")));
}
