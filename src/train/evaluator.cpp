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

} // namespace trivium
