// What a run prints, and the line of metrics of each step.
#include "train/trainer.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "compile/describe.hpp"
#include "io/files/files.hpp"
#include "runtime/trace.hpp"
#include "train/grid_report.hpp"

#include <cmath>
#include <fmt/format.h>
#include <sys/resource.h>

namespace trivium {

Bytes Trainer::used_bytes() const
{
    if constexpr (contracts_on) // what was really written to, not what Steps were given
        return arena_->high_water();
    return std::max(executor_->used(), evaluator_ ? evaluator_->executor().used() : Bytes{0});
}

Flops Trainer::peak_flops() const
{
    const double each = config_.train.precision == Precision::bf16  ? machine_.flops_bf16
                        : config_.train.precision == Precision::f64 ? machine_.flops_f64
                                                                    : machine_.flops_f32;
    return each * static_cast<double>(machine_.workers(threads_)) * world_.size();
}

void Trainer::announce() const
{
    const std::vector<std::string> grid_lines = grid_report(grid_, config_, compiled_);
    if (!is_chief())
        return;
    const i64 samples = window_count(train_->size(), config_.model.seq);
    log_info("model    " + describe_model(config_));
    log_info(fmt::format("data     {} tokens, {} samples; {} a step; {:.2f} epochs in {} steps",
                         format_count(train_->size()), format_count(samples), config_.train.global_batch,
                         static_cast<double>(config_.train.steps * config_.train.global_batch) /
                             static_cast<double>(samples),
                         config_.train.steps));
    for (const std::string& line : grid_lines)
        log_info(line);
    log_info(fmt::format("memory   arena {} ({} bytes){}: {} kept over the run, {} within a step{}",
                         format_bytes(compiled_.memory.arena), compiled_.memory.arena,
                         world_.size() > 1 ? " of rank 0" : "", format_bytes(compiled_.memory.kept),
                         format_bytes(compiled_.memory.transient),
                         compiled_.memory.snapshot == 0
                             ? ""
                             : str("; ", format_bytes(compiled_.memory.snapshot), " of snapshot beside it")));
    const std::string each = machine_.is_device ? computing_.device() : counted(threads_, "thread");
    log_info(fmt::format("compute  {} x {}, {} of {}, {} model flops a step; MFU against {}FLOP/s of '{}'",
                         counted(world_.size(), "rank"), each,
                         counted(microbatch_count(config_), "microbatch", "microbatches"),
                         micro_batch(config_), format_si(flops_), format_si(peak_flops()), machine_.name));
}

void Trainer::report(const StepResult& r, MetricsRecord& record)
{
    const double tokens_per_second = static_cast<double>(r.tokens) / r.seconds;
    const double mfu = flops_ / r.seconds / peak_flops();
    const double lr = learning_rate(config_.train, state_.step);
    record.step = state_.step;
    record.set("loss", r.loss);
    record.set("grad_norm", r.norm);
    record.set("lr", lr);
    record.set("tokens", static_cast<double>(state_.tokens));
    record.set("tokens_per_second", tokens_per_second);
    record.set("step_seconds", r.seconds);
    record.set("mfu", mfu);
    record.set("memory_bytes", static_cast<double>(largest_used_));
    record.set("planned_bytes", static_cast<double>(largest_planned_));
    record.set("ranks", world_.size());
    record.set("time", unix_now());
    if (const Seconds exposed = executor_->exposed(); world_.size() > 1 && exposed >= 0)
        record.set("exposed_comm_seconds", exposed);
    if (!r.skipped.empty()) {
        record.set("skipped", 1);
        log_warning(str("step ", state_.step, " skipped: ", r.skipped, "; parameters stay as they are"));
    }
    if (const double uniform = std::log(static_cast<double>(config_.model.vocab));
        collapse_.collapses(r.loss, r.norm))
        log_warning(
            fmt::format("the run has collapsed: for {} steps in a row the gradient norm is {:.3g} and the "
                        "loss {:.4f}{}, so nothing is learned any more; resume from an earlier "
                        "checkpoint (checkpoint.resume = its path) with a lower train.lr (now {:.3g}) or a "
                        "longer train.warmup",
                        CollapseWatch::steps_until_told, r.norm, r.loss,
                        std::abs(r.loss - uniform) < 0.01 * uniform
                            ? " = ln(model.vocab), that of a model to which all tokens are alike"
                            : "",
                        lr));
    const Seconds paused = time_ ? time_->paused() : 0;
    step_times_.add(std::max(0.0, r.seconds - (paused - paused_)));
    paused_ = paused;
    step_seconds_ = step_seconds_ == 0 ? r.seconds : 0.9 * step_seconds_ + 0.1 * r.seconds;
    train_seconds_ += r.seconds;
    last_loss_ = r.loss;
    const int width = static_cast<int>(std::to_string(config_.train.steps).size());
    const std::string line = fmt::format(
        "step {:>{}}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {:>7} tok/s  MFU {:4.1f} %  left {}",
        state_.step, width, config_.train.steps, r.loss, r.norm, lr, format_si(tokens_per_second), 100 * mfu,
        format_seconds(step_seconds_ * static_cast<double>(config_.train.steps - state_.step)));
    if (state_.step % config_.log.every == 0 || state_.step == config_.train.steps)
        log_info(line);
    else
        log_progress(line);
}

void Trainer::note_memory()
{
    for (const u64 used : gather_numbers(world_, static_cast<u64>(used_bytes())))
        largest_used_ = std::max(largest_used_, static_cast<Bytes>(used));
    for (const u64 planned : gather_numbers(world_, static_cast<u64>(planned_bytes())))
        largest_planned_ = std::max(largest_planned_, static_cast<Bytes>(planned));
}

void Trainer::write_trace() const
{
    if (config_.log.trace.empty() || state_.step == first_step_)
        return;
    const Program& train = compiled_.programs[train_program];
    const Timeline& timeline = executor_->timeline();
    // On one node the ranks' clocks are the same one; elsewhere each begins at its own first Step.
    const Seconds begin = timeline.spans.front().begin;
    Seconds start = begin;
    for (const std::string& theirs : gather_texts(world_, fmt::format("{:.9f}", begin)))
        start = grid_.nodes() == 1 ? std::min(start, std::stod(theirs)) : start;
    const std::vector<std::string> events =
        gather_to_first(world_, trace_events(train.graph, train.schedule, timeline, world_.rank(), start));
    if (!is_chief())
        return;
    write_file(config_.log.trace, trace_json(events));
    log_info("trace    " + config_.log.trace +
             " holds the last step; open it in Perfetto or chrome://tracing");
}

void Trainer::summarise() const
{
    const i64 steps = state_.step - first_step_;
    std::string unlike; // ranks that did not use what was planned
    const std::vector<std::string> memory = gather_to_first(
        world_, str(planned_bytes(), " bytes, ",
                    used_bytes() == planned_bytes() ? "" : str("used ", used_bytes(), " bytes")));
    if (!is_chief())
        return;
    for (std::size_t rank = 1; rank < memory.size(); ++rank)
        if (!memory[rank].ends_with(", "))
            unlike += str("; rank ", rank, ": ", memory[rank]);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    log_info("");
    log_info(fmt::format("done     {} of {} steps ({} in this launch), {} tokens", state_.step,
                         config_.train.steps, steps, format_count(state_.tokens)));
    if (steps > 0) {
        const double tokens = static_cast<double>(steps * config_.train.global_batch * config_.model.seq);
        log_info(
            fmt::format("loss     {:.4f}{}", last_loss_,
                        last_valid_loss_ >= 0 ? fmt::format(", validation {:.4f}", last_valid_loss_) : ""));
        log_info(fmt::format("speed    {} tokens/s, {} a step, MFU {:.1f} %",
                             format_si(tokens / train_seconds_),
                             format_seconds(train_seconds_ / static_cast<double>(steps)),
                             100 * flops_ * static_cast<double>(steps) / train_seconds_ / peak_flops()));
    }
    log_info(fmt::format("memory   arena planned {} bytes, {}{}; process peak {}", planned_bytes(),
                         steps > 0 ? fmt::format("used {} bytes", used_bytes()) : "no step was run",
                         steps == 0 || world_.size() == 1 ? ""
                         : unlike.empty()                 ? str("; the others used what was planned too")
                                                          : unlike,
                         format_bytes(Bytes{usage.ru_maxrss} * 1024)));
    if (const DeviceMemory device = computing_.memory(); device.total > 0)
        log_info(fmt::format("device   {} bytes of its memory are taken: the arena, and {} of driver, "
                             "libraries and others who use it; the plan states {}",
                             device.total - device.free,
                             format_bytes(device.total - device.free - planned_bytes()),
                             format_bytes(compiled_.memory.process)));
    log_info("metrics  " + metrics_->path());
}

} // namespace trivium
