#pragma once
// What the simulator expects of a run, which compares it with what it measures.
#include "compile/compile.hpp"

namespace trivium {

/// A simulated optimizer step of train.global_batch sequences; `seconds` is 0 if nothing is predicted.
struct Prediction {
    Seconds seconds = 0;
    std::string machine{}; ///< its name
    double error = 0;      ///< the largest of the machine's calibration; 0: unknown
};

/// Simulates a step of `choices` on `clock`, with the delays of links that the config asks for, by the rough
/// score of the search for strategies. If that fails, warns and predicts nothing. `threads`: of a rank.
Prediction predict_step(const Choices& choices, const Machine& clock, int threads);

} // namespace trivium
