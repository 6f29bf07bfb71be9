#include "train/trainer.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "compile/threads.hpp"
#include "io/files/files.hpp"
#include "ir/names.hpp"
#include "kernels/runtime.hpp"
#include "passes/optimizer.hpp"
#include "plan/cost.hpp"
#include "train/agreement.hpp"
#include "train/loss_spikes.hpp"
#include "train/node_memory.hpp"
#include "train/this_machine.hpp"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <numbers>
#include <unistd.h>

namespace trivium {

namespace {

// Of the flags that ranks agree on. The numbers of signals lie below, the saver's above.
constexpr u64 time_is_up = u64{1} << 38, demand = u64{1} << 39;
constexpr u64 stop_bits = demand - 1;

} // namespace

Trainer::Trainer(RunConfig config, const std::string& build, Comm& world, const RunLinks& links)
    : config_(std::move(config)), build_(build), world_(world),
      grid_(world, mesh_of(config_.parallel), node_name()),
      threads_(thread_count(config_.parallel, kernels::thread_limit(), ranks_on_same_cores(grid_))),
      computing_(threads_, &grid_), machine_(machine_of(computing_))
{
    succeed_together(world_, [&] {
        open_data();
        if (is_chief())
            begin_launch(links);
    });
    if (agree(world_, is_chief() && config_.checkpoint.resume == "auto") != 0)
        config_.checkpoint.resume = "auto";
    require_same_data(world_, config_.data.train, *train_);
    if (valid_)
        require_same_data(world_, config_.data.valid, *valid_);
    require_shared_folder(world_, config_.checkpoint.dir);
    require_least_memory(grid_, computing_.address(), config_);
    Activity::of_process().enter("the compilation");
    succeed_together(world_, [&] {
        CompileConfig options;
        options.machine = machine_;
        options.rank = world_.rank();
        compiled_ = compile_training(config_, options);
    });
    require_free_memory(grid_, computing_.address(),
                        compiled_.memory.arena + (machine_.is_device ? 0 : compiled_.memory.snapshot));
    Activity::of_process().enter("the allocation");
    succeed_together(world_, [&] { arena_.emplace(compiled_.memory.arena); });
    ExecutorConfig executor;
    executor.threads = threads_;
    executor.red_zone = contracts_on ? 256 : 0;
    executor.trace = !config_.log.trace.empty();
    executor.overlap = config_.parallel.overlap;
    executor.graphs = config_.parallel.graphs;
    executor.deterministic = config_.parallel.deterministic;
    // Not together: making one takes the other ranks along on devices, and one that fails must not wait for
    // them first.
    const Program& train = compiled_.programs[train_program];
    executor_.emplace(train.graph, train.schedule, *arena_, executor, &grid_);
    inputs_ = input_boxes(train.graph);
    if (valid_)
        evaluator_.emplace(compiled_.programs[eval_program], *arena_, executor, &grid_);
    flops_ = compiled_.flops;
    restore_or_initialise(links.guard);
    succeed_together(world_, [&] {
        if (!is_chief())
            return;
        note_restored(*links.launches);
        claim_metrics(config_.checkpoint.dir, config_.log.dir, resumed_, state_.step);
        metrics_.emplace(config_.log.dir, state_.step);
        time_ = std::make_unique<JobTime>(job_);
        if (job_.end || !job_.id.empty()) {
            visit_metrics(config_.log.dir, [&](const MetricsRecord& record) {
                if (record.has("checkpoint_seconds"))
                    longest_save_ = record.value("checkpoint_seconds"); // the newest
            });
            if (job_.end)
                most_lead_ = job_.left() / 2;
        }
    });
}

std::string Trainer::why_skipped(double loss, double norm)
{
    const TrainConfig& t = config_.train;
    if (!std::isfinite(loss) || !std::isfinite(norm))
        return str("its ", std::isfinite(loss) ? "gradient norm" : "loss", " is not finite");
    if (t.spike_z == 0)
        return "";
    std::vector<double>& recent = state_.recent_losses;
    if (is_spike(recent, loss, t.spike_z)) {
        if (state_.skipped_in_row < most_spikes)
            return fmt::format("its loss {:.4f} stands out from the last {} (train.spike_z = {})", loss,
                               recent.size(), t.spike_z);
        recent.clear();
    }
    recent.push_back(loss);
    if (static_cast<i64>(recent.size()) > t.spike_window)
        recent.erase(recent.begin(), recent.end() - t.spike_window);
    return "";
}

Trainer::StepResult Trainer::train_step()
{
    const Seconds begin = now();
    Activity::of_process().enter(str("step ", state_.step + 1));
    const TrainConfig& t = config_.train;
    const i64 batch =
        micro_batch(config_) * config_.parallel.data; // rows of a microbatch over all data ranks
    const auto updates = static_cast<double>(state_.updates + 1);
    const double hyper[hyper_count] = {
        learning_rate(t, state_.step + 1), t.beta1, t.beta2, t.eps, 1 - std::pow(t.beta1, updates),
        1 - std::pow(t.beta2, updates)};
    executor_->run_until_decision([&](const Value& value, i64 microbatch, void* destination) {
        if (value.role == Role::hyper)
            std::copy(hyper, hyper + hyper_count, static_cast<double*>(destination));
        else {
            const Box& box = inputs_.at(value.name);
            for (i64 row = 0; row < box.shape[0]; ++row)
                fill_row(value, row, *train_,
                         order_->at(state_.samples + microbatch * batch + box.offset[0] + row), destination);
        }
    });
    StepResult result;
    const double tokens = executor_->fetched(value_name::totals, total_tokens);
    result.loss = executor_->fetched(value_name::totals, total_loss) / tokens;
    result.norm = executor_->fetched(value_name::norm, 0);
    result.tokens = static_cast<i64>(tokens);
    result.skipped = why_skipped(result.loss, result.norm);
    saver_->wait_for_snapshot();
    const bool updates_now = result.skipped.empty();
    if (updates_now)
        executor_->run_after_decision();
    state_.step += 1;
    state_.updates += updates_now ? 1 : 0;
    state_.skipped_in_row = updates_now ? 0 : state_.skipped_in_row + 1;
    state_.samples += t.global_batch;
    state_.tokens += result.tokens;
    result.seconds = now() - begin;
    return result;
}

bool Trainer::evaluation_is_due() const
{
    const TrainConfig& t = config_.train;
    return valid_ && state_.step > 0 &&
           (state_.step == t.steps || (t.eval_every > 0 && state_.step % t.eval_every == 0));
}

u64 Trainer::evaluate(MetricsRecord& record, const RunSignals& signals)
{
    Activity::of_process().enter(str("the evaluation after step ", state_.step));
    u64 stop = 0;
    const Evaluation e =
        evaluator_->run(*valid_, config_.train.eval_batches * config_.train.global_batch, [&] {
            stop = agree(world_, stop_requests(signals));
            return stop != 0;
        });
    if (stop != 0) {
        log_info(str("evaluation after step ", state_.step, " given up: ", describe_stop(stop),
                     "; the next launch makes up for it"));
        return stop;
    }
    if (last_valid_loss_ < 0) // the first one in this launch
        note_memory();
    last_valid_loss_ = e.loss;
    record.set("valid_loss", e.loss);
    log_info(fmt::format("step {}  validation loss {:.4f}  perplexity {:.2f}  ({} tokens)", state_.step,
                         e.loss, std::exp(e.loss), format_count(e.tokens)));
    return 0;
}

bool Trainer::owes_evaluation()
{
    std::optional<MetricsRecord> record;
    if (is_chief() && evaluation_is_due())
        record = metrics_->last();
    return agree(world_, record && record->step == state_.step && !record->has("valid_loss")) != 0;
}

u64 Trainer::catch_up_on_evaluation(const RunSignals& signals)
{
    MetricsRecord record = is_chief() ? metrics_->last().value() : MetricsRecord{};
    const u64 stop = evaluate(record, signals);
    if (stop == 0 && is_chief())
        metrics_->replace_last(record);
    return stop;
}

u64 Trainer::stop_requests(const RunSignals& signals) const
{
    const bool late = is_chief() && time_->is_over(lead());
    return (signals.stop() ? u64{1} << signals.stop() : 0) | (late ? time_is_up : 0);
}

std::string Trainer::describe_stop(u64 requests) const
{
    std::string text = (requests & time_is_up) != 0 ? "the job's time limit" : "";
    for (int number = 1; number < std::countr_zero(time_is_up); ++number)
        if ((requests >> number & 1) != 0)
            text += str(text.empty() ? "" : ", ", "signal ", name_of_signal(number));
    return text;
}

Seconds Trainer::lead() const
{
    const Seconds margin = 10;
    const double slow_disk = 200e6; // bytes a second, before a save was measured
    Bytes bytes = 0;
    for (const SavedTensor& tensor : saved_)
        bytes += tensor.written();
    const Seconds save =
        longest_save_ > 0 ? longest_save_ : static_cast<double>(bytes) * grid_.local_ranks() / slow_disk;
    const Seconds lead = margin + 2 * (save + step_times_.usual()); // one of each may just have begun
    return std::min(lead,
                    saves_seen_ > 0 ? lead : most_lead_); // a guess must not take the whole of a short job
}

void Trainer::save()
{
    if (saved_step_ == state_.step)
        return;
    Activity::of_process().enter(str("the save of step ", state_.step));
    paused_at_save_ = paused_;
    saver_->start(state_);
    saved_step_ = state_.step;
}

bool Trainer::take_demand() const
{
    return is_chief() && ::unlink((config_.checkpoint.dir + "/save-now").c_str()) == 0;
}

int Trainer::run(const RunSignals& signals)
{
    announce();
    const TrainConfig& t = config_.train;
    if (state_.step >= t.steps)
        log_info(
            str("the run is complete: ", state_.step, " of ", t.steps, " steps; raise train.steps to go on"));
    const i64 last = t.stop_after > 0 ? std::min(t.steps, state_.step + t.stop_after) : t.steps;
    u64 stop = agree(world_, stop_requests(signals)); // any rank's request stops all
    bool evaluated = !owes_evaluation();
    if (!evaluated && stop == 0) {
        stop = catch_up_on_evaluation(signals);
        evaluated = stop == 0;
    }
    while (stop == 0 && state_.step < last) {
        const StepResult result = train_step();
        if (state_.step == first_step_ + 1)
            note_memory();
        MetricsRecord record;
        report(result, record);
        const bool demanded = signals.take_demand() || take_demand();
        const u64 agreed = agree(world_, stop_requests(signals) | (demanded ? demand : 0) | saver_->flags());
        stop = agreed & stop_bits;
        saver_->advance(agreed);
        evaluated = !evaluation_is_due();
        if (!evaluated && stop == 0) {
            stop = evaluate(record, signals);
            evaluated = stop == 0;
        }
        if (const Saver::Times times = saver_->take_times();
            times.whole > 0) { // of the save before: this step's line is written before its own
            record.set("checkpoint_seconds", times.whole);
            record.set("checkpoint_stall_seconds", times.stall);
            const Seconds whole =
                std::max(0.0, times.whole - (paused_ - paused_at_save_)); // suspended, a job saves nothing
            longest_save_ = saves_seen_++ > 0 ? std::max(longest_save_, whole) : whole;
        }
        // The line first: a crash in between leaves one line too many, which the next launch moves aside.
        if (is_chief())
            metrics_->write(record);
        if (t.max_skipped > 0 && state_.skipped_in_row >= t.max_skipped)
            succeed_together(world_, [&] {
                throw IoError({str("step ", state_.step),
                               str("is the ", state_.skipped_in_row, "th in a row that was skipped"),
                               "the run learns nothing any more",
                               "go on from an earlier checkpoint (checkpoint.resume = its path) with a lower "
                               "train.lr; train.max_skipped sets how many are let pass"});
            });
        if (stop != 0 || (agreed & demand) != 0 || state_.step == last ||
            (config_.checkpoint.every > 0 && state_.step % config_.checkpoint.every == 0))
            save();
    }
    if (stop != 0 && (state_.step < t.steps || !evaluated)) {
        save(); // where the request came before the first step
        saver_->finish();
        ending_ = describe_stop(stop);
        if ((stop & time_is_up) == 0 && is_chief() && job_.end && job_.left() < most_lead_)
            ending_ += ", late in the job's time";
        log_info(
            str("stopped on ", describe_stop(stop), " after step ", state_.step, "; start again to go on"));
        return 75;
    }
    Activity::of_process().enter("the end");
    saver_->finish();
    write_trace();
    summarise();
    ending_ = state_.step < t.steps ? "train.stop_after" : "done";
    return 0;
}

} // namespace trivium
