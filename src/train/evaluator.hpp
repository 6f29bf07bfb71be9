#pragma once
// Mean loss over a token store.
#include "train/batches.hpp"

namespace trivium {

struct Evaluation {
    double loss = 0; ///< nats per token
    i64 tokens = 0;
};

/// Runs the program `eval`, number `program` of the engine, over the first `samples` samples of `data` (0:
/// all, each once); all ranks of the engine's grid call it. Between batches it asks `give_up`, which must
/// answer alike on all ranks; what is returned then has no meaning.
Evaluation evaluate(Engine& engine, const Batches& data, i64 samples,
                    const std::function<bool()>& give_up = {}, std::size_t program = eval_program);

} // namespace trivium
