#include "train/prediction.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/log.hpp"
#include "choose/estimator.hpp"

namespace trivium {

Prediction predict_step(const Choices& choices, const Machine& clock, int threads)
{
    const ParallelConfig& p = choices.config.parallel;
    Candidate candidate{choices.config, choices.order};
    candidate.config.parallel.threads = threads;
    candidate.config.parallel.memory_limit = 0;
    Compiling estimator(clock, [] { Activity::of_process().advance(); });
    try {
        const Score score =
            estimator.rough_score(candidate, with_delay(clock, p.delay_latency, p.delay_bandwidth), {});
        return {score.step, clock.name, clock.calibration_worst};
    } catch (const Error& error) { // the run does not need it
        log_warning(str("the step is not predicted: ", error.what()));
        return {};
    }
}

} // namespace trivium
