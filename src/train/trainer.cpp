#include "train/trainer.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "choose/decide.hpp"
#include "compile/describe.hpp"
#include "compile/threads.hpp"
#include "io/files/config_file.hpp"
#include "io/files/hash.hpp"
#include "kernels/runtime.hpp"
#include "passes/layer_norms.hpp"
#include "plan/cost.hpp"
#include "runtime/device.hpp"
#include "train/best_loss.hpp"
#include "train/learning_rate.hpp"
#include "train/node_resources.hpp"
#include "train/save/consistency.hpp"
#include "train/this_machine.hpp"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

namespace trivium {

Trainer::Trainer(RunConfig config, const std::string& build, Comm& world, const RunLinks& links)
    : config_(std::move(config)), world_(world), signals_(links.signals), first_rank_(world.rank() == 0),
      grid_(world, mesh_of(config_.parallel), node_name(),
            {config_.parallel.delay_latency, config_.parallel.delay_bandwidth}),
      threads_(thread_count(config_.parallel, kernels::thread_limit(), ranks_on_same_cores(grid_))),
      computing_(threads_, &grid_), machine_(machine_of(computing_))
{
    succeed_together(world_, [&] {
        data_.emplace(open_training_data(config_, grid_, inputs_of(config_)));
        if (first_rank_)
            folders_ = begin_launch(config_, job_, grid_, machine_.name, links);
    });
    if (agree(world_, first_rank_ && config_.checkpoint.resume == "auto") != 0)
        config_.checkpoint.resume = "auto";
    for (const auto& train : data_->train.sources())
        require_same_data(world_, *train);
    for (const ValidationSet& valid : data_->valid)
        require_same_data(world_, valid.data.source());
    require_shared_folder(world_, config_.checkpoint.dir);
    Compiled compiled = compile_for_this_rank(links.clock);
    engine_.emplace(std::move(compiled), executor_config(config_, threads_), &grid_);
    succeed_together(world_, [&] {
        for (const ValidationSet& valid : data_->valid)
            evaluated_samples(*engine_, valid.data, config_.train.eval_batches * config_.train.global_batch);
    });
    report_.emplace(config_, *engine_, RunPlace{grid_, computing_, machine_, threads_});
    saved_ = saved_tensors(engine_->compiled(), engine_->arenas());
    Restored restored = restore_or_initialise(world_, config_, *data_, *engine_, saved_);
    state_ = std::move(restored.state);
    begin_judging(state_.config);
    saved_step_ = restored.checkpoint.empty() ? -1 : state_.step;
    const CheckpointConfig& c = config_.checkpoint;
    const bool snapshot = saves_from_snapshot(config_, machine_);
    saver_.emplace(world_,
                   SaverConfig{c.dir, kept_checkpoints(c), config_.train.rewind > 0 ? c.every : 0, snapshot,
                               snapshot && c.async, [this] { metrics_->sync(); }},
                   saved_);
    require_space(world_, config_, state_.step, saved_); // remains of a killed save are removed by now
    if (links.guard)
        links.guard->release();
    agree(world_, 0); // barrier: no rank may end the run any more when rank 0 moves checkpoints
    describe_run(build);
    if (config_.model.is_program())
        data_->train.read_ahead(micro_batch(config_) * batch_ranks(config_.parallel));
    succeed_together(world_, [&] {
        if (!first_rank_)
            return;
        note_restored(*links.launches, config_, job_, state_.step);
        if (const LogConfig& l = config_.log; l.tensorboard || !l.prometheus.empty() || !l.otlp.empty())
            monitors_.emplace(MonitorConfig{l.dir, l.tensorboard, l.prometheus, l.otlp}, state_.step);
        if (shows_samples(config_))
            shown_.emplace(config_, data_->valid.front().data, state_.step);
        supersede_checkpoints(c.dir, state_.step); // only now, so that a failed start moves nothing
        claim_metrics(c.dir, config_.log.dir, restored.checkpoint, state_.step);
        metrics_.emplace(config_.log.dir, state_.step);
        if (config_.log.layer_norms > 0)
            layers_.emplace(config_.log.dir, norm_parameters(*engine_->program(train_program).sharded),
                            state_.step);
        deadline_.emplace(job_, config_.log.dir, bytes_to_write(saved_) * grid_.local_ranks());
    });
    mark_best();
    report_->announce(describe_data(state_, config_, data_->train), state_, prediction_);
}

Compiled Trainer::compile_for_this_rank(const Machine* clock)
{
    succeed_together(world_, [&] {
        if (config_.parallel.offload != Offload::none && computes_on_device())
            throw UserError({"parallel.offload",
                             str("\"", name_of(config_.parallel.offload), "\" is not implemented on GPUs"),
                             "this version offloads only in builds for CPUs", "set it to \"none\""});
    });
    require_least_memory(grid_, computing_.address(), config_);
    Activity::of_process().enter("the compilation");
    Choices choices;
    std::string form; // simulated on one rank, for all
    Compiling estimator(machine_, [] { Activity::of_process().advance(); });
    const bool open = config_.parallel.context_form == ContextForm::automatic;
    if (open && block_ranks(config_.parallel) > 1) {
        succeed_together(world_, [&] {
            if (world_.rank() == 0)
                form = name_of(context_form_of(config_, estimator));
        });
        form = share_text(world_, form);
    }
    succeed_together(world_, [&] {
        choices = decide(config_, estimator,
                         form.empty()                         ? ContextForm::automatic
                         : form == name_of(ContextForm::ring) ? ContextForm::ring
                                                              : ContextForm::gather);
    });
    require_same_choices(world_, choices);
    Compiled compiled;
    succeed_together(world_, [&] {
        CompileConfig options;
        options.machine = machine_;
        options.rank = world_.rank();
        compiled = compile_training(choices, options);
        config_ = choices.recorded;
        const Machine* known = clock                                       ? clock
                               : machine_.is_device && machine_.memory > 0 ? &machine_
                                                                           : nullptr;
        if (first_rank_ && known)
            prediction_ = predict_step(choices, *known, threads_);
    });
    require_free_memory(grid_, computing_.address(),
                        compiled.memory.arena + (machine_.is_device ? 0 : compiled.memory.outside()));
    grid_.open(joint_axes(compiled));
    Activity::of_process().enter("the allocation");
    return compiled;
}

void Trainer::describe_run(const std::string& build)
{
    state_.seed = config_.train.seed;
    state_.config = to_toml(config_);
    state_.program = config_.model.program.text.get();
    state_.build = build;
    state_.job = job_.id;
    state_.tokenizer = data_->train.source().tokenizer();
    state_.data = data_->train.content();
    state_.valid = content(data_->valid);
    state_.grid = describe_grid(config_.parallel);
    state_.ranks = world_.size();
    state_.machine = machine_.name;
    state_.cost_table = hex(hash_bytes(to_text(machine_)));
}

std::size_t Trainer::program_of(i64 batch) const
{
    return training_program(engine_->compiled(), microbatch_count(config_, batch));
}

SkipKind Trainer::train_step(MetricsRecord& record, bool ahead)
{
    const Seconds begin = now();
    Activity::of_process().enter(str("step ", state_.step + 1));
    const TrainConfig& t = config_.train;
    Skip skip;
    const auto hyper = [&](i64 later) {
        return hyper_of(t, learning_rate(t, state_.step + later), state_.updates + later);
    };
    const i64 batch = batch_at(t, state_.step + 1);
    StepCalls calls;
    calls.program = program_of(batch);
    calls.accept = [&](const StepResult& r) {
        skip = why_skipped(r.loss, r.norm);
        return skip.kind == SkipKind::none;
    };
    calls.before_changes = [&] { saver_->wait_for_snapshot(); };
    const Ahead next{data_->train.at(state_.samples + batch), hyper(2),
                     [this] { agreement_.emplace(world_, flags()); }};
    const bool measures = measures_layers(state_.step + 1);
    ahead = ahead && !measures && !measures_layers(state_.step + 2);
    if (ahead && program_of(batch_at(t, state_.step + 2)) == calls.program)
        calls.ahead = &next;
    if (measures)
        engine_->remember_weights();
    const StepResult result = engine_->step(data_->train.at(state_.samples), hyper(1), calls);
    state_.step += 1;
    state_.updates += result.updated ? 1 : 0;
    if (skip.kind != SkipKind::empty) // batches without trained tokens are normal
        state_.skipped_in_row = result.updated ? 0 : state_.skipped_in_row + 1;
    state_.samples += batch;
    state_.tokens += static_cast<i64>(result.loss.tokens);
    const Seconds seconds = now() - begin;
    if (deadline_)
        deadline_->step_took(seconds);
    record = report_->step(state_, result, seconds, skip.reason);
    if (state_.rewinds.from > 0)
        record.set("rewound_from", static_cast<double>(std::exchange(state_.rewinds.from, 0)));
    if (measures) {
        const ParameterNorms norms = engine_->norms_after(result);
        if (layers_)
            layers_->write(state_.step, norms);
    }
    return skip.kind;
}

bool Trainer::measures_layers(i64 step) const
{
    return config_.log.layer_norms > 0 && step % config_.log.layer_norms == 0;
}

std::string Trainer::describe_stop(u64 requests)
{
    std::string text = (requests & time_is_up) != 0 ? "the job's time limit" : "";
    for (int number = 1; number < std::countr_zero(time_is_up); ++number)
        if ((requests >> number & 1) != 0)
            text += str(text.empty() ? "" : ", ", "signal ", name_of_signal(number));
    return text;
}

u64 Trainer::stop_requests()
{
    const bool late = deadline_ && deadline_->is_over();
    return (signals_.stop() ? u64{1} << signals_.stop() : 0) | (late ? time_is_up : 0);
}

bool Trainer::take_demand() const
{
    const bool by_signal = signals_.take_demand();
    return (first_rank_ && ::unlink((config_.checkpoint.dir + "/save-now").c_str()) == 0) || by_signal;
}

bool Trainer::saves_after(i64 step, i64 last) const
{
    const i64 every = config_.checkpoint.every;
    return step == last || (every > 0 && step % every == 0);
}

void Trainer::save()
{
    if (saved_step_ == state_.step)
        return;
    Activity::of_process().enter(str("the save of step ", state_.step));
    if (deadline_)
        deadline_->save_begins();
    state_.mixture = data_->train.history(state_.samples);
    saver_->start(state_);
    saved_step_ = state_.step;
}

void Trainer::note_save(MetricsRecord& record)
{
    const Saver::Times times = saver_->take_times();
    if (times.whole == 0)
        return;
    record.set("checkpoint_seconds", times.whole);
    record.set("checkpoint_stall_seconds", times.stall);
    if (deadline_)
        deadline_->save_took(times.whole);
}

int Trainer::run()
{
    const TrainConfig& t = config_.train;
    if (state_.step >= t.steps)
        log_info(str("the run is complete: ", state_.step, " of ", counted(t.steps, "step"),
                     "; raise train.steps to train longer"));
    const i64 first = state_.step,
              last = t.stop_after > 0 ? std::min(t.steps, first + t.stop_after) : t.steps;
    u64 requests = agree(world_, stop_requests()); // a request to any rank stops all ranks
    bool evaluated = make_up_for_evaluation(requests);
    while (requests == 0 && state_.step < last && !ends_early(state_.best, config_)) {
        MetricsRecord record;
        const i64 next = state_.step + 1;
        const SkipKind skip = train_step(record, !saves_after(next, last) && !evaluation_is_due(next));
        const u64 agreed = agreement_ ? agreement_->wait() : agree(world_, flags());
        agreement_.reset();
        requests = agreed & (demand - 1);
        saver_->advance(agreed);
        evaluated = !evaluation_is_due(state_.step);
        bool is_best = false;
        if (!evaluated && requests == 0) {
            const Evaluated evaluation = evaluate(record);
            requests = evaluation.stop;
            evaluated = requests == 0;
            is_best = evaluation.is_best;
        }
        note_save(record); // of the previous save, because this step's line is written before its own save
        // The line first: a crash in between leaves one extra line, which the next launch moves to another
        // file.
        if (first_rank_)
            metrics_->write(record);
        if (monitors_)
            monitors_->write(record, state_.step % config_.log.every == 0 || state_.step == t.steps);
        if (skip == SkipKind::bad) {
            if (rewind()) // also before a stop, or the next launch would not know that it is due
                continue;
            require_learning();
        }
        if (requests != 0 || (agreed & demand) != 0 || saves_after(state_.step, last) || is_best ||
            ends_early(state_.best, config_))
            save();
    }
    engine_->abandon();
    const bool early = ends_early(state_.best, config_) && state_.step < t.steps;
    if (requests != 0 && ((state_.step < t.steps && !early) || !evaluated))
        return stop(requests);
    const std::string patience =
        early ? fmt::format("no better loss than {:.4f}{} in {} (train.patience)", state_.best.loss,
                            state_.best.step > 0 ? str(" of step ", state_.best.step) : "",
                            counted(state_.best.unimproved, "evaluation"))
              : "";
    if (early)
        log_info("the run ends early after step " + std::to_string(state_.step) + ": " + patience);
    Activity::of_process().enter("the end");
    saver_->finish();
    report_->summarise(state_, first_rank_ ? metrics_->path() : "");
    succeed_together(world_, [&] {
        if (first_rank_)
            metrics_->finish();
    });
    ending_ = early ? patience : state_.step < t.steps ? "train.stop_after" : "done";
    return 0;
}

int Trainer::stop(u64 requests)
{
    save(); // if the request came before the first step
    saver_->finish();
    ending_ = describe_stop(requests);
    if ((requests & time_is_up) == 0 && deadline_ && deadline_->is_late())
        ending_ += ", late in the job's time";
    log_info(str("stopped on ", describe_stop(requests), " after step ", state_.step,
                 "; start the run again to resume it"));
    return 75;
}

} // namespace trivium
