#include "train/report/run_report.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "compile/describe.hpp"
#include "io/files/files.hpp"
#include "mpi/clock_offset.hpp"
#include "mpi/records.hpp"
#include "schedule/trace.hpp"
#include "train/learning_rate.hpp"
#include "train/node_resources.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <limits>
#include <sys/resource.h>

namespace trivium {

namespace {

/// One rank's data for the report.
struct RankSizes {
    i64 stage = 0, parameters = 0;
    Bytes arena = 0;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankSizes, stage, parameters, arena)

std::string range(i64 least, i64 most, const std::function<std::string(i64)>& print)
{
    return least == most ? print(most) : print(least) + " to " + print(most);
}

/// Lines for the start of a run: the grid and its nodes, which axes cross them, and for each pipeline stage
/// its blocks, parameters and memory per rank. All ranks call it; only rank 0 gets lines.
std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled)
{
    const Graph& g = compiled.programs[train_program].graph;
    i64 parameters = 0;
    for (const Value& v : g.values)
        parameters += is_trained(v) || v.update.kind == UpdateKind::frozen ? v.type.elements() : 0;
    const i64 stage = g.at[static_cast<std::size_t>(g.mesh.find(pipeline_axis))];
    const std::vector<RankSizes> facts =
        gather_records_to_first(grid.world(), RankSizes{stage, parameters, compiled.memory.arena});
    if (grid.world().rank() != 0)
        return {};
    std::string crossing;
    for (const MeshAxis& axis : grid.mesh().axes)
        if (grid.crosses_nodes(axis.name))
            crossing += (crossing.empty() ? "" : ", ") + axis.name;
    std::vector<std::string> lines{fmt::format("grid     {} on {}: {}", counted(facts.size(), "rank"),
                                               counted(grid.nodes(), "node"),
                                               describe_grid(config.parallel))};
    if (const std::string chosen = describe_choices(compiled.parallel); !chosen.empty())
        lines.push_back("         " + chosen);
    if (grid.nodes() > 1)
        lines.push_back("         across nodes: " + (crossing.empty() ? "no axis" : crossing));
    for (i64 s = 0; facts.size() > 1 && s < g.mesh.size(pipeline_axis); ++s) {
        std::vector<RankSizes> mine;
        std::copy_if(facts.begin(), facts.end(), std::back_inserter(mine),
                     [&](const RankSizes& f) { return f.stage == s; });
        const auto [fewest, most] = std::ranges::minmax(mine, {}, &RankSizes::parameters);
        const auto [small, large] = std::ranges::minmax(mine, {}, &RankSizes::arena);
        lines.push_back(fmt::format(
            "{} {:<30} {} parameters and an arena of {} per rank",
            g.mesh.size(pipeline_axis) > 1 ? fmt::format("stage {:<2}", s) : "        ",
            g.mesh.size(pipeline_axis) > 1 ? blocks_of_rank(config.model, compiled.rank_of_block, s)
                                           : "all layers",
            range(fewest.parameters, most.parameters,
                  [](i64 n) { return format_si(static_cast<double>(n)); }),
            range(small.arena, large.arena,
                  [](i64 n) { return fmt::format("{} ({} bytes)", format_bytes(n), n); })));
    }
    return lines;
}

} // namespace

RunReport::RunReport(const RunConfig& config, const Engine& engine, const RunPlace& place)
    : config_(config), engine_(engine), place_(place), first_rank_(place.grid.world().rank() == 0),
      units_(computing_units(place.grid, place.computing.address(), place.threads)),
      peak_(units_ * place.machine.peak(compute_type(config.train.precision), 1))
{
}

void RunReport::announce(const std::vector<std::string>& data, const RunState& begin,
                         const Prediction& prediction)
{
    prediction_ = prediction;
    first_step_ = begin.step;
    first_sample_ = begin.samples;
    const Compiled& compiled = engine_.compiled();
    const int ranks = place_.grid.world().size();
    const std::vector<std::string> grid_lines = grid_report(place_.grid, config_, compiled);
    if (!first_rank_)
        return;
    log_info("model    " + describe_model(config_));
    for (const std::string& line : data)
        log_info(line);
    for (const std::string& line : grid_lines)
        log_info(line);
    const auto arena_text = [&](const char* label, const MemoryPlan& plan) {
        return fmt::format("{} {} ({} bytes){}: {} kept over the run, {} within a step", label,
                           format_bytes(plan.arena), plan.arena, ranks > 1 ? " of rank 0" : "",
                           format_bytes(plan.kept), format_bytes(plan.transient));
    };
    const Bytes snapshot = compiled.memory.snapshot;
    log_info(arena_text("memory   arena", compiled.memory) +
             (snapshot == 0 ? "" : str("; ", format_bytes(snapshot), " more for the snapshot of a save")));
    if (compiled.host.arena > 0)
        log_info(arena_text("         arena of the host", compiled.host));
    const std::string each =
        place_.machine.is_device ? place_.computing.device() : counted(place_.threads, "thread");
    log_info(fmt::format(
        "compute  {} x {}, {} of {}, {} model FLOPs per step; MFU relative to {}FLOP/s of '{}'{}",
        counted(ranks, "rank"), each, counted(microbatch_count(config_), "microbatch", "microbatches"),
        micro_batch(config_), format_si(compiled.flops), format_si(peak_), place_.machine.name,
        shares_cores() ? fmt::format(" x {:.3g}, which the ranks share", units_) : ""));
    if (prediction.seconds > 0)
        log_info(fmt::format(
            "estimate {} per step, simulated on '{}'{}", format_seconds(prediction.seconds),
            prediction.machine,
            prediction.error > 0
                ? fmt::format(" (errors of its calibration: up to {:.1f} %)", 100 * prediction.error)
                : ""));
}

bool RunReport::shares_cores() const
{
    return units_ < static_cast<double>(place_.machine.workers(place_.threads)) * place_.grid.world().size();
}

void RunReport::note_loads(const StepResult& result, MetricsRecord& record) const
{
    if (result.loads.empty())
        return;
    const ModelConfig& m = config_.model;
    const double slots = static_cast<double>(batch_at(config_.train, record.step) * m.seq * m.expert_slots);
    const ParallelConfig& p = config_.parallel;
    const bool overflows = p.expert > 1 && p.expert_buffer > 0 && p.expert_overflow == ExpertOverflow::drop;
    double most = 0, dropped = 0;
    std::size_t at = 0;
    std::vector<MetricsRecord::Number> layers;
    for (i64 layer = 0; layer < m.layers; ++layer) {
        if (!m.has_experts(layer))
            continue;
        const double load = result.loads.at(at++) * static_cast<double>(m.experts) / slots;
        layers.emplace_back(str("expert_load_", layer), load);
        most = std::max(most, load);
        if (m.expert_capacity > 0)
            dropped += slots - result.loads.at(at++);
        if (overflows)
            dropped += result.loads.at(at++);
    }
    record.set("expert_load", most);
    if (m.expert_capacity > 0 || overflows)
        record.set("dropped_slots", dropped / (slots * static_cast<double>(layers.size())));
    for (const auto& [name, load] : layers)
        record.set(name, load);
}

MetricsRecord RunReport::step(const RunState& state, const StepResult& result, Seconds seconds,
                              const std::string& skipped)
{
    if (state.step == first_step_ + 1)
        note_memory();
    const TrainConfig& t = config_.train;
    const Flops flops = engine_.compiled().flops * static_cast<double>(batch_at(t, state.step)) /
                        static_cast<double>(t.global_batch);
    const double loss = result.loss.mean();
    MetricsRecord record;
    const double tokens_per_second = result.loss.tokens / seconds;
    const double mfu = flops / seconds / peak_;
    const double lr = learning_rate(config_.train, state.step);
    record.step = state.step;
    record.set("loss", loss);
    record.set("grad_norm", result.norm);
    record.set("lr", lr);
    note_loads(result, record);
    if (const i64 most = batch_at(t, state.step) * config_.model.seq;
        !config_.model.is_program() && static_cast<i64>(result.loss.tokens) < most)
        record.set("trained_tokens", result.loss.tokens);
    if (!t.batch_ramp.stages.empty())
        record.set("sequences", static_cast<double>(batch_at(t, state.step)));
    record.set("tokens", static_cast<double>(state.tokens));
    record.set("tokens_per_second", tokens_per_second);
    const bool program = config_.model.is_program();
    const double samples_per_second = static_cast<double>(batch_at(t, state.step)) / seconds;
    if (program)
        record.set("samples_per_second", samples_per_second);
    record.set("step_seconds", seconds);
    record.set("mfu", mfu);
    if (batch_at(t, state.step) == t.global_batch) {
        if (prediction_.seconds > 0)
            record.set("predicted_step_seconds", prediction_.seconds);
        constexpr std::size_t most = 1000;
        if (state.step > first_step_ + 1) { // the first step of a launch is slow
            if (last_steps_.size() < most)
                last_steps_.push_back(seconds);
            else
                last_steps_[timed_ % most] = seconds;
            ++timed_;
        }
    }
    record.set("memory_bytes", static_cast<double>(largest_used_));
    record.set("planned_bytes", static_cast<double>(largest_planned_));
    if (host_planned_ > 0) {
        record.set("host_memory_bytes", static_cast<double>(host_used_));
        record.set("host_planned_bytes", static_cast<double>(host_planned_));
    }
    record.set("ranks", place_.grid.world().size());
    record.set("time", unix_now());
    if (const Seconds exposed = engine_.exposed(); place_.grid.world().size() > 1 && exposed >= 0)
        record.set("exposed_comm_seconds", exposed);
    if (!skipped.empty()) {
        record.set("skipped", 1);
        log_warning(str("step ", state.step, " skipped: ", skipped, "; parameters are unchanged"));
    }
    if (const double uniform = config_.model.is_program()
                                   ? std::numeric_limits<double>::infinity()
                                   : std::log(static_cast<double>(config_.model.vocab));
        collapse_.collapses(loss, result.norm))
        log_warning(fmt::format(
            "the run has collapsed: for {} steps in a row the gradient norm is {:.3g} and the "
            "loss {:.4f}{}, so it no longer learns; resume from an earlier "
            "checkpoint (checkpoint.resume = its path) with a lower train.lr (now {:.3g}) or a "
            "longer train.warmup",
            CollapseWatch::steps_until_reported, result.norm, loss,
            std::abs(loss - uniform) < 0.01 * uniform
                ? " = ln(model.vocab), the loss of a model that assigns the same probability to every token"
                : "",
            lr));
    rusage usage{};
    if (first_rank_ && !place_.machine.is_device && !shares_cores() && getrusage(RUSAGE_SELF, &usage) == 0 &&
        cores_.notices(seconds, usage.ru_nivcsw, place_.threads))
        log_warning("other processes use the cores of this run, which slows it down by much more than their "
                    "share: give it cores of its own, or lower parallel.threads");
    step_seconds_ = step_seconds_ == 0 ? seconds : 0.9 * step_seconds_ + 0.1 * seconds;
    train_seconds_ += seconds;
    last_loss_ = result.loss.tokens > 0 ? loss : last_loss_;
    const int width = static_cast<int>(std::to_string(config_.train.steps).size());
    const bool counts = result.loss.tokens > 0;
    const std::string line = fmt::format(
        "step {:>{}}/{}  loss {}  norm {}  lr {:.2e}  {:>7} {}/s  MFU {:4.1f} %  left {}", state.step, width,
        config_.train.steps, counts ? fmt::format("{:.4f}", loss) : "-",
        counts ? fmt::format("{:.3f}", result.norm) : "-", lr,
        format_si(program ? samples_per_second : tokens_per_second), program ? "samples" : "tok", 100 * mfu,
        format_seconds(step_seconds_ * static_cast<double>(config_.train.steps - state.step)));
    if (state.step % config_.log.every == 0 || state.step == config_.train.steps)
        log_info(line);
    else
        log_progress(line);
    return record;
}

void RunReport::evaluation(i64 step, const std::vector<NamedEvaluation>& sets,
                           const std::vector<NamedEvaluation>& raw, MetricsRecord& record)
{
    const Evaluation e = joined(sets);
    if (last_valid_loss_ < 0) // the first evaluation in this launch
        note_memory();
    last_valid_loss_ = e.loss;
    const std::vector<std::string>& names = config_.model.program.metrics;
    const auto note = [&](const std::string& set, const Evaluation& one) {
        record.set("valid_loss" + (set.empty() ? "" : "_" + set), one.loss);
        for (std::size_t i = 0; i < one.metrics.size(); ++i)
            record.set(str("valid_", names[i], set.empty() ? "" : "_" + set), one.metrics[i].mean());
        log_info(fmt::format("step {}  validation loss {:.4f}{}  {}", step, one.loss,
                             set.empty() ? "" : " of " + set, describe_result(config_.model, one)));
    };
    for (const NamedEvaluation& set : sets)
        if (!set.name.empty())
            note(set.name, set.result);
    if (sets.size() == 1 && !sets[0].name.empty())
        record.set("valid_loss", e.loss);
    else
        note("", e);
    if (raw.empty())
        return;
    const double loss = joined(raw).loss;
    record.set("valid_loss_raw", loss);
    log_info(fmt::format("step {}  validation loss {:.4f} of the weights that are not averaged", step, loss));
}

void RunReport::note_memory()
{
    const auto note = [&](Bytes& largest, Bytes mine) {
        largest = std::max(largest, std::ranges::max(gather_records(place_.grid.world(), mine)));
    };
    note(largest_used_, engine_.used());
    note(largest_planned_, engine_.planned());
    note(host_used_, engine_.used(Space::host));
    note(host_planned_, engine_.planned(Space::host));
}

void RunReport::write_trace() const
{
    Comm& world = place_.grid.world();
    const std::size_t last = engine_.last_program();
    const Program& train = engine_.program(last);
    const Timeline& timeline = engine_.executor(last).timeline();
    // The ranks of one node read the same clock.
    std::vector<ClockOffset> clocks(static_cast<std::size_t>(world.size()));
    if (place_.grid.nodes() > 1)
        clocks = clock_offsets(world, now);
    const Seconds start =
        earliest_moment(world, timeline.spans.front().begin, clocks[static_cast<std::size_t>(world.rank())]);
    const std::vector<std::string> events =
        gather_to_first(world, trace_events(train.graph, train.schedule, timeline, world.rank(), start));
    if (!first_rank_)
        return;
    write_file(config_.log.trace, trace_json(events));
    Seconds error = 0;
    for (const ClockOffset& clock : clocks)
        error = std::max(error, clock.error);
    log_info("trace    " + config_.log.trace +
             " contains the last step; open it in Perfetto or chrome://tracing" +
             (error > 0 ? fmt::format(" (clocks aligned to {:.1f} us)", 1e6 * error) : ""));
}

void RunReport::summarise(const RunState& state, const std::string& metrics_path) const
{
    Comm& world = place_.grid.world();
    const i64 steps = state.step - first_step_;
    if (steps > 0 && !config_.log.trace.empty())
        write_trace();
    std::string unlike; // ranks that used another amount than planned
    std::string own;
    for (const Space space : {Space::device, Space::host})
        if (const Bytes planned = engine_.planned(space), used = engine_.used(space); used != planned)
            own += str(own.empty() ? "" : ", ", "planned ", planned, " bytes, used ", used,
                       space == Space::host ? " of the host" : "");
    const std::vector<std::string> memory = gather_to_first(world, own);
    if (!first_rank_)
        return;
    for (std::size_t rank = 1; rank < memory.size(); ++rank)
        if (!memory[rank].empty())
            unlike += str("; rank ", rank, ": ", memory[rank]);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    log_info("");
    log_info(fmt::format("done     {} of {} ({} in this launch), {}", state.step,
                         counted(config_.train.steps, "step"), steps,
                         config_.model.is_program() ? counted(state.samples, "sample")
                                                    : format_count(state.tokens) + " tokens"));
    if (steps > 0) {
        const i64 samples = state.samples - first_sample_;
        const double tokens = static_cast<double>(samples * config_.model.seq),
                     batches = static_cast<double>(samples) / static_cast<double>(config_.train.global_batch);
        log_info(
            fmt::format("loss     {:.4f}{}", last_loss_,
                        last_valid_loss_ >= 0 ? fmt::format(", validation {:.4f}", last_valid_loss_) : ""));
        log_info(fmt::format("speed    {} {}/s, {} per step, MFU {:.1f} %",
                             format_si(tokens / train_seconds_), config_.model.units(),
                             format_seconds(train_seconds_ / static_cast<double>(steps)),
                             100 * engine_.compiled().flops * batches / train_seconds_ / peak_));
        if (!last_steps_.empty() && prediction_.seconds > 0) {
            const Seconds middle = median(last_steps_);
            log_info(fmt::format("         the median step took {}, {:.1f} % {} than simulated on '{}' ({})",
                                 format_seconds(middle), 100 * std::abs(middle / prediction_.seconds - 1),
                                 middle < prediction_.seconds ? "less" : "more", prediction_.machine,
                                 format_seconds(prediction_.seconds)));
        }
    }
    log_info(fmt::format("memory   arena planned {} bytes, {}{}; process peak {}", engine_.planned(),
                         steps > 0 ? fmt::format("used {} bytes", engine_.used()) : "no step was run",
                         steps == 0 || world.size() == 1 ? ""
                         : unlike.empty()                ? str("; all other ranks used what was planned")
                                                         : unlike,
                         format_bytes(Bytes{usage.ru_maxrss} * 1024)));
    if (const Bytes planned = engine_.planned(Space::host); planned > 0)
        log_info(fmt::format("         arena of the host planned {} bytes, {}", planned,
                             steps > 0 ? fmt::format("used {} bytes", engine_.used(Space::host))
                                       : "no step was run"));
    if (const DeviceMemory device = place_.computing.memory(); device.total > 0)
        log_info(fmt::format("device   {} bytes of its memory are in use: the arena, and {} of driver, "
                             "libraries and other processes; the plan states {}",
                             device.total - device.free,
                             format_bytes(device.total - device.free - engine_.planned()),
                             format_bytes(engine_.compiled().memory.process)));
    log_info("metrics  " + metrics_path);
}

} // namespace trivium
