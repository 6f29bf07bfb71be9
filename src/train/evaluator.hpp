#pragma once
// Mean loss over a token store.
#include "compile/compile.hpp"
#include "io/tokens/token_store.hpp"
#include "runtime/executor.hpp"
#include "train/batches.hpp"

#include <functional>
#include <map>

namespace trivium {

struct Evaluation {
    double loss = 0; ///< nats per token
    i64 tokens = 0;
};

/// Runs the program `eval` over windows 0, 1, … of a store: the same windows in every run.
class Evaluator {
public:
    /// `grid`: the ranks that the program is for; null where it is for one. All of them run it together.
    Evaluator(const Program& program, Arena& arena, const ExecutorConfig& config, const Grid* grid = nullptr);

    /// Over the first `windows` windows of the store (0: all). Between batches it asks `give_up`, on all
    /// ranks, which must answer alike; then what it returns means nothing.
    Evaluation run(const TokenStore& store, i64 windows, const std::function<bool()>& give_up = {});

    const Executor& executor() const { return executor_; }

private:
    const Program& program_;
    Executor executor_;
    std::map<std::string, Box> boxes_;
};

} // namespace trivium
