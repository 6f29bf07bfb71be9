#pragma once
// Mean loss over validation data.
#include "train/data/batches.hpp"

#include <string>
#include <vector>

namespace trivium {

struct Evaluation {
    double loss = 0; ///< nats per token
    i64 tokens = 0;
    std::vector<LossSum> metrics{}; ///< of a program of the user's own: ModelProgram::metrics
};

/// The loss over one of several stores.
struct NamedEvaluation {
    std::string name; ///< empty: the only one
    Evaluation result;
};

/// "perplexity 12.34  (1,234 tokens)"; of a program "accuracy 0.9731  (360 counted)".
std::string describe_result(const ModelConfig& model, const Evaluation& result);

/// The loss over the tokens of all sets.
Evaluation joined(const std::vector<NamedEvaluation>& sets);

/// Callbacks of an evaluation, and its program; all may be left out.
struct EvaluationCalls {
    /// Called before each batch: true stops the evaluation. The same on all ranks.
    std::function<bool()> give_up{};
    std::function<void(i64 first)> after{}; ///< called after the batch from sample `first` on
    std::size_t program = eval_program;     ///< of the engine
};

/// How many of the first `samples` samples of `data` (0: all) an evaluation takes. Of a program without the
/// input `valid`, it leaves out the last ones that are no whole batch; UserError if there is none.
i64 evaluated_samples(const Engine& engine, const Batches& data, i64 samples,
                      std::size_t program = eval_program);

/// Runs the program `eval` over these samples, each once. Collective over the engine's grid. If it is given
/// up, the result is meaningless. Errors as above.
Evaluation evaluate(Engine& engine, const Batches& data, i64 samples, const EvaluationCalls& calls = {});

} // namespace trivium
