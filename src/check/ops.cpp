// Measures the ops of training steps, for the machine file.
#include "base/activity.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "check/median.hpp"
#include "check/rates.hpp"
#include "check/training.hpp"
#include "choose/decide.hpp"
#include "runtime/device.hpp"
#include "train/engine.hpp"

namespace trivium {

namespace {

struct SampleModel {
    i64 dim, heads, seq, vocab, batch;
};

RunConfig config_of(const SampleModel& m, Family family, Precision precision, int threads)
{
    RunConfig c;
    c.model.family = family;
    c.model.layers = 1;
    c.model.dim = m.dim;
    c.model.heads = m.heads;
    c.model.seq = m.seq;
    c.model.vocab = m.vocab;
    c.train.precision = precision;
    c.train.micro_batch = m.batch;
    c.train.global_batch = 2 * m.batch; // the second microbatch adds its gradients to those of the first
    c.parallel.threads = threads;
    resolve_and_validate(c);
    return c;
}

/// The median duration of each Step.
void add_samples(const CheckGround& ground, const RunConfig& config, std::vector<OpSample>& samples)
{
    constexpr int least_runs = 4, most_runs = 24;
    constexpr Seconds enough = 0.3;
    Compiled compiled = compile_training(config, {});
    ExecutorConfig execution = executor_config(config, ground.facts.threads);
    execution.trace = true;
    Engine engine(std::move(compiled), execution);
    engine.initialise(static_cast<std::uint64_t>(config.train.seed));
    const Program& program = engine.program(train_program);
    std::vector<std::vector<double>> seconds(program.schedule.steps.size());
    agree(ground.world, 0); // start together
    const Seconds begin = now();
    for (int run = 0; run < least_runs || (run < most_runs && now() - begin < enough); ++run) {
        engine.step(tiny_batch(config, run + 1), hyper_of(config.train, config.train.lr, run + 1));
        ground.timed("ops");
        if (run == 0) // prepares
            continue;
        const Timeline& timeline = engine.executor(train_program).timeline();
        for (std::size_t i = 0; i < seconds.size(); ++i)
            seconds[i].push_back(timeline.spans[i].end - timeline.spans[i].begin);
    }
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = program.schedule.steps[i];
        if (step.kind != StepKind::op || program.graph[step.op].operands.empty())
            continue;
        const OpMeasure measure = measure_of(program.graph, program.graph[step.op]);
        samples.push_back({measure.kind, measure.size, measure.work, median(seconds[i])});
    }
}

/// One sample for all of a kind and a size.
std::vector<OpSample> merged(const std::vector<OpSample>& samples)
{
    std::map<std::pair<std::string, double>, OpSample> sums;
    for (const OpSample& s : samples) {
        OpSample& sum = sums.try_emplace({s.kind, s.size}, OpSample{s.kind, s.size, 0, 0}).first->second;
        sum.work += s.work;
        sum.seconds += s.seconds;
    }
    std::vector<OpSample> all;
    for (const auto& [key, sum] : sums)
        all.push_back(sum);
    return all;
}

} // namespace

std::vector<OpSample> measure_ops(const CheckGround& ground)
{
    std::vector<SampleModel> models{{64, 4, 64, 256, 4}, {256, 4, 256, 2048, 2}};
    if (!contracts_on)
        models.push_back({768, 12, 512, 8192, 1});
    std::vector<OpSample> samples;
    for (const SampleModel& model : models)
        for (const Family family : {Family::llama, Family::gpt2})
            for (const Precision precision : {Precision::f32, Precision::bf16}) {
                Activity::of_process().enter("ops of a training step");
                if (ground.first())
                    log_progress(str("rates        ops of ", name_of(family), ", ", name_of(precision),
                                     ", dim ", model.dim));
                add_samples(ground, config_of(model, family, precision, ground.facts.threads), samples);
            }
    return merged(samples);
}

} // namespace trivium
