#pragma once
#include "config/data_config.hpp"

namespace trivium {

/// Whether there are tokens whose loss does not count: padding, or first tokens of documents.
inline bool masks_losses(const DataConfig& config)
{
    return config.packing == SamplePacking::best_fit || !config.counts_boundaries();
}

} // namespace trivium
