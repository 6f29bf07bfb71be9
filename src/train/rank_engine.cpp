#include "train/rank_engine.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "compile/threads.hpp"
#include "io/files/config_value.hpp"
#include "kernels/runtime.hpp"
#include "train/data/inputs.hpp"
#include "train/node_resources.hpp"
#include "train/save/saved_tensors.hpp"
#include "train/this_machine.hpp"

namespace trivium {

CheckpointReader open_checkpoint_together(Comm& world, const std::string& path, RunConfig& config,
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
        const bool taken = take_adapters(*checkpoint, config);
        if (world.rank() == 0 && taken)
            log_info(str("train.lora = ", print_value(config.train.lora), ", from ", checkpoint->path()));
        require_same_model(*checkpoint, config);
    });
    return std::move(*checkpoint);
}

RunConfig config_on(Comm& world, const RunConfig& config, const CompileRank& compile)
{
    const Bytes memory = share_of_memory(world); // 0: unknown
    RunConfig chosen;
    succeed_together(world, [&] {
        const Machine machine = deciding_machine(config.parallel, computes_on_device());
        chosen = config_on(config, world.size(), [&](const RunConfig& other) {
            try {
                const Mesh mesh = mesh_of(other.parallel);
                for (i64 rank = 0; rank < world.size(); ++rank)
                    if (is_first_of_stage(mesh, rank) &&
                        compile(other, {machine, {}, rank}).memory.arena > memory && memory > 0)
                        return false;
                return true;
            } catch (const UserError&) { // its dimensions do not divide, or the limit is exceeded
                return false;
            }
        });
        const std::string grid = describe_degrees(chosen.parallel);
        if (world.size() > 1 && world.rank() == 0 && grid != describe_degrees(config.parallel))
            log_info(str("on ", counted(world.size(), "rank"), ": ", grid, "; the config has ",
                         describe_degrees(config.parallel)));
    });
    return chosen;
}

RankEngine::RankEngine(const RunConfig& config, Comm& world, const CompileRank& compile,
                       const std::string& lower)
    : grid_(world, mesh_of(config.parallel), node_name(),
            {config.parallel.delay_latency, config.parallel.delay_bandwidth}),
      threads_(thread_count(config.parallel, kernels::thread_limit(), ranks_on_same_cores(grid_))),
      computing_(threads_, &grid_)
{
    const Machine machine = machine_of(computing_);
    Compiled compiled;
    succeed_together(world, [&] { compiled = compile(config, {machine, {}, world.rank()}); });
    require_free_memory(grid_, computing_.address(),
                        compiled.memory.arena + (machine.is_device ? 0 : compiled.memory.outside()), lower);
    grid_.open(joint_axes(compiled));
    engine_.emplace(std::move(compiled), executor_config(config, threads_), &grid_);
    engine_->initialise(0, Role::constant);
    engine_->initialise(0, Role::state);
}

void RankEngine::restore(const CheckpointReader& checkpoint)
{
    bool as_base = false;
    succeed_together(grid_.world(), [&] {
        as_base = restore_parameters(checkpoint, engine_->program(0), engine_->arenas());
    });
    if (as_base && grid_.world().rank() == 0)
        log_info(checkpoint.path() + " has no adapters: train.lora changes nothing yet");
}

} // namespace trivium
