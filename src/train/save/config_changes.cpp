#include "train/save/config_changes.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/files/config_file.hpp"
#include "train/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace trivium {

namespace {

/// What becomes of the schedule of a run whose decay is over, or has begun, at `step`, and that now has more
/// steps, as the end of a sentence; empty if nothing was decayed.
std::string effect_of_extension(const TrainConfig& before, const TrainConfig& now, i64 step)
{
    const bool stable = before.schedule == RateSchedule::wsd;
    const i64 begin = stable ? decay_begin(before) : before.warmup;
    if (before.schedule != now.schedule || before.steps >= now.steps || step <= begin ||
        before.schedule == RateSchedule::constant || before.schedule == RateSchedule::inverse_sqrt)
        return "";
    const double last = learning_rate(before, step), next = learning_rate(now, step + 1);
    if (next <= last)
        return "";
    return fmt::format(
        "; the run is extended after its decay, so the rate rises from {:.3g} to {:.3g}{}", last, next,
        stable
            ? fmt::format(", and decays from step {} on; to avoid that, resume from a checkpoint up to step "
                          "{}, before the decay (checkpoint.resume = its path)",
                          decay_begin(now) + 1, begin)
            : fmt::format(", where the \"{}\" schedule of {} steps is by then; train.schedule = \"constant\" "
                          "with train.lr = {:.3g} would keep it",
                          name_of(now.schedule), now.steps, last));
}

/// How the learning rates of the steps after `step` differ; empty if they do not.
std::string effect_on_rate(const TrainConfig& before, const TrainConfig& now, i64 step)
{
    const auto constant = [&](const TrainConfig& t) {
        return (t.lr == t.min_lr || t.schedule == RateSchedule::constant) && step >= t.warmup;
    };
    const double old_rate = learning_rate(before, step + 1), new_rate = learning_rate(now, step + 1);
    std::string effect;
    if (std::abs(old_rate - new_rate) > 1e-9 * std::max(old_rate, new_rate))
        effect = fmt::format("the learning rate of step {} is {:.3g} instead of {:.3g}", step + 1, new_rate,
                             old_rate);
    else if (constant(before) && constant(now))
        return "";
    else if (now.schedule == RateSchedule::inverse_sqrt && before.schedule == now.schedule)
        effect = fmt::format("the learning rate continues from {:.3g}, as before", new_rate);
    else
        effect = fmt::format("the learning rate continues from {:.3g} on a different schedule", new_rate);
    return effect + effect_of_extension(before, now, step);
}

/// The effect of a changed key that is not part of the learning-rate schedule.
std::string effect_of(const std::string& key, const RunConfig& before, const RunConfig& now, i64 step)
{
    if (key == "train.global_batch")
        return str("a step takes ", counted(now.train.global_batch, "sequence"), " instead of ",
                   before.train.global_batch, " from step ", step + 1,
                   " on, which may need a different learning rate");
    if (key == "model.seq" || key == "data.packing")
        return "samples are different windows of the text in a different order: some are repeated, some are "
               "left out";
    return str("this applies from step ", step + 1, " on");
}

} // namespace

std::vector<std::string> changes_since(const RunState& state, const RunConfig& now, const std::string& data,
                                       const std::string& valid)
{
    const RunConfig before = parse_config(state.config, "the checkpoint's config");
    std::vector<std::string> changes;
    std::string schedule;
    const auto then = values_by_key(to_toml(before, {"train", "data"}));
    for (const auto& [key, value] : values_by_key(to_toml(now, {"train", "data"}))) {
        const auto old = then.find(key);
        const KeyKind kind = kind_of_key(key);
        if (old == then.end() || old->second == value || kind == KeyKind::free || key == "train.seed")
            continue;
        if (kind == KeyKind::rate)
            schedule += str(schedule.empty() ? "" : ", ", key, " is ", value, " (was ", old->second, ")");
        else
            changes.push_back(str(key, " is ", value, ", the checkpoint's run had ", old->second, ": ",
                                  effect_of(key, before, now, state.step)));
    }
    if (const std::string effect =
            schedule.empty() ? "" : effect_on_rate(before.train, now.train, state.step);
        !effect.empty())
        changes.insert(changes.begin(), str(schedule, ": ", effect));
    if (state.seed != now.train.seed)
        changes.push_back(str("train.seed is ", now.train.seed, ", the checkpoint's run had ", state.seed,
                              ": the order of samples changes from here on"));
    if (before.model.seq != now.model.seq)
        changes.push_back(str("model.seq is ", now.model.seq, ", the checkpoint's run had ", before.model.seq,
                              ": ", effect_of("model.seq", before, now, state.step)));
    const bool mixed = !now.data.train.is_plain() || !state.mixture.empty(); // continue_data() compares them
    if (!mixed && (!state.data.empty() ? state.data != data : before.data.train != now.data.train))
        changes.push_back(state.data.empty()
                              ? str("data.train is ", now.data.train.text(), ", the checkpoint's run had ",
                                    before.data.train.text(),
                                    ": if its tokens differ, the order of samples changes from here on")
                              : str("data.train (", now.data.train.text(),
                                    ") differs from the data of the checkpoint's run (",
                                    before.data.train.text(), "): it has ", data, ", that one has ",
                                    state.data, "; from here on samples and their order are different"));
    if (!state.valid.empty() && !valid.empty() && state.valid != valid)
        changes.push_back(str("data.valid (", now.data.valid.text(), ") has changed: it has ", valid,
                              ", before it had ", state.valid,
                              "; validation losses cannot be compared with earlier ones"));
    if (const std::string& source = now.train.init_from; !source.empty() && source != before.train.init_from)
        changes.push_back(
            str("train.init_from = ", source,
                " is ignored because the run resumes from its own checkpoint; for a new run from "
                "those weights, set another checkpoint.dir or "
                "checkpoint.resume = \"never\""));
    return changes;
}

} // namespace trivium
