#pragma once
// A step in closed form: which of many strategies are worth simulating.
#include "choose/estimator.hpp"
#include "choose/step_formulas.hpp"
#include "plan/cost.hpp"

#include <map>
#include <memory>
#include <tuple>

namespace trivium {

struct QuickEstimate {
    Seconds step = 0;
    double bytes = 0; ///< of the arena of the largest rank
};

/// Estimates candidates that differ in settings of [parallel] and in the microbatch, with the costs of blocks
/// that the Estimator compiles for each (degrees of the axes that shard tensors, microbatch, recomputation):
/// of a transformer a model of few layers, of a program all of it, with some microbatches, between which
/// costs are interpolated. Transfers over the data axis, updates and, of transformers, bubbles are formulas.
/// Functions throw UserError if the model does not fit the grid.
class QuickEstimator {
public:
    /// \pre `estimator` and `clock` outlive it. `threads`: of a rank, for grids of a number of ranks
    QuickEstimator(Estimator& estimator, const Machine& clock,
                   std::function<i64(const ParallelConfig&)> threads)
        : estimator_(estimator), clock_(clock), threads_(std::move(threads))
    {
    }

    /// By formulas for the schedule's bubble. \pre without "auto", but parallel.bucket
    QuickEstimate estimate(const RunConfig& config);
    /// With the time at which each task of the schedule's order ends (play()).
    QuickEstimate played(const RunConfig& config, const PipelineOrder& order);

    /// A lower bound of estimate(), nearly, for all stages and groups of ZeRO, with this recomputation or
    /// more: the time of a rank's passes, after the passes that its first stage waits for, and before those
    /// that wait for it. Takes a small part of the time of estimate().
    Seconds least_step(const RunConfig& config, Recompute recompute);

private:
    /// One rank's share of the model, per microbatch, and what a step adds. By rank or for the largest.
    struct Share {
        StageCost cost;
        double kept = 0;     ///< bytes, with StageCost::gradients
        Seconds outside = 0; ///< of the step: transfers that nothing hides, and the update
        StageTransfers transfers{};
    };
    /// Costs by kind of block, less what the rank hides: of a transformer the block before the layers, a
    /// layer on average, and the block behind them; of a program each block.
    struct Profile {
        std::vector<StageCost> costs;
        std::vector<double> elements, frozen; ///< of parameters that change, and of frozen ones
        /// Elements that the first and the last kind have in common.
        double shared = 0, shared_frozen = 0;
        double sent = 0;         ///< bytes of the messages between two stages
        double beyond = 0;       ///< bytes of the arena besides what is kept and activations
        Seconds per_element = 0; ///< update of a parameter's element
    };
    using Counts = std::vector<double>; ///< of blocks, by kind
    /// Degrees of the axes that shard tensors, microbatch, parallel.sequence, recomputation, whether backward
    /// passes are split, parallel.overlap
    using ProfileKey = std::tuple<std::vector<i64>, i64, bool, Recompute, bool, bool>;

    using ProfilePointer = std::shared_ptr<const Profile>;
    ProfilePointer profile(const RunConfig& config, Recompute recompute);
    Profile compiled_profile(const RunConfig& config, Recompute recompute);
    std::optional<Profile> between(const RunConfig& config, Recompute recompute);
    /// Of blocks of which some recompute more than others: by kind, the part that recomputes as the config
    /// says.
    ProfilePointer mixed(const RunConfig& config, const std::vector<double>& parts);
    /// The blocks of a stage or a rank, by kind, and those that recompute as the config says.
    struct Blocks {
        Counts all, recomputing;
        auto operator<=>(const Blocks&) const = default;
    };
    Share share_of(const RunConfig& config, const Blocks& blocks);
    Seconds message(const RunConfig& config, double bytes) const;
    /// Along the axes `data` and `replica`.
    struct Transfers {
        TransferCost data;
        std::optional<TransferCost> replica;
    };
    const Transfers& transfers(const ParallelConfig& grid);
    Share share_of(const RunConfig& config, const Profile& profile, const Counts& counts);
    /// training_order(), the last one kept: strategies that follow one another often have the same.
    const PipelineOrder& order_of(const RunConfig& config);
    const StageConfig& stages_for(const RunConfig& config, const PipelineShape& shape);

    Estimator& estimator_;
    const Machine& clock_;
    std::function<i64(const ParallelConfig&)> threads_;
    std::map<ProfileKey, ProfilePointer> profiles_; ///< null: the model does not fit
    using TransferKey = std::tuple<std::vector<i64>, i64, std::vector<std::string>>;
    std::map<TransferKey, Transfers> transfers_; ///< by degrees, ranks of a shard, order
    std::optional<Graph> whole_;                 ///< graph_of_stages()
    std::map<std::tuple<i64, i64, bool>, StageConfig> stages_;
    using OrderKey = std::tuple<std::string, i64, i64, i64>; ///< schedule, pipeline, chunks, microbatches
    OrderKey order_key_;
    PipelineOrder order_;
};

} // namespace trivium
