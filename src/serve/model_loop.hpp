#pragma once
// The thread that runs the model.
#include "serve/jobs.hpp"

namespace trivium {

/// What the loop needs of a TextModel; tests have others.
struct ModelCalls {
    std::function<std::vector<TextResult>(const std::vector<TextRequest>&, const OnToken&)> complete;
    std::function<std::string(const TextRequest&)> why_refused;
    std::size_t rows = 1; ///< sequences that are computed together
};

/// Completes the jobs of `queue`, those that wait together as one batch, until `stop` returns true; it is
/// asked between batches, several times a second. If the model fails, the jobs of the batch fail too, and the
/// error is thrown.
void run_jobs(TextQueue& queue, const ModelCalls& model, const std::function<bool()>& stop);

} // namespace trivium
