#pragma once
// Mean loss over a token store.
#include "train/data/batches.hpp"

namespace trivium {

struct Evaluation {
    double loss = 0; ///< nats per token
    i64 tokens = 0;
};

/// Runs the program `eval` (index `program` of the engine) over the first `samples` samples of `data` (0:
/// all, each once). Collective over the engine's grid. Stops before a batch if `give_up` returns true, which
/// must be the same on all ranks; the result is then meaningless.
Evaluation evaluate(Engine& engine, const Batches& data, i64 samples,
                    const std::function<bool()>& give_up = {}, std::size_t program = eval_program);

} // namespace trivium
