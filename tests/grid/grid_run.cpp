#include "grid/grid_run.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "runtime/dtypes.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <numeric>

namespace trivium::grids {

namespace {

/// What one rank knows of a tensor over all ranks.
class Collector {
public:
    explicit Collector(Comm& world) : world_(world) {}

    void add(const std::string& name, const Shape& whole, const Box& box, DType type, const std::byte* data)
    {
        std::string& part = parts_;
        const auto number = [&](i64 value) { part.append(reinterpret_cast<const char*>(&value), sizeof value); };
        number(static_cast<i64>(name.size()));
        part += name;
        number(element_count(whole));
        number(element_count(box.shape));
        with_type(type, [&](auto t) {
            const auto* typed = reinterpret_cast<const decltype(t)*>(data);
            for_each_run(whole, box, [&](i64 global, i64 local, i64 count) {
                for (i64 i = 0; i < count; ++i) {
                    const auto value = static_cast<double>(static_cast<kernels::Acc<decltype(t)>>(typed[local + i]));
                    number(global + i);
                    part.append(reinterpret_cast<const char*>(&value), sizeof value);
                }
            });
        });
    }

    reference::Tensors collect()
    {
        struct Whole {
            reference::Vector values;
            std::vector<bool> known;
        };
        std::map<std::string, Whole> all;
        for (const std::string& part : gather_texts(world_, parts_)) {
            const char* at = part.data();
            const auto number = [&] {
                i64 value = 0;
                std::memcpy(&value, at, sizeof value);
                at += sizeof value;
                return value;
            };
            while (at < part.data() + part.size()) {
                const auto length = static_cast<std::size_t>(number());
                const std::string name(at, length);
                at += length;
                Whole& tensor = all[name];
                tensor.values.resize(static_cast<std::size_t>(number()));
                tensor.known.resize(tensor.values.size());
                for (i64 left = number(); left > 0; --left) {
                    const auto index = static_cast<std::size_t>(number());
                    double value = 0;
                    std::memcpy(&value, at, sizeof value);
                    at += sizeof value;
                    TRV_CHECK(!tensor.known[index] || std::memcmp(&tensor.values[index], &value, sizeof value) == 0, name, "[", index,
                              "] differs between ranks: ", tensor.values[index], " and ", value);
                    tensor.values[index] = value;
                    tensor.known[index] = true;
                }
            }
        }
        reference::Tensors made;
        for (auto& [name, tensor] : all) {
            TRV_CHECK(std::find(tensor.known.begin(), tensor.known.end(), false) == tensor.known.end(), "no rank has a part of ", name);
            made[name] = std::move(tensor.values);
        }
        return made;
    }

private:
    Comm& world_;
    std::string parts_;
};

/// Random numbers by global index: norms' weights around 1, the others around 0.
void randomise(const Program& program, Arena& arena)
{
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        const double centre = v.name.find("norm.weight") != std::string::npos ? 1 : 0;
        const RandomStream stream(7, "test " + v.name);
        std::byte* data = arena.at(kept_buffer(program.schedule, v.name).offset);
        with_type(v.type.dtype, [&](auto t) {
            auto* to = reinterpret_cast<decltype(t)*>(data);
            for_each_run(whole_shape(v), box_of(program.graph, id), [&](i64 global, i64 local, i64 count) {
                for (i64 i = 0; i < count; ++i)
                    to[local + i] = decltype(t)(static_cast<kernels::Acc<decltype(t)>>(centre + 0.3 * stream.normal_at(static_cast<u64>(global + i))));
            });
        });
    }
}

Box gradient_box(const Graph& g, const Value& gradient, const Shape& whole) { return box_of(whole, gradient.sharding, g.mesh, g.at); }

/// The gradient that the update of `parameter` will read, and where it lies.
std::pair<ValueId, const std::byte*> gradient_of(const Program& program, const Arena& arena, const std::string& parameter)
{
    const Graph& g = program.graph;
    const OpId update = g[g.find(parameter + "'")].producer;
    for (const Step& step : program.schedule.steps)
        if (step.kind == StepKind::op && step.op == update)
            return {g[update].operands[3], arena.at(program.schedule[step.operands[3]].offset)};
    throw InternalError(__FILE__, __LINE__, "no step updates " + parameter);
}

} // namespace

std::string Case::text() const
{
    const ParallelConfig& p = parallel;
    return str(model.llama ? "llama" : "gpt2", model.tied ? " tied" : "", ", ", name_of(precision), ", ", model.layers, " layers, ", model.heads,
               " heads (", model.kv_heads, "), data ", p.data, " x pipeline ", p.pipeline, " x tensor ", p.tensor, ", ", name_of(p.schedule), ", zero ",
               p.zero, p.sequence ? ", sequence" : "", ", micro_batch ", micro_batch, ", bucket ", p.bucket, p.overlap ? "" : ", no overlap");
}

RunConfig config_of(const Case& c)
{
    RunConfig config = runs::config_of(c.model, c.precision, c.rows, 1);
    config.parallel = c.parallel;
    config.parallel.threads = 1;
    config.train.micro_batch = c.micro_batch;
    resolve_and_validate(config);
    return config;
}

Outcome train(const Case& c, Comm& world, const Meddle& meddle)
{
    const RunConfig config = config_of(c);
    CompileConfig options;
    options.rank = world.rank();
    Compiled compiled = compile_training(config, options);
    Program& program = compiled.programs[train_program];
    if (meddle) {
        meddle(program.graph);
        ScheduleConfig schedule{config.parallel.schedule, compiled.at[1], config.parallel.pipeline, program.microbatches, options.machine.scratch};
        program.schedule = build_schedule(program.graph, schedule);
        compiled.memory = plan_memory({&program.schedule}, {256, contracts_on ? 256 : 0, 0});
    }
    Arena arena(compiled.memory.arena);
    const Grid grid(world, program.graph.mesh, "node");
    ExecutorConfig execution;
    execution.red_zone = contracts_on ? 256 : 0;
    execution.overlap = config.parallel.overlap;
    Executor executor(program.graph, program.schedule, arena, execution, &grid);
    initialise(program.graph, program.schedule, arena, 1, 1);
    randomise(program, arena);

    const i64 batch = config.train.micro_batch * config.parallel.data; // rows of a microbatch over all data ranks
    Outcome outcome;
    for (int step = 0; step < c.steps; ++step) {
        const runs::Batch data = runs::random_batch(c.model, c.rows, static_cast<u64>(step) + 3);
        const double t = step + 1;
        const double hyper[hyper_count] = {0.02, 0.9, 0.95, 1e-8, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t)};
        executor.run_until_decision([&](const Value& value, i64 microbatch, void* destination) {
            if (value.role == Role::hyper) {
                std::memcpy(destination, hyper, sizeof hyper);
                return;
            }
            const Box box = box_of(program.graph, program.graph.find(value.name));
            auto* to = static_cast<std::int32_t*>(destination);
            const i64 seq = c.model.seq;
            for (i64 row = 0; row < box.shape[0]; ++row, to += seq) {
                const i64 from = (microbatch * batch + box.offset[0] + row) * seq;
                if (value.name == "positions")
                    std::iota(to, to + seq, 0);
                else
                    std::copy_n((value.name == "tokens" ? data.tokens : data.targets).begin() + from, seq, to);
            }
        });
        outcome.losses.push_back(executor.fetched("totals", total_loss) / executor.fetched("totals", total_tokens));
        outcome.norms.push_back(executor.fetched("global_norm", 0));
        if (step == 0) {
            Collector gradients(world);
            for (const ValueId id : program.graph.with_role(Role::parameter)) {
                const Value& v = program.graph[id];
                const auto [gradient, data_of] = gradient_of(program, arena, v.name);
                gradients.add(v.name, whole_shape(v), gradient_box(program.graph, program.graph[gradient], whole_shape(v)), program.graph[gradient].type.dtype, data_of);
            }
            outcome.gradients = gradients.collect();
        }
        executor.run_after_decision();
    }
    Collector parameters(world), moments(world);
    for (const Role role : {Role::parameter, Role::state})
        for (const ValueId id : program.graph.with_role(role)) {
            const Value& v = program.graph[id];
            (role == Role::parameter ? parameters : moments)
                .add(v.name, whole_shape(v), box_of(program.graph, id), v.type.dtype, arena.at(kept_buffer(program.schedule, v.name).offset));
        }
    outcome.parameters = parameters.collect();
    outcome.moments = moments.collect();
    if (!meddle)
        TRV_CHECK(executor.used() <= compiled.memory.arena, "used ", executor.used(), " of ", compiled.memory.arena);
    return outcome;
}

Outcome train_on_threads(const Case& c, const Meddle& meddle)
{
    runs::start_runtime();
    Outcome outcome;
    std::mutex mutex;
    run_on_threads(static_cast<int>(rank_count(c.parallel)), [&](Comm& world) {
        Outcome mine = train(c, world, meddle);
        const std::lock_guard<std::mutex> lock(mutex);
        if (world.rank() == 0)
            outcome = std::move(mine);
    });
    return outcome;
}

double largest_difference(const reference::Tensors& got, const reference::Tensors& want)
{
    double largest = got.size() == want.size() ? 0 : INFINITY;
    double everywhere = 0;
    for (const auto& [name, values] : want)
        for (const double value : values)
            everywhere = std::max(everywhere, std::abs(value));
    for (const auto& [name, values] : want) {
        const auto found = got.find(name);
        if (found == got.end() || found->second.size() != values.size())
            return INFINITY;
        double scale = 1e-3 * everywhere, difference = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
            scale = std::max(scale, std::abs(values[i]));
            const double d = std::abs(found->second[i] - values[i]);
            difference = std::isfinite(d) ? std::max(difference, d) : INFINITY;
        }
        largest = std::max(largest, difference / scale);
    }
    return largest;
}

} // namespace trivium::grids
