#include "train/best_loss.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <cmath>

namespace trivium {

bool judges_evaluations(const RunConfig& config)
{
    return !config.data.valid.empty() && (!config.checkpoint.best.empty() || config.train.patience > 0);
}

void begin_judging(BestLoss& best, const RunConfig& config, const std::vector<ValidationSet>& sets)
{
    if (!judges_evaluations(config))
        return;
    const auto named = std::ranges::find(sets, config.checkpoint.best, &ValidationSet::name);
    const BestLoss none{.set = config.checkpoint.best,
                        .averages = config.train.ema > 0,
                        .data = named != sets.end() ? named->data.content() : content(sets)};
    if (best.set != none.set || best.averages != none.averages || best.data != none.data)
        best = none;
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
