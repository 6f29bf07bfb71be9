#include "train/best_loss.hpp"

#include "base/check.hpp"
#include "io/files/config_file.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

bool judges_evaluations(const RunConfig& config)
{
    return !config.data.valid.empty() && (!config.checkpoint.best.empty() || config.train.patience > 0);
}

namespace {

/// Which key makes validation losses of `now` mean something else than those of `before`; empty: none.
std::string changed_meaning(const RunConfig& before, const RunConfig& now)
{
    const auto sequences = [](const TrainConfig& t) { return t.eval_batches * t.global_batch; };
    if (sequences(before.train) != sequences(now.train))
        return before.train.eval_batches != now.train.eval_batches ? "train.eval_batches"
                                                                   : "train.global_batch";
    if (before.model.seq != now.model.seq)
        return "model.seq";
    const auto then = values_by_key(to_toml(before, {"data"}));
    const auto values = values_by_key(to_toml(now, {"data"}));
    for (const char* key : {"data.packing", "data.attention", "data.boundary_loss", "data.loss_of"})
        if (then.at(key) != values.at(key))
            return key;
    return "";
}

} // namespace

std::string begin_judging(BestLoss& best, const std::string& before, const RunConfig& config,
                          const std::vector<ValidationSet>& sets)
{
    if (!judges_evaluations(config))
        return "";
    const auto named = std::ranges::find(sets, config.checkpoint.best, &ValidationSet::name);
    const BestLoss none{.set = config.checkpoint.best,
                        .averages = config.train.ema > 0,
                        .data = named != sets.end() ? named->data.content() : content(sets)};
    std::string changed = best.set != none.set             ? "checkpoint.best"
                          : best.averages != none.averages ? "train.ema"
                          : best.data != none.data         ? "the content of data.valid"
                                                           : "";
    if (changed.empty() && best.evaluated > 0)
        changed = changed_meaning(parse_config(before, "the checkpoint's config"), config);
    if (changed.empty())
        return "";
    const bool is_first = best.evaluated == 0;
    best = none;
    return is_first ? "" : changed + " has changed";
}

bool judge(BestLoss& best, const RunConfig& config, const std::vector<NamedEvaluation>& losses, i64 step)
{
    if (!judges_evaluations(config) || best.evaluated == step)
        return false;
    const auto named = std::ranges::find(losses, best.set, &NamedEvaluation::name);
    const double loss = named != losses.end() ? named->result.loss : joined(losses).loss;
    best.evaluated = step;
    if (!std::isfinite(loss) || (best.step > 0 && loss >= best.loss)) {
        ++best.unimproved;
        return false;
    }
    best.step = step;
    best.loss = loss;
    best.unimproved = 0;
    return true;
}

bool ends_early(const BestLoss& best, const RunConfig& config)
{
    return judges_evaluations(config) && config.train.patience > 0 &&
           best.unimproved >= config.train.patience;
}

} // namespace trivium
