#include "train/save/restore.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/log.hpp"
#include "train/data/inputs.hpp"
#include "train/save/config_changes.hpp"

#include <algorithm>

namespace trivium {

namespace {

RunState resume(const CheckpointReader& checkpoint, const RunConfig& config, const TrainingData& data,
                Engine& engine, std::vector<SavedTensor>& tensors)
{
    require_same_model(checkpoint, config);
    restore(checkpoint, engine.program(train_program), tensors);
    engine.initialise(static_cast<std::uint64_t>(config.train.seed), Role::constant);
    RunState state = checkpoint.state();
    require_same_tokenizer(checkpoint, data.train.source().tokenizer(), data.train.source().path());
    return state;
}

} // namespace

Restored restore_or_initialise(Comm& world, const RunConfig& config, TrainingData& data, Engine& engine,
                               std::vector<SavedTensor>& tensors)
{
    const Seconds begin = now();
    Activity::of_process().enter("the read of a checkpoint");
    Restored restored;
    RunState& state = restored.state;
    bool starts_averages = false;
    if (const auto path = restore_newest(world, config.checkpoint, [&](const CheckpointReader& c) {
            state = resume(c, config, data, engine, tensors);
            starts_averages = std::ranges::any_of(
                tensors, [&](const SavedTensor& each) { return each.is_average && !c.has(each.piece.name); });
        })) {
        restored.checkpoint = *path;
        log_info(str("resuming from ", *path, " at step ", state.step,
                     state.grid.empty() || state.ranks <= 1 ? "" : str(", saved by ", state.grid),
                     "; read and verified in ", format_seconds(now() - begin)));
        std::vector<std::string> changes;
        succeed_together(world, [&] {
            changes = changes_since(state, config, data.train.content(), content(data.valid));
            for (std::string& change : continue_data(state, config, data.train))
                changes.push_back(std::move(change));
        });
        for (const std::string& change : changes)
            log_warning(change);
        if (starts_averages)
            log_warning(str(*path, " has no averaged weights: they begin with its weights (train.ema)"));
        return restored;
    }
    succeed_together(world, [&] {
        continue_data(state, config, data.train);
        engine.initialise(static_cast<std::uint64_t>(config.train.seed));
    });
    if (!config.train.init_from.empty())
        log_info("weights from " + restore_from(
                                       world, config.train.init_from,
                                       [&](const CheckpointReader& checkpoint) {
                                           require_fitting_adapters(checkpoint, config);
                                           restore_parameters(checkpoint, engine.program(train_program),
                                                              engine.arenas(), true);
                                           state.imported = checkpoint.state().imported;
                                           state.imported_tokenizer = checkpoint.state().imported_tokenizer;
                                       },
                                       "train.init_from"));
    begin_averages(tensors);
    return restored;
}

} // namespace trivium
