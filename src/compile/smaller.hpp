#pragma once
// Settings with which a run needs less memory, for messages about memory.
#include "compile/compile.hpp"

namespace trivium {

struct SmallerSetting {
    std::string overrides; ///< as on the command line, e.g. "parallel.zero=3 train.micro_batch=1"
    RunConfig config;
};

/// Higher ZeRO stages, more recomputation, schedules with fewer activations, smaller microbatches, offload
/// (not on devices), then all but offload together. They change no result but by the order of additions. Not
/// tested whether they fit. \pre settled (settle.hpp)
std::vector<SmallerSetting> smaller_settings(const RunConfig& config, const Machine& machine);

/// The overrides of the first `count` of these with which the largest rank of each stage has an arena within
/// `limit`. Compiles each.
std::vector<std::string> settings_within(const RunConfig& config, const CompileConfig& options, Bytes limit,
                                         std::size_t count);

/// Whether the largest rank of each stage has an arena within `limit`, whatever parallel.memory_limit is.
bool is_within(const RunConfig& config, const CompileConfig& options, Bytes limit);

} // namespace trivium
