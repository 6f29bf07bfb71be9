#include "train/evaluator.hpp"

#include <algorithm>

namespace trivium {

Evaluation evaluate(Engine& engine, const Batches& data, i64 samples, const std::function<bool()>& give_up,
                    std::size_t program)
{
    const i64 count = samples > 0 ? std::min(samples, data.samples()) : data.samples();
    LossSum all;
    for (i64 first = 0; first < count && !(give_up && give_up()); first += engine.evaluation_rows(program)) {
        const LossSum batch = engine.evaluate(data.at(first, count), program);
        all.sum += batch.sum;
        all.tokens += batch.tokens;
    }
    return {all.tokens > 0 ? all.mean() : 0, static_cast<i64>(all.tokens)};
}

Evaluation joined(const std::vector<NamedEvaluation>& sets)
{
    if (sets.size() == 1)
        return sets[0].result;
    double sum = 0;
    i64 tokens = 0;
    for (const NamedEvaluation& set : sets) {
        sum += set.result.loss * static_cast<double>(set.result.tokens);
        tokens += set.result.tokens;
    }
    return {tokens > 0 ? sum / static_cast<double>(tokens) : 0, tokens};
}

} // namespace trivium
