// The evaluations of a run, and what it concludes from them.
#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "train/best_loss.hpp"
#include "train/trainer.hpp"

namespace trivium {

bool Trainer::evaluation_is_due(i64 step) const
{
    const TrainConfig& t = config_.train;
    return !data_->valid.empty() && step > 0 &&
           (step == t.steps || (t.eval_every > 0 && step % t.eval_every == 0));
}

std::vector<NamedEvaluation> Trainer::losses_by(std::size_t program, u64& stop)
{
    const bool is_shown = program != eval_program || config_.train.ema == 0;
    EvaluationCalls calls;
    calls.program = program;
    calls.give_up = [&] {
        stop = agree(world_, stop_requests());
        return stop != 0;
    };
    std::vector<NamedEvaluation> losses;
    for (const ValidationSet& set : data_->valid)
        if (stop == 0) {
            calls.after = [&](i64 first) {
                if (shown_ && losses.empty() && is_shown)
                    shown_->take(*engine_, first, program);
            };
            losses.push_back({set.name, trivium::evaluate(
                                            *engine_, set.data,
                                            config_.train.eval_batches * config_.train.global_batch, calls)});
        }
    return losses;
}

Trainer::Evaluated Trainer::evaluate(MetricsRecord& record)
{
    Activity::of_process().enter(str("the evaluation after step ", state_.step));
    u64 stop = 0;
    const std::optional<std::size_t> average = program_called(engine_->compiled(), average_evaluation);
    const std::vector<NamedEvaluation> losses = losses_by(average.value_or(eval_program), stop);
    std::vector<NamedEvaluation> raw; // of the weights that are trained, if others are averages
    if (average && stop == 0)
        raw = losses_by(eval_program, stop);
    if (stop != 0)
        log_info(str("evaluation after step ", state_.step, " interrupted: ", describe_stop(stop),
                     "; the next launch repeats it"));
    else
        report_->evaluation(state_.step, losses, raw, record);
    if (stop == 0 && shown_)
        shown_->write(state_.step);
    const bool is_best = stop == 0 && judge(state_.best, config_, losses, state_.step);
    if (stop == 0 && ends_early(state_.best, config_))
        record.set("ended_early", 1);
    return {stop, is_best};
}

void Trainer::begin_judging(const std::string& before)
{
    const std::string changed = trivium::begin_judging(state_.best, before, config_, data_->valid);
    if (first_rank_ && !changed.empty())
        log_info(str(changed, ": earlier validation losses do not count for the best checkpoint and "
                              "train.patience"));
}

void Trainer::mark_best()
{
    bool is_lost = false;
    const std::string& dir = config_.checkpoint.dir;
    succeed_together(world_, [&] {
        is_lost = first_rank_ && !trivium::mark_best(dir, state_.best) && state_.best.step > 0;
    });
    if (is_lost && judges_evaluations(config_))
        log_warning(str(dir, " does not contain ", checkpoint_name(state_.best.step),
                        ", the best checkpoint so far: the next evaluation counts as the best again"));
    if (agree(world_, is_lost) != 0)
        state_.best.step = 0;
}

bool Trainer::make_up_for_evaluation(u64& stop)
{
    std::optional<MetricsRecord> record;
    if (first_rank_ && evaluation_is_due(state_.step))
        record = metrics_->last();
    if (record && record->step != state_.step)
        record.reset();
    const bool unjudged =
        judges_evaluations(config_) && evaluation_is_due(state_.step) && state_.best.evaluated < state_.step;
    if (agree(world_, record && !record->has("valid_loss")) == 0 && !unjudged)
        return true;
    if (stop != 0)
        return false;
    MetricsRecord line = record.value_or(MetricsRecord{});
    const BestLoss before = state_.best;
    stop = evaluate(line).stop;
    if (state_.best != before) { // before the line says that the evaluation is done
        saved_step_ = -1;
        save();
        saver_->finish();
    }
    if (stop == 0 && record)
        metrics_->replace_last(line);
    return stop == 0;
}

} // namespace trivium
