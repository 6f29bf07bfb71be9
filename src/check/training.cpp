#include "check/training.hpp"

#include "base/check.hpp"
#include "base/rng.hpp"
#include "choose/decide.hpp"
#include "ir/names.hpp"
#include "runtime/communication.hpp"
#include "runtime/device.hpp"
#include "runtime/initialise.hpp"
#include "train/engine.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

namespace {

/// The content of a run-lifetime value as doubles.
std::vector<double> read(const Program& program, const Arenas& arenas, const Value& value)
{
    HostWindow window = kept_window(program.schedule, value.name, arenas);
    window.pull();
    return with_type(value.type.dtype, [&](auto t) {
        const auto* from = reinterpret_cast<const decltype(t)*>(window.data());
        return std::vector<double>(from, from + value.type.elements());
    });
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

Batch tiny_batch(const RunConfig& config, int step)
{
    const RandomStream stream(static_cast<u64>(config.train.seed), str("check batch ", step));
    const i64 seq = config.model.seq;
    const auto vocab = static_cast<u64>(config.model.vocab);
    const auto token = [=](i64 sample, i64 i) {
        return stream.bits_at(static_cast<u64>(sample * seq + i)) % vocab;
    };
    const auto target = [=](i64 sample, i64 i) {
        const i64 place = sample * seq + i;
        const u64 bits = stream.bits_at(static_cast<u64>(place));
        const bool ignored = place > 0 && (bits >> 20) % 7 == 0; // a target in seven, never all
        return ignored ? i64{-1} : static_cast<i64>((bits >> 32) % vocab);
    };
    const bool documents = config.data.by_documents(); // of two to four tokens
    const auto start = [=](i64 sample, i64 i) { return documents ? i - i % (2 + sample % 3) : 0; };
    return {{{value_name::tokens, sequence_array(seq, token)},
             {value_name::targets, sequence_array(seq, target)},
             {value_name::starts, sequence_array(seq, start)},
             {value_name::positions,
              sequence_array(seq, [=](i64 sample, i64 i) { return i - start(sample, i); })},
             {value_name::samples, sample_numbers(step * config.train.global_batch)}}};
}

TinyOutcome train_tiny(Comm& ranks, const RankFacts& facts, const RunConfig& config, Compiled compiled)
{
    Grid grid(ranks, compiled.programs[train_program].graph.mesh, facts.node, {}, joint_axes(compiled));
    if (ranks.size() > 1)
        open_devices(grid); // where the build has any
    Engine engine(std::move(compiled), executor_config(config, facts.threads), &grid);
    const Program& program = engine.program(train_program);
    const auto seed = static_cast<std::uint64_t>(config.train.seed);
    engine.initialise(seed);
    draw_parameters(program, engine.arenas(), seed, "check", 0.1);

    TinyOutcome outcome;
    for (const ValueId id : program.graph.with_role(Role::parameter)) {
        const Value& v = program.graph[id];
        outcome.parameters.push_back(
            {v.name, whole_shape(v), box_of(program.graph, v), read(program, engine.arenas(), v), {}});
    }
    for (int step = 1; step <= tiny_steps; ++step) {
        const StepResult result =
            engine.step(tiny_batch(config, step), hyper_of(config.train, config.train.lr, step));
        outcome.losses.push_back(result.loss.mean());
        outcome.norms.push_back(result.norm);
    }
    for (HeldPart& part : outcome.parameters)
        part.last = read(program, engine.arenas(), program.graph[program.graph.find(part.name)]);
    return outcome;
}

CheckTolerance tolerance_of(const RunConfig& c)
{
    if (c.train.precision == Precision::bf16 || c.parallel.accumulate == GradientType::bf16 ||
        (c.parallel.reduce == GradientType::bf16 && gradient_ranks(c.parallel) > 1))
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
                  " is not a parameter of the one-rank model");
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
