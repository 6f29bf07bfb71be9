#pragma once
// What a candidate needs, and how long it takes: the questions that choices depend on.
#include "compile/compile.hpp"
#include "schedule/play.hpp"

#include <optional>

namespace trivium {

/// A training config in which only parallel.bucket may be "auto"; its schedule has this order.
struct Candidate {
    RunConfig config;
    PipelineOrder order;
};

/// A step on a simulator's clock, and the largest arena.
struct Score {
    Seconds step = 0;
    Bytes arena = 0;
};

/// What the passes of one microbatch cost on a pipeline rank, by block of the model; and a message.
struct BlockCosts {
    OrderCosts blocks;
    Seconds message = 0;

    /// The costs of stages: sums over their blocks.
    OrderCosts of(const StageConfig& stages) const;
};

/// Of the first rank of each stage, which has the largest shards of its stage.
struct StagesNeed {
    MemoryPlan largest; ///< the one with the largest arena
    i64 rank = -1;      ///< that has it
    i64 stage = 0;
    Bytes bytes = 0;                  ///< most bytes_needed() of one of them
    std::vector<std::string> buckets; ///< Choices::buckets
};

/// What a candidate may need; a limit of 0 is none.
struct StageLimits {
    Bytes arena = 0;
    Bytes bytes = 0;                              ///< of bytes_needed()
    std::function<bool(i64 stage)> included = {}; ///< stages that are considered; empty: all
};

class Estimator {
public:
    virtual ~Estimator() = default;
    /// On which the ranks run.
    virtual const Machine& machine() const = 0;
    /// nullopt if a stage exceeds the limits.
    virtual std::optional<StagesNeed> needs(const Candidate& candidate, const StageLimits& limits) = 0;
    /// `clock`: whose time counts; not machine(), because choices do not depend on where a run is.
    virtual Score score(const Candidate& candidate, const Machine& clock) = 0;
    virtual BlockCosts block_costs(const Candidate& candidate, const Machine& clock) = 0;
};

/// Compiles the first rank of each stage, and plays a step on the simulator's clock. All functions throw
/// UserError if the model does not fit the grid.
class Compiling : public Estimator {
public:
    /// `progress`: called every few seconds, also for a large model.
    explicit Compiling(Machine machine, std::function<void()> progress = {})
        : machine_(std::move(machine)), progress_(std::move(progress))
    {
    }
    const Machine& machine() const override { return machine_; }
    std::optional<StagesNeed> needs(const Candidate& candidate, const StageLimits& limits) override;
    Score score(const Candidate& candidate, const Machine& clock) override;
    BlockCosts block_costs(const Candidate& candidate, const Machine& clock) override;

private:
    /// Ends early when `visit` returns false. Returns how the collectives of the stages are merged.
    std::vector<std::string> compile(const Candidate& candidate,
                                     const std::function<bool(i64 rank, Compiled&)>& visit,
                                     const std::function<bool(i64 stage)>& included = {});

    Machine machine_;
    std::function<void()> progress_;
};

/// Memory that a plan needs: the arena and the process; on a host, also the snapshot and the arena of the
/// host.
Bytes bytes_needed(const MemoryPlan& plan, const Machine& machine);

} // namespace trivium
