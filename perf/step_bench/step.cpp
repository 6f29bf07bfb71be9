// Training steps on random tokens: tokens/s, MFU against the measured peak, and where the time goes.
//
//   perf_step [key=value …]         config keys as for `trivium train`, e.g. train.precision=bf16
//   perf_step --threads 1,2 --steps 4
#include "base/check.hpp"
#include "base/rng.hpp"
#include "io/config_file.hpp"
#include "ir/product_form.hpp"
#include "kernels/runtime.hpp"
#include "passes/optimizer.hpp"
#include "peak.hpp"
#include "plan/cost.hpp"
#include "runtime/executor.hpp"
#include "runtime/initialise.hpp"
#include "train/compile.hpp"

#include <CLI/CLI.hpp>
#include <chrono>
#include <fmt/format.h>
#include <map>
#include <numeric>

namespace trivium {

namespace {

struct Options {
    std::vector<int> threads{1, 2};
    int steps = 4;
    bool shapes = false; ///< a row per product shape
    double peak_seconds = 0.5;
    std::vector<std::string> overrides;
};

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// "matmul", or with its shape: "matmul 1024 x 768 x 3072 nt".
std::string kind_of(const Graph& graph, const Op& op, bool shapes)
{
    const std::string name = info(op).name;
    if (!shapes || info(op).scratch != ScratchKind::product)
        return name;
    const ProductForm f = product_form(rule_of(graph, op), name);
    return fmt::format("{} {} x {} x {} {}{}", name, f.m, f.n, f.k, f.trans_a ? 't' : 'n', f.trans_b ? 't' : 'n');
}

/// Seconds of one step by kind of op, from the executor's timeline.
std::map<std::string, std::pair<Seconds, Flops>> by_kind(const Program& program, const Timeline& timeline, bool shapes)
{
    std::map<std::string, std::pair<Seconds, Flops>> kinds;
    for (std::size_t i = 0; i < timeline.spans.size(); ++i) {
        const Step& step = program.schedule.steps[i];
        const std::string kind = step.kind == StepKind::op ? kind_of(program.graph, program.graph[step.op], shapes) : "feed and fetch";
        auto& [seconds, flops] = kinds[kind];
        seconds += timeline.spans[i].end - timeline.spans[i].begin;
        flops += step.kind == StepKind::op ? flops_of(program.graph, program.graph[step.op]) : 0;
    }
    return kinds;
}

void measure(const RunConfig& config, int threads, const Options& options)
{
    const kernels::DType type = config.train.precision == Precision::bf16 ? kernels::DType::bf16 : kernels::DType::f32;
    Peak peak = measure_peak(type, threads, options.peak_seconds);
    const Compiled compiled = compile_training(config, {});
    const Program& program = compiled.programs[train_program];
    Arena arena(compiled.memory.arena);
    Executor executor(program.graph, program.schedule, arena, {threads, true, 0});
    initialise(program.graph, program.schedule, arena, 1, threads);
    const RandomStream random(1, "tokens");
    u64 drawn = 0;
    const Feed feed = [&](const Value& value, i64, void* destination) {
        if (value.role == Role::hyper) {
            const double hyper[hyper_count] = {1e-4, 0.9, 0.95, 1e-8, 0.1, 0.05};
            std::copy(hyper, hyper + hyper_count, static_cast<double*>(destination));
            return;
        }
        auto* to = static_cast<std::int32_t*>(destination);
        for (i64 i = 0; i < value.type.elements(); ++i)
            to[i] = static_cast<std::int32_t>(value.name == "positions" ? i % value.type.shape[1]
                                                                        : random.bits_at(drawn++) % static_cast<u64>(config.model.vocab));
    };
    std::vector<Seconds> seconds;
    std::map<std::string, std::pair<Seconds, Flops>> kinds;
    for (int step = 0; step <= options.steps; ++step) {
        const double begin = now();
        executor.run_until_decision(feed);
        executor.run_after_decision();
        if (step == 0)
            continue; // the first one meets cold pages
        seconds.push_back(now() - begin);
        if (seconds.back() == *std::min_element(seconds.begin(), seconds.end()))
            kinds = by_kind(program, executor.timeline(), options.shapes);
    }
    const Peak after = measure_peak(type, threads, options.peak_seconds); // the machine may have slowed or sped up meanwhile
    if (after.flops_per_second > peak.flops_per_second)
        peak = after;
    std::sort(seconds.begin(), seconds.end());
    const Seconds median = seconds[seconds.size() / 2], least = seconds.front();
    const Flops flops = model_flops(program.graph, microbatch_count(config));
    const double tokens = static_cast<double>(config.train.global_batch * config.model.seq);
    fmt::print("\n1 rank x {} thread(s), {}\n", threads, name_of(config.train.precision));
    fmt::print("  peak          {:8.1f} GFLOP/s  best of the product list ({} x {} x {})\n", peak.flops_per_second / 1e9, peak.m, peak.n, peak.k);
    fmt::print("  step          {:8.3f} s median, {:.3f} s least of {}\n", median, least, seconds.size());
    fmt::print("  tokens/s      {:8.1f} median, {:.1f} best\n", tokens / median, tokens / least);
    fmt::print("  MFU           {:8.1f} % median, {:.1f} % best\n", 100 * flops / median / peak.flops_per_second, 100 * flops / least / peak.flops_per_second);
    fmt::print("  memory        {} planned, {} used\n", compiled.memory.arena, executor.used());
    fmt::print("  where the least step went:\n    {:<32} {:>9} {:>7} {:>12}\n", "op", "ms", "%", "GFLOP/s");
    std::vector<std::pair<std::string, std::pair<Seconds, Flops>>> rows(kinds.begin(), kinds.end());
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.first > b.second.first; });
    for (const auto& [kind, cost] : rows)
        fmt::print("    {:<32} {:>9.2f} {:>6.2f} {:>12}\n", kind, 1e3 * cost.first, 100 * cost.first / least,
                   cost.second > 0 ? fmt::format("{:.1f}", cost.second / cost.first / 1e9) : "");
}

int run(int argc, char* argv[])
{
    Options options;
    CLI::App app{"Training steps on random tokens: tokens/s, MFU and time by kind of op."};
    app.add_option("--threads", options.threads, "thread counts to measure")->delimiter(',');
    app.add_option("--steps", options.steps, "measured steps")->check(CLI::PositiveNumber);
    app.add_flag("--shapes", options.shapes, "a row per product shape");
    app.add_option("overrides", options.overrides, "config keys, key=value");
    CLI11_PARSE(app, argc, argv);
    std::vector<std::string> keys{"model.preset=gpt2-124m", "model.seq=256", "train.global_batch=4"};
    keys.insert(keys.end(), options.overrides.begin(), options.overrides.end());
    RunConfig config = read_config("", keys);
    resolve_and_validate(config);
    const kernels::Runtime runtime(*std::max_element(options.threads.begin(), options.threads.end()));
    const Compiled compiled = compile_training(config, {});
    const Graph& graph = compiled.programs[train_program].graph;
    Flops products = 0, attention = 0;
    for (const Op& op : graph.ops)
        if (op.region == Region::microbatch && op.phase == Phase::forward)
            (info(op).scratch == ScratchKind::attention ? attention : products) += flops_of(graph, op);
    fmt::print("model         {}: {} layers, dim {}, {} heads, ffn {}, vocab {}, {} parameters\n", name_of(config.model.family),
               config.model.layers, config.model.dim, config.model.heads, config.model.ffn_dim, config.model.vocab,
               format_count(parameter_count(config.model)));
    fmt::print("batch         {} x {} tokens, {} microbatches\n", config.train.global_batch, config.model.seq, microbatch_count(config));
    fmt::print("model flops   {:.4g} a step = 3 x (2 m n k over the forward products {:.4g} + causal attention 2 b h e s(s+1) {:.4g})\n",
               model_flops(graph, microbatch_count(config)), products * static_cast<double>(microbatch_count(config)),
               attention * static_cast<double>(microbatch_count(config)));
    for (const int threads : options.threads)
        measure(config, threads, options);
    return 0;
}

} // namespace

} // namespace trivium

int main(int argc, char* argv[])
{
    try {
        return trivium::run(argc, argv);
    } catch (const trivium::Error& error) {
        std::fprintf(stderr, "perf_step: %s\n", error.what());
        return error.exit_status();
    }
}
