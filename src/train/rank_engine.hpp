#pragma once
// An Engine of programs that are not trained, on one rank of a grid.
#include "compile/forward.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "runtime/device.hpp"
#include "train/engine.hpp"

#include <functional>
#include <optional>

namespace trivium {

/// The checkpoint that rank 0 finds (open_checkpoint()), on all ranks. Collective. Throws, on all ranks, if
/// it is not of this model. `average`: it reads averages in place of parameters (read_averages()).
CheckpointReader open_checkpoint_together(Comm& world, const std::string& path, const RunConfig& config,
                                          bool average = false);

class RankEngine {
public:
    /// Collective over `world`, which must outlive it. `config`: whose mesh has its ranks (config_on()).
    /// `compile`: of a rank. Allocates, and fills constants and states. Throws, on all ranks, UserError or
    /// IoError if one of them has no device or too little memory, and the errors of `compile`.
    RankEngine(const RunConfig& config, Comm& world,
               const std::function<Compiled(const CompileConfig&)>& compile);

    Engine& engine() { return *engine_; }
    const Grid& grid() const { return grid_; }
    /// Collective: fills the parameters. Errors as restore_parameters(), on all ranks.
    void restore(const CheckpointReader& checkpoint);

private:
    Grid grid_;
    int threads_;
    Computing computing_;
    std::optional<Engine> engine_;
};

} // namespace trivium
