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
/// it is not of this model. `average`: it reads averages in place of parameters (read_averages()). A config
/// without train.lora gets that of the checkpoint; rank 0 says so.
CheckpointReader open_checkpoint_together(Comm& world, const std::string& path, RunConfig& config,
                                          bool average = false);

/// Makes the programs of a rank, such as compile_evaluation().
using CompileRank = std::function<Compiled(const RunConfig&, const CompileConfig&)>;

/// config_on() all ranks of `world`, whose arenas fit the ranks' shares of memory and parallel.memory_limit.
/// Rank 0 says which grid it is if that is not the config's and there are several ranks. Collective. Errors,
/// on all ranks, as config_on().
RunConfig config_on(Comm& world, const RunConfig& config, const CompileRank& compile);

class RankEngine {
public:
    /// Collective over `world`, which must outlive it. `config`: whose mesh has its ranks (config_on()).
    /// Allocates, and fills constants and states. Throws, on all ranks, UserError or IoError if one of them
    /// has no device or too little memory, and the errors of `compile`.
    /// `lower`: as of require_free_memory().
    RankEngine(const RunConfig& config, Comm& world, const CompileRank& compile,
               const std::string& lower = "train.micro_batch");

    Engine& engine() { return *engine_; }
    const Grid& grid() const { return grid_; }
    /// Collective: fills the parameters; a checkpoint without adapters is computed as it is, and rank 0 says
    /// so. Errors as restore_parameters(), on all ranks.
    void restore(const CheckpointReader& checkpoint);

private:
    Grid grid_;
    int threads_;
    Computing computing_;
    std::optional<Engine> engine_;
};

} // namespace trivium
