#include "train/evaluator.hpp"

#include "base/check.hpp"
#include "io/tokens/sample_order.hpp"
#include "ir/names.hpp"
#include "passes/optimizer.hpp"

#include <algorithm>

namespace trivium {

Evaluator::Evaluator(const Program& program, Arena& arena, const ExecutorConfig& config, const Grid* grid)
    : program_(program), executor_(program.graph, program.schedule, arena, config, grid),
      boxes_(input_boxes(program.graph))
{
}

Evaluation Evaluator::run(const TokenStore& store, i64 windows, const std::function<bool()>& give_up)
{
    const Value& tokens = program_.sharded[program_.sharded.find(value_name::tokens)]; // all ranks' rows
    const i64 batch = tokens.type.shape[0];
    const i64 all = window_count(store.size(), tokens.type.shape[1]);
    const i64 count = windows > 0 ? std::min(windows, all) : all;
    double loss_sum = 0, token_sum = 0;
    for (i64 first = 0; first < count && !(give_up && give_up()); first += batch) {
        executor_.run_until_decision([&](const Value& value, i64, void* destination) {
            const Box& box = boxes_.at(value.name);
            for (i64 row = 0; row < box.shape[0]; ++row) {
                const i64 window = first + box.offset[0] + row;
                fill_row(value, row, store, window < count ? window : -1, destination);
            }
        });
        loss_sum += executor_.fetched(value_name::totals, total_loss);
        token_sum += executor_.fetched(value_name::totals, total_tokens);
    }
    return {token_sum > 0 ? loss_sum / token_sum : 0, static_cast<i64>(token_sum)};
}

} // namespace trivium
