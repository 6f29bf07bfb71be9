// Measures the ops of training steps, for the machine file.
#include "base/activity.hpp"
#include "base/clock.hpp"
#include "base/cores.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "check/rates.hpp"
#include "check/training.hpp"
#include "choose/decide.hpp"
#include "config/option_sets.hpp"
#include "passes/autodiff.hpp"
#include "plan/graph_file.hpp"
#include "runtime/arena.hpp"
#include "runtime/communication.hpp"
#include "runtime/device.hpp"
#include "train/engine.hpp"
#include "train/node_resources.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>

namespace trivium {

namespace {

struct SampleModel {
    i64 layers, dim, heads, seq, vocab, batch;
};

RunConfig config_of(const SampleModel& m, OptionSet options, Precision precision, int threads)
{
    RunConfig c;
    set_options(c.model, options);
    c.model.layers = m.layers;
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

/// A step with the ops of programs of the user's own: convolutions, thin products, a softmax, and their
/// gradients. The images have `channels` x `side` x `side` numbers.
std::string program_text(DType type, i64 channels, i64 side, i64 hidden)
{
    constexpr i64 batch = 16;
    const std::string t(name_of(type));
    const i64 inner = 2 * channels, half = side / 2, features = inner * half * half;
    const auto of = [&](auto... extents) {
        std::string shape;
        ((shape += str(shape.empty() ? "" : ",", extents)), ...);
        return str(" : ", t, "[", shape, "]\n");
    };
    const std::string maps = of(batch, inner, side, side), small = of(batch, inner, half, half),
                      wide = of(batch, hidden), column = of(batch),
                      spread = str("{dims=\"0\", shape=\"", batch, " ", hidden, "\"}");
    return str("graph program\nmesh x=1\ninput %image", of(batch, channels, side, side), "parameter %w1",
               of(inner, channels, 3, 3), "parameter %w2", of(inner, inner, 3, 3), "parameter %w3",
               of(features, hidden), "parameter %w4", of(hidden, hidden),
               "%c1 = convolution(%image, %w1) {stride=\"1 1\", low=\"1 1\", high=\"1 1\"}", maps,
               "%t1 = tanh(%c1)", maps,
               "%c2 = convolution(%t1, %w2) {stride=\"2 2\", low=\"1 1\", high=\"1 1\"}", small,
               "%t2 = tanh(%c2)", small, "%flat = reshape(%t2) {shape=\"", batch, " ", features, "\"}",
               of(batch, features), "%h = matmul(%flat, %w3) {rule=\"n c, c k -> n k\"}", wide,
               "%g = gelu(%h)", wide, "%z = matmul(%g, %w4) {rule=\"n c, c k -> n k\"}", wide, "%e = exp(%z)",
               wide, "%s = reduce(%e) {combine=\"sum\", dims=\"1\"}", column, "%b = broadcast(%s) ", spread,
               wide, "%p = divide(%e, %b)", wide, "%d = subtract(%p, %z)", wide, "%q = multiply(%d, %d)",
               wide, "%loss = reduce(%q) {combine=\"sum\", dims=\"0 1\"}", of(), "output %loss\n");
}

/// The median duration of each Step, from the second run on, and what some of the runs took. `run`: one run
/// of the program.
void add_medians(const CheckGround& ground, const Program& program, const std::function<void(int)>& run,
                 const std::function<const Timeline&()>& timeline, OpRates& rates)
{
    constexpr int least_runs = 4, most_runs = 24;
    constexpr Seconds enough = 0.15;
    std::vector<std::vector<double>> seconds(program.schedule.steps.size());
    rates.runs.front().emplace_back();
    const auto is_op = [&](const Step& step) {
        return step.kind == StepKind::op && !program.graph[step.op].operands.empty();
    };
    agree(ground.world, 0); // start together
    const Seconds begin = now();
    for (int runs = 0; runs < least_runs || (runs < most_runs && now() - begin < enough); ++runs) {
        run(runs);
        ground.timed("ops");
        if (runs == 0) // prepares
            continue;
        Seconds all = 0;
        for (std::size_t i = 0; i < seconds.size(); ++i) {
            seconds[i].push_back(timeline().spans[i].end - timeline().spans[i].begin);
            all += is_op(program.schedule.steps[i]) ? seconds[i].back() : 0;
        }
        if (runs < least_runs)
            rates.runs.front().back().push_back(all);
    }
    for (std::size_t i = 0; i < seconds.size(); ++i) {
        const Step& step = program.schedule.steps[i];
        if (!is_op(step))
            continue;
        const OpMeasure measure = measure_of(program.graph, program.graph[step.op]);
        rates.samples.push_back(
            {measure.kind + measure.form, measure.size, measure.work, median(seconds[i])});
    }
}

void add_program(const CheckGround& ground, const std::string& text, OpRates& rates)
{
    Program program;
    program.graph = rank_graph(autodiff(read_graph(text, "the check's program"), {}), 0);
    const ArenaPlans plans = lay_out({&program, 1}, {Machine{}.scratch});
    const Arenas arenas(plans.device.arena, plans.host.arena);
    constexpr int small_number = 0x3c; // as each byte: 0.01 in all types
    std::memset(arenas.of(Space::device).at(0), small_number, static_cast<std::size_t>(plans.device.arena));
    Executor executor(program.graph, program.schedule, arenas,
                      {.threads = ground.facts.threads, .trace = true, .red_zone = plans.device.red_zone});
    const Feed feed = [](const Value& value, i64, void* to) {
        std::memset(to, small_number, static_cast<std::size_t>(value.type.bytes()));
    };
    add_medians(
        ground, program,
        [&](int) {
            executor.run_until_decision(feed);
            executor.run_after_decision(feed);
        },
        [&]() -> const Timeline& { return executor.timeline(); }, rates);
}

void add_training(const CheckGround& ground, const RunConfig& config, OpRates& rates)
{
    ExecutorConfig execution = executor_config(config, ground.facts.threads);
    execution.trace = true;
    Engine engine(compile_training(config, {}), execution);
    engine.initialise(static_cast<std::uint64_t>(config.train.seed));
    add_medians(
        ground, engine.program(train_program),
        [&](int run) {
            engine.step(tiny_batch(config, run + 1), hyper_of(config.train, config.train.lr, run + 1));
        },
        [&]() -> const Timeline& { return engine.executor(train_program).timeline(); }, rates);
}

/// The reduction or gather of `bytes` in all, in this many tensors, among the ranks of `group`.
OpSample collective_sample(Comm& group, OpKind kind, DType type, i64 tensors, Bytes bytes)
{
    constexpr int runs = 9;
    const Bytes each = round_up(bytes / tensors, 64);
    const Arena arena(2 * tensors * each);
    std::memset(arena.at(0), 0, static_cast<std::size_t>(arena.size()));
    CollectiveShape shape;
    shape.kind = collective_kind(kind);
    shape.type = type;
    for (i64 t = 0; t < tensors; ++t)
        shape.operands.push_back(
            {1, bytes / size_of(type) / tensors, 1, arena.at(t * each), arena.at((tensors + t) * each)});
    const CollectiveScratch need = collective_scratch(shape, group.size());
    const Bytes scratch = std::min(need.best, std::max(need.least, Machine{}.scratch.exchange));
    const Arena room(std::max<Bytes>(scratch, 64));
    Collective collective(group, shape, {room.at(0), scratch});
    std::vector<double> seconds;
    agree(group, 0); // start together
    for (int run = 0; run < runs; ++run) {
        const Seconds begin = now();
        collective.start();
        collective.finish();
        if (run > 0)
            seconds.push_back(now() - begin);
    }
    const Bytes all = (kind == OpKind::all_reduce ? 2 : 1) * bytes;
    const auto sent = static_cast<double>(all - ceil_div(all, group.size()));
    return {str(info(kind).name, " ", name_of(type), tensors > 1 ? " bucket" : ""), sent, sent,
            median(seconds)};
}

/// Collectives among the ranks of this node, while none of them computes.
void add_collectives(const CheckGround& ground, std::vector<OpSample>& samples)
{
    const std::vector<int>& nodes = ground.grid.node_of_rank();
    std::vector<int> members;
    for (int rank = 0; rank < ground.world.size(); ++rank)
        if (nodes[static_cast<std::size_t>(rank)] == nodes[static_cast<std::size_t>(ground.world.rank())])
            members.push_back(rank);
    const std::unique_ptr<Comm> group = ground.world.subgroup(members);
    if (members.size() == 1)
        return;
    const Bytes most = Bytes{1} << (contracts_on ? 14 : 24);
    for (const OpKind kind : {OpKind::all_gather, OpKind::reduce_scatter, OpKind::all_reduce})
        for (const DType type : {DType::f32, DType::bf16})
            for (const i64 tensors : {1, 2})
                for (Bytes bytes = 256; bytes <= most; bytes *= 16) {
                    Activity::of_process().enter(str("collectives: ", info(kind).name));
                    samples.push_back(collective_sample(*group, kind, type, tensors, bytes));
                }
}

/// All samples, in the same order each time, the first `ops` of which are not collectives. `briefly`: of
/// small models only.
OpRates measured_once(const CheckGround& ground, bool briefly, std::size_t& ops)
{
    // Optimizer states of the larger ones do not stay in a cache from step to step, as in a run.
    std::vector<SampleModel> models{{2, 64, 4, 64, 256, 4}, {4, 128, 2, 128, 512, 2}};
    if (!briefly)
        models.insert(models.end(), {{8, 256, 4, 256, 2048, 1}, {2, 768, 12, 512, 8192, 1}});
    OpRates rates;
    rates.runs.emplace_back();
    for (const SampleModel& model : models)
        for (const OptionSet options : {OptionSet::llama, OptionSet::gpt2})
            for (const Precision precision : {Precision::f32, Precision::bf16}) {
                Activity::of_process().enter("ops of a training step");
                if (ground.first())
                    log_progress(str("rates        ops of ", name_of(options), ", ", name_of(precision),
                                     ", dim ", model.dim));
                add_training(ground, config_of(model, options, precision, ground.facts.threads), rates);
            }
    Activity::of_process().enter("ops of a program");
    for (const DType type : {DType::f32, DType::bf16}) {
        add_program(ground, program_text(type, 4, 16, 64), rates);
        if (!briefly)
            add_program(ground, program_text(type, 8, 32, 2048), rates);
    }
    ops = rates.samples.size();
    add_collectives(ground, rates.samples);
    return rates;
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

OpRates measure_ops(const CheckGround& ground)
{
    const int sharers = ranks_on_same_cores(ground.grid), cores = usable_core_count(); // 0: unknown
    const bool crowded = cores > 0 && sharers > cores; // what it measures is of little use
    const bool briefly = agree(ground.world, contracts_on || crowded ? 1 : 0) != 0;
    std::size_t ops = 0;
    OpRates best = measured_once(ground, briefly, ops);
    // Again, because other work may have slowed down some of it for a while: the better counts. And again, if
    // that made much of a difference.
    const int most_times = briefly ? 1 : 4;
    constexpr double much = 1.05;
    for (int times = 1; times < most_times; ++times) {
        const OpRates again = measured_once(ground, briefly, ops);
        Seconds before = 0, now = 0;
        for (std::size_t i = 0; i < best.samples.size(); ++i) {
            Seconds& seconds = best.samples[i].seconds;
            before += seconds;
            now += seconds = std::min(seconds, again.samples[i].seconds);
        }
        best.runs.push_back(again.runs.front());
        if (agree(ground.world, before > much * now ? 1 : 0) == 0)
            break;
    }
    for (std::size_t i = 0; i < ops; ++i)
        best.best += best.samples[i].seconds;
    best.samples = merged(best.samples);
    if (briefly)
        best.runs.clear();
    return best;
}

double stragglers_of(const std::vector<OpRates>& ranks)
{
    if (ranks.size() < 2 || ranks.front().runs.empty())
        return 0;
    Seconds slowest = std::numeric_limits<Seconds>::infinity(), best = 0;
    for (std::size_t repetition = 0; repetition < ranks.front().runs.size(); ++repetition) {
        Seconds all = 0;
        const ProgramRuns& own = ranks.front().runs[repetition];
        for (std::size_t i = 0; i < own.size(); ++i) {
            std::vector<Seconds> of_slowest = own[i];
            for (const OpRates& rank : ranks)
                for (std::size_t k = 0; k < of_slowest.size(); ++k)
                    of_slowest[k] = std::max(of_slowest[k], rank.runs[repetition][i][k]);
            all += median(of_slowest);
        }
        slowest = std::min(slowest, all);
    }
    for (const OpRates& rank : ranks)
        best += rank.best / static_cast<double>(ranks.size());
    return std::clamp((slowest / best - 1) / expected_maximum(static_cast<i64>(ranks.size())), 0.0, 1.0);
}

} // namespace trivium
