#include "small_graph.hpp"

#include "base/check.hpp"
#include "catch.hpp"
#include "harness.hpp"
#include "ir/verify.hpp"
#include "runtime/initialise.hpp"

#include <cstring>

namespace trivium::runs {

SmallGraph::SmallGraph(Graph graph, i64 microbatches, Ids ids) : ids_(std::move(ids))
{
    start_runtime();
    verify(graph, graph.at.empty() ? Level::global : Level::local);
    program.graph = std::move(graph);
    program.schedule = build_schedule(
        program.graph, {.microbatches = microbatches, .scratch = small_machine().machine.scratch});
    MemoryConfig memory;
    memory.red_zone = contracts_on ? 256 : 0;
    plan = plan_memory({&program.schedule}, memory);
    arenas = std::make_unique<Arenas>(plan.arena);
    initialise(program.graph, program.schedule, *arenas, 1, 1);
    draw_parameters(program, *arenas, 3, "test", 0.4);
    ExecutorConfig config;
    config.red_zone = memory.red_zone;
    executor = std::make_unique<Executor>(program.graph, program.schedule, *arenas, config);
}

void SmallGraph::run(const std::vector<double>& hyper)
{
    executor->run_until_decision([&](const Value& value, i64 microbatch, void* destination) {
        if (value.role == Role::hyper) {
            std::memcpy(destination, hyper.data(), hyper.size() * sizeof(double));
            return;
        }
        const std::vector<std::int32_t> ids = ids_(value, microbatch);
        REQUIRE(static_cast<i64>(ids.size()) == value.type.elements());
        std::memcpy(destination, ids.data(), ids.size() * sizeof(std::int32_t));
    });
}

reference::Vector SmallGraph::fetched(const std::string& name) const
{
    reference::Vector values;
    for (i64 i = 0; i < program.graph[program.graph.find(name)].type.elements(); ++i)
        values.push_back(executor->fetched(name, i));
    return values;
}

void SmallGraph::require_planned_is_used() const
{
    REQUIRE(executor->used() == plan.arena);
    if constexpr (contracts_on)
        REQUIRE(arenas->of(Space::device).high_water() == plan.arena);
}

void add_output(Builder& b, ValueId x, const std::string& name)
{
    const TensorType& type = b.graph()[x].type;
    const ValueId before = b.value(name + ".before", {accumulator_of(type.dtype), type.shape}, Role::carry);
    const ValueId sum = b.add_into(before, x);
    b.graph()[sum].name = name;
    b.graph().carries.push_back({before, sum});
    b.graph().outputs.push_back(sum);
}

void make_loss_sum(Builder& b, ValueId x)
{
    const ValueId in = b.value("loss_sum.before", {DType::f64, {}}, Role::carry);
    const ValueId out = b.add_into(in, b.op1(OpKind::sum, {x}, {}, "loss_sum"));
    b.graph().carries.push_back({in, out});
    b.graph().outputs.push_back(out);
}

} // namespace trivium::runs
