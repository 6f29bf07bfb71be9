#pragma once
// Memory and duration of a candidate, on which choices depend.
#include "compile/simulated_step.hpp"
#include "passes/sharding/move_prices.hpp"
#include "schedule/play.hpp"

#include <map>
#include <memory>
#include <optional>

namespace trivium {

/// A training config, and the order that its schedule stands for. An Estimator takes candidates in which
/// nothing is "auto" but parallel.schedule and parallel.bucket.
struct Candidate {
    RunConfig config;
    PipelineOrder order;
};

/// A simulated step, and the memory of the first rank of each stage.
struct Score {
    Seconds step = 0;
    Bytes arena = 0;  ///< the largest of a rank
    bool fits = true; ///< false: a stage exceeds the limits; then only `arena` is set, of that stage
    std::vector<Bytes> bytes{}; ///< by pipeline rank: bytes_needed()
    StepParts parts{};          ///< of the stage that computes longest
    Flops flops = 0;            ///< Compiled::flops
};

/// The costs of one microbatch on a pipeline rank.
struct BlockCosts {
    OrderCosts blocks;      ///< by block of the model; activations in bytes
    double hidden = 0;      ///< part of their StageCost::in_line during which the rank computes; pipelines: 0
    Seconds message = 0;    ///< between two stages
    Seconds update = 0;     ///< compute of a step outside of its microbatches, where it is longest
    MemoryPlan memory = {}; ///< the plan with the largest arena
    /// By block: elements of the parameters that it reads, in a rank's shards, and of those that are frozen.
    std::vector<double> elements = {}, frozen = {};
    double shared = 0, shared_frozen = 0; ///< of those that the first and the last block read
    double sent = 0; ///< bytes of what a block and those before it make for later ones, where it is most

    /// The costs of each stage: sums over its blocks.
    OrderCosts of(const StageConfig& stages) const;
};

/// How collectives are merged.
struct ChosenBuckets {
    std::string mode;        ///< parallel.bucket, or what "auto" stands for
    ShardedTraining sharded; ///< the graph of the candidate, if it was made
};

/// The memory of the first rank of each stage, which has the largest shards of its stage.
struct StagesNeed {
    MemoryPlan largest; ///< the plan with the largest arena
    i64 rank = -1;      ///< the rank of `largest`
    i64 stage = 0;      ///< the pipeline stage of `rank`
    Bytes bytes = 0;    ///< maximum bytes_needed() of these ranks
    ChosenBuckets buckets;
};

/// Limits per rank; 0: no limit.
struct StageLimits {
    Bytes arena = 0;
    Bytes bytes = 0;                              ///< of bytes_needed()
    std::function<bool(i64 stage)> included = {}; ///< stages that are considered; empty: all

    /// One of `parts` parts of each limit less.
    StageLimits less(i64 parts) const { return {arena - arena / parts, bytes - bytes / parts, included}; }
};

/// A candidate that has been compiled: the first rank of each stage, as compile_ranks() makes them, but with
/// the programs of training in `step`.
struct CompiledStages {
    Candidate candidate;
    ChosenBuckets buckets;
    std::vector<std::pair<i64, Compiled>> ranks; ///< by rank, ascending
    PlayedStep step;
};

/// Estimates candidates. All functions but machine() throw UserError if the model does not fit the grid.
class Estimator {
public:
    virtual ~Estimator() = default;
    /// The machine on which the ranks run.
    virtual const Machine& machine() const = 0;
    /// The memory of the included stages, with usual_buckets(); nullopt if one of them exceeds the limits.
    virtual std::optional<StagesNeed> needs(const Candidate& candidate, const StageLimits& limits) = 0;
    /// Without the programs and the memory of ranks.
    virtual ChosenBuckets buckets(const Candidate& candidate) = 0;
    /// `clock`: the machine whose time counts. It may differ from machine(), so that choices do not depend on
    /// where a run is.
    virtual Score score(const Candidate& candidate, const Machine& clock, const StageLimits& limits = {}) = 0;
    /// As score(), in less time: arenas are lower bounds (within 1 %, usually), and of many microbatches only
    /// some are simulated, as many as the pipeline needs to run evenly; the others take as long as those.
    virtual Score rough_score(const Candidate& candidate, const Machine& clock,
                              const StageLimits& limits) = 0;
    /// How much larger the planned arena of the first stage is than that of rough_score(), at least 1.
    virtual double growth(const Candidate& candidate) = 0;
    virtual BlockCosts block_costs(const Candidate& candidate, const Machine& clock) = 0;
};

/// Compiles the first rank of each stage, and simulates a step. \pre the candidates of all calls differ only
/// in what plain_key() names, and in what the graphs of a training do not depend on
class Compiling : public Estimator {
public:
    /// `progress`: called before each stage is compiled.
    explicit Compiling(Machine machine, std::function<void()> progress = {})
        : machine_(std::move(machine)), progress_(std::move(progress))
    {
    }
    const Machine& machine() const override { return machine_; }
    std::optional<StagesNeed> needs(const Candidate& candidate, const StageLimits& limits) override;
    ChosenBuckets buckets(const Candidate& candidate) override;
    Score score(const Candidate& candidate, const Machine& clock, const StageLimits& limits = {}) override;
    Score rough_score(const Candidate& candidate, const Machine& clock, const StageLimits& limits) override;
    double growth(const Candidate& candidate) override;
    BlockCosts block_costs(const Candidate& candidate, const Machine& clock) override;
    /// From now on: of the candidates of score() that fit, the one with the shortest step is kept.
    void keep_fastest() { keeps_fastest_ = true; }
    /// That one; null: there is none. The next call has none.
    std::unique_ptr<CompiledStages> take_fastest() { return std::move(fastest_); }

private:
    /// Compiles the first rank of each included stage until `visit` returns false.
    ChosenBuckets compile(const Candidate& candidate, const std::function<bool(i64 rank, Compiled&)>& visit,
                          const std::function<bool(i64 stage)>& included = {}, bool outline = false);
    /// parallel.bucket = "auto": the mode with the shortest simulated step. `compiler`: of the candidate.
    std::string fastest_buckets(const Candidate& candidate, TrainingCompiler& compiler);
    /// The same for a rough score: a mode that is seldom far from the best, without a search for it; of
    /// programs without a pipeline that of an earlier candidate with as many ranks along the data axis.
    std::string guessed_buckets(const Candidate& candidate, TrainingCompiler& compiler);
    /// Sets all of the score but times to what the rank of one more stage makes of it. Returns whether it
    /// fits.
    bool add_stage(const Compiled& compiled, const StageLimits& limits, Score& score) const;
    /// Compiles outlines of the ranks that are to be simulated, and sets all of the score but times.
    std::vector<SimulatedRank> outlined_ranks(const Candidate& candidate, const StageLimits& limits,
                                              Score& score);

    /// The plain graph of an earlier candidate with the same plain_key(), or none.
    ShardedTraining known_graph(const std::string& key);

    Machine machine_;
    std::function<void()> progress_;
    MovePrices moves_;
    /// What growth() needs of the last rough score with fewer microbatches.
    struct Rough {
        std::string key; ///< key_of()
        Program first{}; ///< of the first stage
        Bytes arena = 0; ///< its arena
    };
    Rough rough_;
    std::map<std::string, std::string> modes_; ///< of guessed_buckets()
    std::unique_ptr<CompiledStages> fastest_;
    bool keeps_fastest_ = false;
    Seconds fastest_step_ = 0;                                    ///< of fastest_
    std::vector<std::pair<std::string, ShardedTraining>> graphs_; ///< by plain_key(), the last one used last
};

/// Memory that a plan needs: the arena and the process; on hosts, also the snapshot and the host arena.
Bytes bytes_needed(const MemoryPlan& plan, const Machine& machine);

} // namespace trivium
