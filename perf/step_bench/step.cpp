// Training steps on random tokens: tokens/s, MFU, and the distribution of time. On the host relative to a
// measured peak; on a device relative to its data sheet, together with the measured peak.
//
//   perf_step [key=value …]         config keys as for `trivium train`, e.g. train.precision=bf16
//   perf_step --threads 1,2 --steps 4
//   mpirun -n 4 perf_step parallel.tensor=4
//   mpirun -n 2 perf_step model.family=graph model.file=FILE.graph parallel.axes.x=2
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/rng.hpp"
#include "choose/decide.hpp"
#include "cli/commands.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "ir/names.hpp"
#include "model/program.hpp"
#include "mpi/records.hpp"
#include "mpi/session.hpp"
#include "peak.hpp"
#include "plan/cost.hpp"
#include "train/engine.hpp"
#include "train/this_machine.hpp"
#include "where.hpp"

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace trivium {

namespace {

struct Options {
    std::vector<int> threads{1, 2};
    int steps = 4;
    bool shapes = false; ///< a row per product shape
    bool graphs = false;
    bool fit_layers = false;
    bool json = false;
    double peak_seconds = 0.5;
    Seconds slice = 0; ///< 0: as Linux chooses
    std::vector<std::string> overrides;
};

/// The config and the hardware of the steps.
struct Setup {
    RunConfig config;
    Machine machine;
    const Computing& computing;
    Grid& grid;
    int threads = 1;
};

Batch random_tokens(const RunConfig& config)
{
    const i64 seq = config.model.seq;
    const auto random_below_vocab = [&](int shift) {
        return sequence_array(seq, [=, random = RandomStream(1, "tokens"),
                                    vocab = static_cast<u64>(config.model.vocab)](i64 sample, i64 i) {
            return (random.bits_at(static_cast<u64>(sample * seq + i)) >> shift) % vocab;
        });
    };
    return {{{value_name::tokens, random_below_vocab(0)},
             {value_name::targets, random_below_vocab(32)},
             {value_name::positions, sequence_array(seq, [](i64, i64 i) { return i; })},
             {value_name::starts, sequence_array(seq, [](i64, i64) { return 0; })},
             {value_name::samples, sample_numbers()}}};
}

/// Numbers between -1 and 1 for the inputs of a program; integers are 0.
Batch random_samples(const RunConfig& config)
{
    Batch batch;
    for (const auto& [name, type] : inputs_per_sample(config.model, compute_type(config.train.precision)))
        batch.arrays[name] = {
            type, [type = type](i64 sample, const Box& box, void* to) {
                const RandomStream random(static_cast<u64>(sample), "samples");
                with_tensor_type(type.dtype, [&](auto t) {
                    using T = decltype(t);
                    for_each_run(type.shape, box, [&](i64 global, i64 local, i64 count) {
                        for (i64 i = 0; i < count; ++i)
                            static_cast<T*>(to)[local + i] = static_cast<T>(
                                static_cast<float>(2 * random.uniform_at(static_cast<u64>(global + i)) - 1));
                    });
                });
            }};
    return batch;
}

struct Measured {
    std::vector<Seconds> seconds; ///< sorted
    Parts parts;
    std::map<std::string, Spent> kinds;
    double loss = 0; ///< of the last step
    /// On rank 0: durations_of() the fastest step, by rank.
    std::vector<std::vector<Seconds>> durations;
    Bytes used = 0;
    DeviceMemory memory;
    Seconds median() const { return seconds[seconds.size() / 2]; }
};

/// On a device, times are measured without tracing each Step, and the parts with it.
Measured run_steps(const Setup& s, const Compiled& compiled, const Options& options)
{
    Measured measured;
    const Batch batch = s.config.model.is_program() ? random_samples(s.config) : random_tokens(s.config);
    const Hyper hyper = hyper_of(s.config.train, 1e-4, 2);
    ExecutorConfig config = executor_config(s.config, s.threads);
    config.trace = true;
    config.graphs = options.graphs;
    Engine engine(compiled, config, &s.grid);
    engine.initialise(1);
    Executor& executor = engine.executor(train_program);
    std::vector<std::vector<Seconds>> traced; // durations_of() each step
    std::size_t fastest = 0;
    const auto run = [&](bool trace, bool graphs, int steps) {
        executor.set_trace(trace);
        std::vector<Seconds> seconds;
        const int warm =
            graphs ? 2 : 1; // the first one has cold pages, or loads kernels; the second captures them
        double begin = 0;
        for (int step = -warm; step <= steps; ++step) {
            // A device still runs the update when a step returns, so a step is measured from decision to
            // decision.
            const StepResult result = engine.step(batch, hyper, {.accept = [&](const StepResult&) {
                                                      const double decided = now();
                                                      if (step > 0 || (step == 0 && !computes_on_device()))
                                                          seconds.push_back(decided - begin);
                                                      begin = decided;
                                                      return true;
                                                  }});
            measured.loss = result.loss.mean();
            if (trace)
                traced.push_back(durations_of(executor.timeline()));
            if (trace &&
                (seconds.empty() || seconds.back() == *std::min_element(seconds.begin(), seconds.end()))) {
                measured.kinds = by_kind(engine.program(train_program), executor.timeline(), options.shapes);
                measured.parts =
                    parts_of(engine.program(train_program), executor.timeline(), executor.exposed());
                fastest = traced.size() - 1;
            }
        }
        return seconds;
    };
    if (computes_on_device()) {
        run(true, false, 2);
        measured.seconds = run(false, options.graphs, options.steps);
    } else {
        measured.seconds = run(true, false, options.steps);
    }
    fastest = share_record(s.grid.world(), fastest);
    measured.durations = gather_records_to_first(s.grid.world(), traced.at(fastest));
    measured.used = engine.used();
    measured.memory = s.computing.memory(); // while the arena exists
    std::sort(measured.seconds.begin(), measured.seconds.end());
    return measured;
}

double data_sheet(const Machine& machine, Precision precision)
{
    return precision == Precision::bf16  ? machine.flops_bf16
           : precision == Precision::f64 ? machine.flops_f64
                                         : machine.flops_f32;
}

void measure(const Setup& s, const Options& options)
{
    const RunConfig& config = s.config;
    const bool first = s.grid.world().rank() == 0, device = s.machine.is_device;
    const DType type = config.train.precision == Precision::bf16  ? DType::bf16
                       : config.train.precision == Precision::f64 ? DType::f64
                                                                  : DType::f32;
    agree(s.grid.world(), 0); // all ranks compute at a time, or none
    Peak peak = measure_peak(type, s.threads, options.peak_seconds);
    const DeviceMemory before = s.computing.memory();
    CompileConfig compile;
    compile.machine = s.machine;
    compile.rank = s.grid.world().rank();
    const Compiled compiled = compile_training(config, compile);
    s.grid.open(joint_axes(compiled));
    const Measured m = run_steps(s, compiled, options);
    const DeviceMemory& after = m.memory;
    if (!device) // the machine may have slowed or sped up meanwhile
        if (const Peak again = measure_peak(type, s.threads, options.peak_seconds);
            again.flops_per_second > peak.flops_per_second)
            peak = again;
    if (!first)
        return;
    const SimulatedParts simulated = simulated_parts(config, s.machine, s.threads, m.durations);
    const int ranks = s.grid.world().size();
    const Flops flops = compiled.flops;
    const double ceiling =
        (device ? data_sheet(s.machine, config.train.precision) : peak.flops_per_second) * ranks;
    const double tokens = static_cast<double>(config.train.global_batch * config.model.seq),
                 least = m.seconds.front();
    std::vector<std::pair<std::string, Spent>> rows(m.kinds.begin(), m.kinds.end());
    std::sort(rows.begin(), rows.end(),
              [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    if (options.json) {
        auto ops = nlohmann::ordered_json::array();
        for (const auto& [kind, spent] : rows)
            ops.push_back({{"op", kind}, {"seconds", spent.seconds}, {"flops", spent.flops}});
        fmt::print("{}\n",
                   nlohmann::ordered_json{{"model", name_of(config.model.family)},
                                          {"layers", config.model.layers},
                                          {"dim", config.model.dim},
                                          {"parameters", parameter_count(config.model)},
                                          {"seq", config.model.seq},
                                          {"ranks", ranks},
                                          {"device", s.computing.device()},
                                          {"precision", name_of(config.train.precision)},
                                          {"micro_batch", micro_batch(config)},
                                          {"global_batch", config.train.global_batch},
                                          {"step_seconds", m.median()},
                                          {"least_step_seconds", least},
                                          {"tokens_per_second", tokens / m.median()},
                                          {"mfu", flops / m.median() / ceiling},
                                          {"peak_flops_per_second", ceiling / ranks},
                                          {"measured_product_flops_per_second", peak.flops_per_second},
                                          {"loss", m.loss},
                                          {"products_seconds", m.parts.products},
                                          {"attention_seconds", m.parts.attention},
                                          {"other_seconds", m.parts.other},
                                          {"exposed_comm_seconds", m.parts.exposed},
                                          {"simulated_exposed_comm_seconds", simulated.exposed},
                                          {"simulated_step_seconds", simulated.total},
                                          {"idle_seconds", m.parts.idle},
                                          {"traced_step_seconds", m.parts.total},
                                          {"arena_bytes", compiled.memory.arena},
                                          {"used_bytes", m.used},
                                          {"device_bytes_beside_arena",
                                           device ? after.total - after.free - compiled.memory.arena : 0},
                                          {"device_bytes_before", device ? before.total - before.free : 0},
                                          {"stated_bytes", compiled.memory.process},
                                          {"ops", ops}}
                       .dump());
        return;
    }
    fmt::print("\n{} rank(s) x {}, {}{}\n", ranks,
               device ? s.computing.device() : fmt::format("{} thread(s)", s.threads),
               name_of(config.train.precision), device && options.graphs ? ", as CUDA graphs" : "");
    if (device)
        fmt::print("  peak          {:8.1f} TFLOP/s  of the data sheet of '{}'\n", ceiling / ranks / 1e12,
                   s.machine.name);
    fmt::print("  {} {:8.1f} GFLOP/s  best of the product list ({} x {} x {})\n",
               device ? "products     " : "peak         ", peak.flops_per_second / 1e9, peak.m, peak.n,
               peak.k);
    fmt::print("  step          {:8.3f} s median, {:.3f} s minimum of {}\n", m.median(), least,
               m.seconds.size());
    fmt::print("  tokens/s      {:8.1f} median, {:.1f} best\n", tokens / m.median(), tokens / least);
    fmt::print("  MFU           {:8.1f} % median, {:.1f} % best\n", 100 * flops / m.median() / ceiling,
               100 * flops / least / ceiling);
    fmt::print("  loss          {:8.4f} after the last step\n", m.loss);
    fmt::print("  memory        {} planned, {} used\n", compiled.memory.arena, m.used);
    if (device)
        fmt::print("  device        {} bytes in addition to the arena: driver, kernels, cuBLAS, NCCL; the "
                   "plan states {}\n",
                   after.total - after.free - compiled.memory.arena, compiled.memory.process);
    fmt::print("  where {} went: products {:.1f} %, attention {:.1f} %, other kernels {:.1f} %, exposed "
               "communication {:.1f} %, idle {:.1f} %\n",
               device ? "a measured step" : "the fastest step", 100 * m.parts.products / m.parts.total,
               100 * m.parts.attention / m.parts.total, 100 * m.parts.other / m.parts.total,
               100 * m.parts.exposed / m.parts.total, 100 * m.parts.idle / m.parts.total);
    if (ranks > 1)
        fmt::print("  exposed       {:8.1f} ms measured, {:.1f} ms simulated with the measured durations of "
                   "kernels\n",
                   1e3 * m.parts.exposed, 1e3 * simulated.exposed);
    fmt::print("    {:<32} {:>9} {:>7} {:>12}\n", "op", "ms", "%", "GFLOP/s");
    for (const auto& [kind, spent] : rows)
        fmt::print("    {:<32} {:>9.2f} {:>6.2f} {:>12}\n", kind, 1e3 * spent.seconds,
                   100 * spent.seconds / m.parts.total,
                   spent.flops > 0 ? fmt::format("{:.1f}", spent.flops / spent.seconds / 1e9) : "");
}

/// The maximum number of layers, up to the config's, whose arena fits in addition to the libraries' memory.
i64 layers_that_fit(RunConfig config, const Machine& machine, Bytes free)
{
    i64 fit = 0, above = config.model.layers + 1;
    while (above - fit > 1) {
        config.model.layers = (fit + above) / 2;
        const Compiled compiled = compile_training(config, {machine, {}, 0});
        (compiled.memory.arena + machine.process <= free ? fit : above) = config.model.layers;
    }
    if (fit == 0)
        throw UserError({"device", str("has ", format_bytes(free), " free"), "not even one layer fits",
                         "lower train.micro_batch or model.seq"});
    return fit;
}

void describe(const RunConfig& config)
{
    const Compiled compiled = compile_training(config, {});
    const Graph& graph = *compiled.programs[train_program].sharded;
    Flops products = 0, attention = 0;
    for (const Op& op : graph.ops)
        if (op.region == Region::microbatch && op.phase == Phase::forward)
            (info(op).scratch == ScratchKind::attention ? attention : products) += flops_of(graph, op);
    fmt::print(
        "model         {}: {} layers, dim {}, {} heads ({} key-value), ffn {}, vocab {}, {} parameters\n",
        name_of(config.model.family), config.model.layers, config.model.dim, config.model.heads,
        config.model.kv_heads, config.model.ffn_dim, config.model.vocab,
        format_count(parameter_count(config.model)));
    fmt::print("batch         {} x {} tokens, {} microbatches\n", config.train.global_batch, config.model.seq,
               microbatch_count(config));
    fmt::print("model FLOPs   {:.4g} per step = 3 x (2 m n k over the forward products {:.4g} + causal "
               "attention 2 b h e s(s+1) {:.4g})\n",
               compiled.flops, products * static_cast<double>(microbatch_count(config)),
               attention * static_cast<double>(microbatch_count(config)));
}

/// From Linux 6.12 on, slices of this length (at least 0.1 ms) in which processes share a core.
void ask_for_slices(Seconds slice)
{
    struct { // sched_attr of <linux/sched/types.h>, which <sched.h> excludes
        std::uint32_t size = 48, policy = 0;
        u64 flags = 0;
        std::int32_t nice = 0;
        std::uint32_t priority = 0;
        u64 runtime = 0, deadline = 0, period = 0;
    } attr;
    attr.runtime = static_cast<u64>(1e9 * slice);
    attr.nice = getpriority(PRIO_PROCESS, 0);
    if (syscall(SYS_sched_setattr, 0, &attr, 0) != 0)
        throw UserError({"--slice", str("Linux refuses slices of ", 1e3 * slice, " ms"), std::strerror(errno),
                         "leave it out"});
}

int run(int argc, char* argv[], Session& session)
{
    Options options;
    CLI::App app{"Training steps on random tokens: tokens/s, MFU and time by kind of op."};
    app.add_option("--threads", options.threads, "thread counts to measure (on the host)")->delimiter(',');
    app.add_option("--steps", options.steps, "measured steps")->check(CLI::PositiveNumber);
    app.add_option("--peak-seconds", options.peak_seconds, "time per product when the peak is measured");
    app.add_option("--slice", options.slice, "seconds for which a process has a core that it shares");
    app.add_flag("--shapes", options.shapes, "a row per product shape");
    app.add_flag("--graphs", options.graphs, "on a device: replay captured steps");
    app.add_flag("--fit-layers", options.fit_layers, "on a device: as many of the model's layers as fit");
    app.add_flag("--json", options.json, "print only one JSON object per measurement");
    app.add_option("overrides", options.overrides, "config keys, key=value");
    CLI11_PARSE(app, argc, argv);
    if (options.slice > 0)
        ask_for_slices(options.slice);
    std::vector<std::string> keys;
    if (std::ranges::none_of(options.overrides,
                             [](const auto& key) { return key.starts_with("model.file="); }))
        keys = {"model.preset=gpt2-124m", "model.seq=256", "train.global_batch=4"};
    keys.insert(keys.end(), options.overrides.begin(), options.overrides.end());
    RunConfig config = read_config("", keys);
    if (config.model.is_program())
        config.model.program = read_program(read_file(config.model.file, "graph of a model"),
                                            config.model.file, config.model.sizes);
    resolve_and_validate(config);
    const ParallelConfig& p = config.parallel;
    Grid grid(session.world(), mesh_of(p), node_name(), {p.delay_latency, p.delay_bandwidth});
    const Computing computing(*std::max_element(options.threads.begin(), options.threads.end()), &grid);
    const Machine machine = with_delay(machine_of(computing), p.delay_latency, p.delay_bandwidth);
    if (options.fit_layers && machine.is_device)
        for (const i64 layers :
             gather_records(session.world(), layers_that_fit(config, machine, computing.memory().free)))
            config.model.layers = std::min(config.model.layers, layers);
    if (session.rank() == 0 && !options.json && !config.model.is_program())
        describe(config);
    for (const int threads : machine.is_device
                                 ? std::vector{static_cast<int>(std::thread::hardware_concurrency())}
                                 : options.threads)
        measure({config, machine, computing, grid, threads}, options);
    return 0;
}

} // namespace

} // namespace trivium

int main(int argc, char* argv[])
{
    try {
        return trivium::run_session(
            [&](trivium::Session& session) { return trivium::run(argc, argv, session); });
    } catch (const trivium::Error& error) {
        std::fprintf(stderr, "perf_step: %s\n", error.what());
        return error.exit_status();
    }
}
