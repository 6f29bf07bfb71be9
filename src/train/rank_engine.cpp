#include "train/rank_engine.hpp"

#include "compile/threads.hpp"
#include "kernels/runtime.hpp"
#include "train/data/inputs.hpp"
#include "train/node_resources.hpp"
#include "train/save/saved_tensors.hpp"
#include "train/this_machine.hpp"

namespace trivium {

CheckpointReader open_checkpoint_together(Comm& world, const std::string& path, const RunConfig& config,
                                          bool average)
{
    std::optional<CheckpointReader> checkpoint;
    succeed_together(world, [&] {
        if (world.rank() == 0)
            checkpoint.emplace(open_checkpoint(path, config));
    });
    // One that a run saves meanwhile would not be the same for all.
    const std::string found = share_text(world, checkpoint ? checkpoint->path() : "");
    succeed_together(world, [&] {
        if (!checkpoint)
            checkpoint.emplace(CheckpointReader::open(found));
        if (average)
            checkpoint->read_averages();
        require_same_model(*checkpoint, config);
    });
    return std::move(*checkpoint);
}

RankEngine::RankEngine(const RunConfig& config, Comm& world,
                       const std::function<Compiled(const CompileConfig&)>& compile)
    : grid_(world, mesh_of(config.parallel), node_name(),
            {config.parallel.delay_latency, config.parallel.delay_bandwidth}),
      threads_(thread_count(config.parallel, kernels::thread_limit(), ranks_on_same_cores(grid_))),
      computing_(threads_, &grid_)
{
    const Machine machine = machine_of(computing_);
    Compiled compiled;
    succeed_together(world, [&] { compiled = compile({machine, {}, world.rank()}); });
    require_free_memory(grid_, computing_.address(),
                        compiled.memory.arena + (machine.is_device ? 0 : compiled.memory.outside()));
    grid_.open(joint_axes(compiled));
    engine_.emplace(std::move(compiled), executor_config(config, threads_), &grid_);
    engine_->initialise(0, Role::constant);
    engine_->initialise(0, Role::state);
}

void RankEngine::restore(const CheckpointReader& checkpoint)
{
    succeed_together(grid_.world(),
                     [&] { restore_parameters(checkpoint, engine_->program(0), engine_->arenas()); });
}

} // namespace trivium
