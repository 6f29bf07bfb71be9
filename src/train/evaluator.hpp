#pragma once
// Mean loss over a token store.
#include "train/data/batches.hpp"

#include <string>
#include <vector>

namespace trivium {

struct Evaluation {
    double loss = 0; ///< nats per token
    i64 tokens = 0;
};

/// The loss over one of several stores.
struct NamedEvaluation {
    std::string name; ///< empty: the only one
    Evaluation result;
};

/// The loss over the tokens of all sets.
Evaluation joined(const std::vector<NamedEvaluation>& sets);

/// Runs the program `eval` (index `program` of the engine) over the first `samples` samples of `data` (0:
/// all, each once). Collective over the engine's grid. Stops before a batch if `give_up` returns true, which
/// must be the same on all ranks; the result is then meaningless.
Evaluation evaluate(Engine& engine, const Batches& data, i64 samples,
                    const std::function<bool()>& give_up = {}, std::size_t program = eval_program);

} // namespace trivium
