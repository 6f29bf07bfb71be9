#include "check/training.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "ir/names.hpp"
#include "passes/optimizer.hpp"
#include "runtime/communication.hpp"
#include "runtime/device.hpp"
#include "runtime/executor.hpp"
#include "runtime/initialise.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace trivium {

namespace {

/// The content of a run-lifetime value as doubles.
std::vector<double> read(const Program& program, const Arena& arena, const Value& value)
{
    HostWindow window(arena, kept_buffer(program.schedule, value.name).offset, value.type.bytes());
    window.pull();
    return with_type(value.type.dtype, [&](auto t) {
        const auto* from = reinterpret_cast<const decltype(t)*>(window.data());
        return std::vector<double>(from, from + value.type.elements());
    });
}

/// Larger ones than a run begins with: attention that looks somewhere, and gradients of a good size. Norms'
/// weights around 1.
void spread_parameters(const Program& program, Arena& arena, std::uint64_t seed)
{
    constexpr double spread = 0.1;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        const double centre = v.name.find("norm.weight") != std::string::npos ? 1 : 0;
        const RandomStream stream(seed, "check " + v.name);
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

/// Rows of a microbatch, whose first one over all data ranks is row `first` of the step's batch.
void feed_rows(const Graph& graph, const Value& value, const RunConfig& config, int step, i64 first,
               void* destination)
{
    const Box box = box_of(graph, graph.find(value.name));
    const i64 seq = config.model.seq;
    const RandomStream stream(static_cast<u64>(config.train.seed), str("check batch ", step));
    auto* to = static_cast<std::int32_t*>(destination);
    for (i64 row = 0; row < box.shape[0]; ++row, to += seq) {
        const i64 begin = (first + box.offset[0] + row) * seq;
        for (i64 s = 0; s < seq; ++s) {
            const u64 bits = stream.bits_at(static_cast<u64>(begin + s));
            const bool ignored = begin + s > 0 && (bits >> 20) % 7 == 0; // a target in seven, never all
            to[s] = value.name == value_name::positions ? static_cast<std::int32_t>(s)
                    : value.name == value_name::tokens
                        ? static_cast<std::int32_t>(bits % static_cast<u64>(config.model.vocab))
                    : ignored
                        ? -1
                        : static_cast<std::int32_t>((bits >> 32) % static_cast<u64>(config.model.vocab));
        }
    }
}

double relative(double got, double want)
{
    const double difference = std::abs(got / want - 1);
    return std::isfinite(difference) ? difference : INFINITY;
}

} // namespace

Compiled compile_tiny(const RunConfig& config, int rank)
{
    CompileConfig options;
    options.rank = rank;
    if (computes_on_device())
        options.machine = machine_called("gpu");
    else // little scratch for little models
        options.machine.scratch = {Bytes{1} << 20, Bytes{1} << 20, Bytes{1} << 18, Bytes{1} << 18};
    return compile_training(config, options);
}

TinyOutcome train_tiny(Comm& ranks, const RankFacts& facts, const RunConfig& config, const Compiled& compiled)
{
    const Program& program = compiled.programs[train_program];
    Arena arena(compiled.memory.arena);
    Grid grid(ranks, program.graph.mesh, facts.node);
    if (ranks.size() > 1)
        open_devices(grid); // where the build has any
    ExecutorConfig execution;
    execution.threads = facts.threads;
    execution.red_zone = contracts_on ? 256 : 0;
    execution.overlap = config.parallel.overlap;
    execution.deterministic = config.parallel.deterministic;
    Executor executor(program.graph, program.schedule, arena, execution, &grid);
    const auto seed = static_cast<std::uint64_t>(config.train.seed);
    initialise(program.graph, program.schedule, arena, seed, 1);
    spread_parameters(program, arena, seed);

    TinyOutcome outcome;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        outcome.parameters.push_back(
            {v.name, whole_shape(v), box_of(program.graph, id), read(program, arena, v), {}});
    }
    const TrainConfig& t = config.train;
    const i64 batch = micro_batch(config) * config.parallel.data;
    for (int step = 1; step <= tiny_steps; ++step) {
        const double hyper[hyper_count] = {
            t.lr, t.beta1, t.beta2, t.eps, 1 - std::pow(t.beta1, step), 1 - std::pow(t.beta2, step)};
        executor.run_until_decision([&](const Value& value, i64 microbatch, void* destination) {
            if (value.role == Role::hyper)
                std::copy(hyper, hyper + hyper_count, static_cast<double*>(destination));
            else
                feed_rows(program.graph, value, config, step, microbatch * batch, destination);
        });
        outcome.losses.push_back(executor.fetched(value_name::totals, total_loss) /
                                 executor.fetched(value_name::totals, total_tokens));
        outcome.norms.push_back(executor.fetched(value_name::norm, 0));
        executor.run_after_decision();
    }
    for (HeldPart& part : outcome.parameters)
        part.last = read(program, arena, program.graph[program.graph.find(part.name)]);
    return outcome;
}

CheckTolerance tolerance_of(const RunConfig& c)
{
    if (c.train.precision == Precision::bf16 ||
        (c.parallel.reduce == ReduceType::bf16 && c.parallel.data > 1))
        return {2e-2, 0.5};
    if (c.train.precision == Precision::f64)
        return {1e-9, 1e-9};
    return {1e-4, 1e-3};
}

TinyDifference compare(const TinyOutcome& got, const TinyOutcome& one_rank, const RunConfig& config)
{
    TRV_CHECK(got.losses.size() == one_rank.losses.size() && got.norms.size() == one_rank.losses.size(),
              "outcomes of unlike steps");
    TinyDifference d;
    for (std::size_t step = 0; step < got.losses.size(); ++step) {
        const double losses = relative(got.losses[step], one_rank.losses[step]),
                     norms = relative(got.norms[step], one_rank.norms[step]);
        d.losses = std::max(d.losses, losses);
        d.norms = std::max(d.norms, norms);
        if (d.step == 0 && std::max(losses, norms) > tolerance_of(config).losses)
            d.step = static_cast<int>(step) + 1;
    }
    const double way = config.train.lr * tiny_steps;
    for (const HeldPart& part : got.parameters) {
        const auto want = std::find_if(one_rank.parameters.begin(), one_rank.parameters.end(),
                                       [&](const HeldPart& p) { return p.name == part.name; });
        TRV_CHECK(want != one_rank.parameters.end() && want->whole == part.whole, part.name,
                  " is no parameter of one rank");
        double largest = 0;
        for_each_run(part.whole, part.box, [&](i64 global, i64 local, i64 count) {
            for (i64 i = 0; i < count; ++i) {
                const auto here = static_cast<std::size_t>(local + i),
                           there = static_cast<std::size_t>(global + i);
                if (part.initial[here] != want->initial[there])
                    d.initial = part.name;
                const double difference = std::abs(part.last[here] - want->last[there]);
                largest = std::isfinite(difference) ? std::max(largest, difference) : INFINITY;
            }
        });
        if (largest / way > d.parameters) {
            d.parameters = largest / way;
            d.parameter = part.name;
        }
    }
    return d;
}

} // namespace trivium
