// Steps that are skipped, and the return of a run to a checkpoint (train.rewind).
#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "train/loss_spikes.hpp"
#include "train/trainer.hpp"

#include <cmath>
#include <fmt/format.h>

namespace trivium {

Skip Trainer::why_skipped(const LossSum& sum, double norm)
{
    const TrainConfig& t = config_.train;
    if (sum.tokens == 0)
        return {SkipKind::empty, "no token of its batch is trained"};
    const double loss = sum.mean();
    if (!std::isfinite(loss) || !std::isfinite(norm))
        return {SkipKind::bad, str("its ", std::isfinite(loss) ? "gradient norm" : "loss", " is not finite")};
    if (t.spike_z == 0)
        return {};
    std::vector<double>& recent = state_.recent_losses;
    if (is_spike(recent, loss, t.spike_z)) {
        if (state_.skipped_in_row < most_spikes || may_rewind())
            return {
                SkipKind::bad,
                fmt::format("its loss {:.4f} is a spike relative to the last {} losses (train.spike_z = {})",
                            loss, recent.size(), t.spike_z)};
        recent.clear();
    }
    recent.push_back(loss);
    if (static_cast<i64>(recent.size()) > t.spike_window)
        recent.erase(recent.begin(), recent.end() - t.spike_window);
    return {};
}

bool Trainer::may_rewind() const
{
    const TrainConfig& t = config_.train;
    return t.rewind > state_.rewinds.count && t.max_skipped > 0 && config_.checkpoint.every > 0;
}

bool Trainer::rewind()
{
    if (!may_rewind() || state_.skipped_in_row < config_.train.max_skipped)
        return false;
    // Not one of a signal: a run that was interrupted is to go where another one goes.
    const auto wanted = [&](i64 step) {
        return step > 0 && step < state_.step && step % config_.checkpoint.every == 0;
    };
    const std::string& dir = config_.checkpoint.dir;
    engine_->abandon();
    saver_->finish();
    Activity::of_process().enter(str("the return to a step before ", state_.step));
    RunState then;
    const std::optional<std::string> path =
        restore_wanted(world_, dir, wanted, [&](const CheckpointReader& checkpoint) {
            restore(checkpoint, engine_->program(train_program), saved_);
            then = checkpoint.state();
        });
    if (!path)
        return false;
    const i64 skipped = state_.skipped_in_row;
    log_warning(str("step ", state_.step, ": the last ",
                    skipped == 1 ? "step was" : str(skipped, " steps were"),
                    " skipped; the run goes back to ", *path, " and leaves out ",
                    counted(state_.samples - then.samples, "sample"),
                    " (train.rewind: ", state_.rewinds.count + 1, " of ", config_.train.rewind, ")"));
    then.rewinds = {state_.rewinds.count + 1, then.rewinds.samples + state_.samples - then.samples,
                    state_.step};
    state_.step = then.step;
    state_.updates = then.updates;
    state_.tokens = then.tokens;
    state_.recent_losses = std::move(then.recent_losses);
    state_.skipped_in_row = 0;
    state_.rewinds = then.rewinds;
    state_.best = std::move(then.best);
    begin_judging(then.config);
    succeed_together(world_, [&] {
        if (!first_rank_)
            return;
        supersede_checkpoints(dir, state_.step);
        metrics_.emplace(config_.log.dir, state_.step);
        if (layers_)
            layers_->go_back(state_.step);
        if (monitors_)
            monitors_->go_back(state_.step);
    });
    mark_best();
    saved_step_ = -1;
    save(); // from here on, a restart leaves out these data, too
    return true;
}

void Trainer::require_learning()
{
    const TrainConfig& t = config_.train;
    if (t.max_skipped > 0 && state_.skipped_in_row >= t.max_skipped) {
        saver_->finish(); // a save under way is of a step before
        succeed_together(world_, [&] {
            throw IoError(
                {str("step ", state_.step),
                 str("was skipped, the last of ", counted(state_.skipped_in_row, "step"), " in a row"),
                 "the run no longer learns",
                 "resume from an earlier checkpoint (checkpoint.resume = its path) with a lower "
                 "train.lr; train.max_skipped limits how many steps in a row may be skipped"});
        });
    }
}

} // namespace trivium
