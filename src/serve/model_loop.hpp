#pragma once
// The thread that runs the model.
#include "serve/jobs.hpp"

namespace trivium {

/// What the loop needs of a TextModel; tests have others.
struct ModelCalls {
    std::function<void(const TextFlow&)> complete;
    std::function<std::string(const TextRequest&)> why_refused;
};

enum class JobsToRun {
    all,
    begun, ///< those with which the model has begun, then the loop ends
    none   ///< those fail at once
};

/// Completes the jobs of `queue`: their sequences join those that run as soon as the model has a free row,
/// and leave it when they are done. `which` is asked before each call of the model, otherwise several times a
/// second. If the model fails, the jobs that have begun fail too, and the error is thrown.
void run_jobs(TextQueue& queue, const ModelCalls& model, const std::function<JobsToRun()>& which);

} // namespace trivium
