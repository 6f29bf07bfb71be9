#include "train/evaluator.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "ir/names.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace trivium {

namespace {

void add(std::vector<LossSum>& sums, const std::vector<LossSum>& more)
{
    sums.resize(std::max(sums.size(), more.size()));
    for (std::size_t i = 0; i < more.size(); ++i) {
        sums[i].sum += more[i].sum;
        sums[i].tokens += more[i].tokens;
    }
}

} // namespace

i64 evaluated_samples(const Engine& engine, const Batches& data, i64 samples, std::size_t program)
{
    const i64 count = samples > 0 ? std::min(samples, data.samples()) : data.samples(),
              rows = engine.evaluation_rows(program);
    const Graph& graph = *engine.program(program).sharded;
    if (graph.find(value_name::valid) || graph.find(value_name::targets))
        return count;
    if (count < rows) // it would count padding
        throw UserError({data.source().path(),
                         str("has ", counted(count, "sample"), ", an evaluation takes ", rows),
                         "the program does not know which samples of a batch are padding",
                         "give it the input `valid : f32[b]` (1, or 0 for padding), or lower "
                         "train.micro_batch"});
    return count - count % rows;
}

Evaluation evaluate(Engine& engine, const Batches& data, i64 samples, const EvaluationCalls& calls)
{
    const std::size_t program = calls.program;
    const i64 count = evaluated_samples(engine, data, samples, program),
              rows = engine.evaluation_rows(program);
    LossSum all;
    std::vector<LossSum> metrics;
    for (i64 first = 0; first < count && !(calls.give_up && calls.give_up()); first += rows) {
        const LossSum batch = engine.evaluate(data.at(first, count), program);
        all.sum += batch.sum;
        all.tokens += batch.tokens;
        add(metrics, engine.metrics(program));
        if (calls.after)
            calls.after(first);
    }
    return {all.tokens > 0 ? all.mean() : 0, static_cast<i64>(all.tokens), std::move(metrics)};
}

std::string describe_result(const ModelConfig& model, const Evaluation& result)
{
    if (!model.is_program())
        return fmt::format("perplexity {:.2f}  ({} tokens)", std::exp(result.loss),
                           format_count(result.tokens));
    std::string text;
    for (std::size_t i = 0; i < result.metrics.size(); ++i)
        text += fmt::format("{} {:.4g}  ", model.program.metrics[i], result.metrics[i].mean());
    return fmt::format("{}({} counted)", text, format_count(result.tokens));
}

Evaluation joined(const std::vector<NamedEvaluation>& sets)
{
    if (sets.size() == 1)
        return sets[0].result;
    double sum = 0;
    i64 tokens = 0;
    std::vector<LossSum> metrics;
    for (const NamedEvaluation& set : sets) {
        add(metrics, set.result.metrics);
        sum += set.result.loss * static_cast<double>(set.result.tokens);
        tokens += set.result.tokens;
    }
    return {tokens > 0 ? sum / static_cast<double>(tokens) : 0, tokens, std::move(metrics)};
}

} // namespace trivium
