#pragma once
#include "io/checkpoint/checkpoint.hpp"

namespace trivium {

/// The checkpoint from which a run would resume, fully verified.
inline std::optional<std::string> find_resume(Comm& world, const CheckpointConfig& config)
{
    return restore_newest(world, config,
                          [&](const CheckpointReader& reader) { reader.verify(world.rank(), world.size()); });
}

} // namespace trivium
