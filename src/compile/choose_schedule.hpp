#pragma once
// parallel.schedule = "auto", and parallel.update = "auto".
#include "compile/compile.hpp"
#include "schedule/play.hpp"

namespace trivium {

/// What the passes of one microbatch cost on a pipeline rank, by block of the model; and a message.
struct BlockCosts {
    OrderCosts blocks;
    Seconds message = 0;

    /// The costs of stages: sums over their blocks.
    OrderCosts of(const StageConfig& stages) const;
};
/// On `machine`, from the compiled programs of each pipeline rank. \pre a config whose schedule is not "auto"
BlockCosts block_costs(const RunConfig& config, const CompileConfig& options, const Machine& machine);

/// If the schedule of a config is "auto" and not decided yet: with an order (ParallelConfig::schedule_rows)
/// for its schedule "auto": on the simulator's clock never slower than the named schedules that fit
/// parallel.memory_limit, or without one the device's memory (on hosts: that keep no more activations than
/// zb-h2). If train.micro_batch is 0, the microbatch with the shortest step, too; and without several
/// microbatches to choose from, all of a data rank's sequences. If the update is "auto": synchronous, or
/// post-validated where that fits and makes the step shorter by at least 1 %. Decided for
/// deciding_machine(), so it does not depend on where the run is.
RunConfig choose_schedule(const RunConfig& config, const CompileConfig& options);

} // namespace trivium
