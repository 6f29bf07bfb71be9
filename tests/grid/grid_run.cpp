#include "grid/grid_run.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "runtime/communication.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

namespace trivium::grids {

namespace {

/// What one rank knows of a tensor over all ranks.
class Collector {
public:
    explicit Collector(Comm& world) : world_(world) {}

    void add(const std::string& name, const Shape& whole, const Box& box, const TensorType& in_arena,
             const Arena& arena, Bytes offset)
    {
        HostWindow window(arena, offset, in_arena.bytes());
        window.pull();
        std::string& part = parts_;
        const auto number = [&](i64 value) {
            part.append(reinterpret_cast<const char*>(&value), sizeof value);
        };
        number(static_cast<i64>(name.size()));
        part += name;
        number(element_count(whole));
        number(element_count(box.shape));
        with_type(in_arena.dtype, [&](auto t) {
            const auto* typed = reinterpret_cast<const decltype(t)*>(window.data());
            for_each_run(whole, box, [&](i64 global, i64 local, i64 count) {
                for (i64 i = 0; i < count; ++i) {
                    const auto value =
                        static_cast<double>(static_cast<kernels::Acc<decltype(t)>>(typed[local + i]));
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
                    TRV_CHECK(
                        !tensor.known[index] || std::memcmp(&tensor.values[index], &value, sizeof value) == 0,
                        name, "[", index, "] differs between ranks: ", tensor.values[index], " and ", value);
                    tensor.values[index] = value;
                    tensor.known[index] = true;
                }
            }
        }
        reference::Tensors made;
        for (auto& [name, tensor] : all) {
            TRV_CHECK(std::find(tensor.known.begin(), tensor.known.end(), false) == tensor.known.end(),
                      "no rank has a part of ", name);
            made[name] = std::move(tensor.values);
        }
        return made;
    }

private:
    Comm& world_;
    std::string parts_;
};

/// Random numbers by global index: norms' weights around 1, the others around 0.
void randomise(const Program& program, Arena& arena, double spread)
{
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        const double centre = v.name.find("norm.weight") != std::string::npos ? 1 : 0;
        const RandomStream stream(7, "test " + v.name);
        HostWindow window(arena, kept_buffer(program.schedule, v.name).offset, v.type.bytes());
        with_type(v.type.dtype, [&](auto t) {
            auto* to = reinterpret_cast<decltype(t)*>(window.data());
            for_each_run(whole_shape(v), box_of(program.graph, id), [&](i64 global, i64 local, i64 count) {
                for (i64 i = 0; i < count; ++i)
                    to[local + i] = decltype(t)(static_cast<kernels::Acc<decltype(t)>>(
                        centre + spread * stream.normal_at(static_cast<u64>(global + i))));
            });
        });
        window.push();
    }
}

/// The gradient that the update of `parameter` will read, and where it lies.
std::pair<ValueId, Bytes> gradient_of(const Program& program, const std::string& parameter)
{
    const Graph& g = program.graph;
    const OpId update = g[g.find(parameter + "'")].producer;
    for (const Step& step : program.schedule.steps)
        if (step.kind == StepKind::op && step.op == update)
            return {g[update].operands[3], program.schedule[step.operands[3]].offset};
    throw InternalError(__FILE__, __LINE__, "no step updates " + parameter);
}

} // namespace

std::string Case::text() const
{
    const ParallelConfig& p = parallel;
    return str(model.llama ? "llama" : "gpt2", model.tied ? " tied" : "", ", ", name_of(precision),
               p.reduce == ReduceType::bf16 ? " reduced in bf16" : "", ", ", model.layers, " layers, dim ",
               model.dim, ", ", model.heads, " heads (", model.kv_heads, "), ffn ", model.ffn, ", vocab ",
               model.vocab, ", seq ", model.seq, "; data ", p.data, " x pipeline ", p.pipeline, " x tensor ",
               p.tensor, ", ", name_of(p.schedule), ", zero ", p.zero, p.sequence ? ", sequence" : "", ", ",
               rows, " rows in microbatches of ", micro_batch, ", bucket ", p.bucket,
               p.overlap ? "" : ", no overlap");
}

Case alone(const Case& c)
{
    Case one = c;
    one.parallel = {};
    one.micro_batch = c.rows;
    return one;
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

Compiled compile(const Case& c, i64 rank)
{
    CompileConfig options = runs::small_machine();
    options.rank = rank;
    return compile_training(config_of(c), options);
}

void lay_out_again(const RunConfig& config, Compiled& compiled)
{
    Program& program = compiled.programs[train_program];
    const ScheduleConfig schedule{config.parallel.schedule, compiled.at[1], config.parallel.pipeline,
                                  program.microbatches, runs::small_machine().machine.scratch};
    program.schedule = build_schedule(program.graph, schedule);
    compiled.memory = plan_memory({&program.schedule}, {256, contracts_on ? 256 : 0, 0});
}

namespace {

/// Sequences [first, first + the rows of a microbatch over all data ranks) of the batch, where the value is
/// of tokens.
void feed_tokens(const Graph& graph, const Value& value, const runs::Batch& batch, i64 first,
                 void* destination)
{
    const Box box = box_of(graph, graph.find(value.name));
    auto* to = static_cast<std::int32_t*>(destination);
    const i64 seq = box.shape[1];
    for (i64 row = 0; row < box.shape[0]; ++row, to += seq)
        if (value.name == "positions")
            std::iota(to, to + seq, 0);
        else
            std::copy_n((value.name == "tokens" ? batch.tokens : batch.targets).begin() +
                            (first + box.offset[0] + row) * seq,
                        seq, to);
}

reference::Tensors collect(Comm& world, const Program& program, const Arena& arena, Role role)
{
    Collector all(world);
    for (const ValueId id : program.graph.with_role(role)) {
        const Value& v = program.graph[id];
        all.add(v.name, whole_shape(v), box_of(program.graph, id), v.type, arena,
                kept_buffer(program.schedule, v.name).offset);
    }
    return all.collect();
}

reference::Tensors collect_gradients(Comm& world, const Program& program, const Arena& arena)
{
    const Graph& g = program.graph;
    Collector all(world);
    for (const ValueId id : g.with_role(Role::parameter)) {
        const Shape& whole = whole_shape(g[id]);
        const auto [gradient, offset] = gradient_of(program, g[id].name);
        all.add(g[id].name, whole, box_of(whole, g[gradient].sharding, g.mesh, g.at), g[gradient].type, arena,
                offset);
    }
    return all.collect();
}

} // namespace

Outcome train(const Case& c, Comm& ranks, Compiled compiled, const Meddle& meddle)
{
    const RunConfig config = config_of(c);
    Program& program = compiled.programs[train_program];
    if (meddle.graph) {
        meddle.graph(program.graph);
        lay_out_again(config, compiled);
    }
    const std::unique_ptr<Comm> meddled = meddle.comm ? meddle.comm(ranks, program) : nullptr;
    Comm& world = meddled ? *meddled : ranks;
    Arena arena(compiled.memory.arena);
    Grid grid(world, program.graph.mesh, "node");
    if (world.size() > 1)
        open_devices(grid); // where the build has any
    ExecutorConfig execution;
    execution.red_zone = contracts_on ? 256 : 0;
    execution.overlap = config.parallel.overlap;
    execution.graphs = meddle.graphs;
    Executor executor(program.graph, program.schedule, arena, execution, &grid, meddle.streams);
    initialise(program.graph, program.schedule, arena, 1, 1);
    randomise(program, arena, c.spread);

    const i64 batch =
        config.train.micro_batch * config.parallel.data; // rows of a microbatch over all data ranks
    runs::Batch data;
    Outcome outcome;
    outcome.initial = collect(ranks, program, arena, Role::parameter);
    for (int step = 0; step < c.steps; ++step) {
        data = runs::random_batch(c.model, c.rows, static_cast<u64>(step) + 3);
        const double t = step + 1;
        const double hyper[hyper_count] = {
            c.lr, 0.9, 0.95, 1e-8, 1 - std::pow(0.9, t), 1 - std::pow(0.95, t)};
        executor.run_until_decision([&](const Value& value, i64 microbatch, void* destination) {
            if (value.role == Role::hyper)
                std::memcpy(destination, hyper, sizeof hyper);
            else
                feed_tokens(program.graph, value, data, microbatch * batch, destination);
        });
        outcome.losses.push_back(executor.fetched("totals", total_loss) /
                                 executor.fetched("totals", total_tokens));
        outcome.norms.push_back(executor.fetched("global_norm", 0));
        if (step == 0)
            outcome.gradients = collect_gradients(ranks, program, arena);
        executor.run_after_decision();
    }
    if (meddle.settle)
        meddle.settle();
    outcome.parameters = collect(ranks, program, arena, Role::parameter);
    outcome.moments = collect(ranks, program, arena, Role::state);
    if (meddle)
        return outcome;

    const Program& evaluation = compiled.programs[eval_program];
    Executor evaluator(evaluation.graph, evaluation.schedule, arena, execution, &grid, meddle.streams);
    double loss = 0, tokens = 0;
    for (i64 first = 0; first < c.rows; first += batch) {
        evaluator.run_until_decision([&](const Value& value, i64, void* destination) {
            feed_tokens(evaluation.graph, value, data, first, destination);
        });
        loss += evaluator.fetched("totals", total_loss);
        tokens += evaluator.fetched("totals", total_tokens);
    }
    outcome.evaluation = loss / tokens;
    TRV_CHECK(std::max(executor.used(), evaluator.used()) == compiled.memory.arena, "rank ", world.rank(),
              " used ", executor.used(), " and ", evaluator.used(), " bytes, planned are ",
              compiled.memory.arena);
    if constexpr (contracts_on)
        TRV_CHECK(arena.high_water() == compiled.memory.arena, "rank ", world.rank(), " touched ",
                  arena.high_water(), " bytes, planned are ", compiled.memory.arena);
    return outcome;
}

Outcome train_on_threads(const Case& c, const Meddle& meddle)
{
    TRV_CHECK(!computes_on_device() || c.ranks() == 1, "threads of one process do not share a device");
    runs::start_runtime();
    std::vector<Compiled> compiled;
    compile_ranks(
        config_of(c), runs::small_machine(), [](const Mesh&, i64) { return true; },
        [&](i64, Compiled& rank) { compiled.push_back(std::move(rank)); });
    Outcome outcome;
    run_on_threads(static_cast<int>(c.ranks()), [&](Comm& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        Outcome mine = train(c, world, std::move(compiled[rank]), meddle);
        if (rank == 0)
            outcome = std::move(mine);
    });
    return outcome;
}

bool same_bits(const Outcome& a, const Outcome& b)
{
    const auto same = [](const reference::Vector& x, const reference::Vector& y) {
        return x.size() == y.size() &&
               (x.empty() || std::memcmp(x.data(), y.data(), x.size() * sizeof(double)) == 0);
    };
    const auto all = [&](const reference::Tensors& x, const reference::Tensors& y) {
        return std::equal(x.begin(), x.end(), y.begin(), y.end(), [&](const auto& p, const auto& q) {
            return p.first == q.first && same(p.second, q.second);
        });
    };
    return same(a.losses, b.losses) && same(a.norms, b.norms) && same({a.evaluation}, {b.evaluation}) &&
           all(a.initial, b.initial) && all(a.gradients, b.gradients) && all(a.parameters, b.parameters) &&
           all(a.moments, b.moments);
}

double largest_difference(const std::vector<double>& got, const std::vector<double>& want)
{
    double largest = got.size() == want.size() ? 0 : INFINITY;
    for (std::size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
        const double d = std::abs(got[i] - want[i]) / std::abs(want[i]);
        largest = std::isfinite(d) ? std::max(largest, d) : INFINITY;
    }
    return largest;
}

Differences differences(const Outcome& got, const Outcome& want)
{
    return {largest_difference(got.losses, want.losses),
            largest_difference(got.norms, want.norms),
            largest_difference(std::vector{got.evaluation}, std::vector{want.evaluation}),
            largest_difference(got.gradients, want.gradients),
            largest_difference(got.parameters, want.parameters),
            largest_difference(got.moments, want.moments)};
}

double Differences::most() const
{
    return std::max({losses, norms, evaluation, gradients, parameters, moments});
}

std::string Differences::text() const
{
    return str("losses ", losses, ", norms ", norms, ", evaluation ", evaluation, ", gradients ", gradients,
               ", parameters ", parameters, ", moments ", moments);
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
