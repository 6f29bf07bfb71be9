#pragma once
// Settings with which a run needs less memory, for messages about memory.
#include "choose/search_config.hpp"

namespace trivium {

struct SmallerSetting {
    std::string overrides; ///< as on the command line, e.g. "parallel.zero=3 train.micro_batch=1"
    Candidate candidate;   ///< without an order if choose_schedule() must choose one
};

/// Higher ZeRO stages, more recomputation (unless "auto"), schedules with fewer activations, smaller
/// microbatches, offload and rings of context ranks (not on devices), then all but schedule and offload
/// together. They change no result but by the order of additions. Not tested whether they fit.
std::vector<SmallerSetting> smaller_settings(const Candidate& candidate, const Machine& machine);

/// The overrides of the first `count` of smaller_settings() with which the largest rank of each stage has an
/// arena within `limit`.
std::vector<std::string> settings_within(const Candidate& candidate, Estimator& estimator, Bytes limit,
                                         std::size_t count);

/// bytes_needed() of the largest stage of a candidate; without an order, its schedule is chosen. nullopt if
/// that is more than `most` (0: no limit), if the arena exceeds parallel.memory_limit, or if the model does
/// not fit the grid.
std::optional<Bytes> bytes_of_largest(const Candidate& candidate, Estimator& estimator, Bytes most);

/// Some strategy that fits: one of the fastest whose closed form and rough score say so with a margin,
/// otherwise the best of a short search; nothing if none was found. \pre as for
/// search_strategies(), and the memory of ranks is known
std::optional<RunConfig> fitting_strategy(const RunConfig& config, i64 ranks, SearchConfig search,
                                          Estimator& estimator);

} // namespace trivium
