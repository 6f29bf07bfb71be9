#pragma once
// Closed forms of what a step takes and keeps, for estimates of many strategies.
#include "config/run_config.hpp"
#include "config/schedules.hpp"
#include "schedule/play.hpp"

#include <vector>

namespace trivium {

inline double as_double(i64 value) { return static_cast<double>(value); }

/// Elements of a rank's parameters, of which `experts` are those of experts, of each of which only some of
/// the data ranks have a copy.
struct Elements {
    double all = 0, experts = 0;

    /// The sum of `each(shard ranks)` over all elements.
    template <class Each>
    double sum(const ParallelConfig& p, Each&& each) const
    {
        return (all - experts) * each(as_double(shard_ranks(p))) +
               experts * each(as_double(shard_ranks(p)) / as_double(p.expert));
    }
};

/// Those of the experts of a layer, on average, on a rank.
double expert_elements(const RunConfig& config);

/// Bytes of a parameter's element and its optimizer states, but what is offloaded.
double trained_per_element(const RunConfig& config);
/// Bytes that a rank keeps for each element of its tensor shard, of which `ranks` ranks have a copy or
/// shards.
double kept_per_element(const RunConfig& config, double ranks);
/// The part of it that is kept from the first backward pass of a step until the last one of the stage:
/// gradients, if reductions bring the sum of all microbatches to other buffers.
double passing_per_element(const RunConfig& config);
/// As kept_per_element(), of frozen parameters.
double kept_per_frozen(const RunConfig& config, double ranks);

Seconds seconds_of(const StageCost& cost);

/// Idle time of a rank in a step: the named schedules' bubbles (Qi et al. 2023 and 2024; Narayanan et al.
/// 2021), for stages whose passes take as long as the average.
Seconds bubble_of(ScheduleKind kind, double chunks, double others, const StageCost& mean);

/// Microbatches whose activations the first rank keeps, each of all its stages.
double in_flight(ScheduleKind kind, double ranks, double chunks, double microbatches);

/// Layers of the stage that takes longest, if each rank has one stage and the ends have fewer layers.
double layers_of_longest(double layers, i64 stages, Seconds layer, Seconds first, Seconds last);

/// The first task of each of a rank's `stages` stages, or the last one; in their order.
std::vector<std::size_t> ends_of_stages(const RankOrder& tasks, i64 stages, bool last);

/// What a stage gathers and reduces once in a step.
struct StageTransfers {
    Seconds gather = 0, reduce = 0;
    double runs = 1;  ///< the number of parts; passes hide all but one
    double slows = 0; ///< the part of the compute that they take
};

/// What the transfers of a rank's stages add to its step.
class StepTransfers {
public:
    /// Of a stage whose first forward pass begins at `begin` and takes `pass`; in the order of `begin`.
    void gather(const StageTransfers& stage, Seconds begin, Seconds pass);
    /// Of a stage whose last backward pass ends at `end` and takes `pass`; in the order of `end`.
    void reduce(const StageTransfers& stage, Seconds end, Seconds pass);
    /// How much later the step ends on a rank that computes until `end`.
    Seconds added(Seconds end) const;

private:
    Seconds gathered_ = 0, reduced_ = 0; ///< ends of the last transfers
    Seconds late_ = 0;                   ///< how much later forward passes begin
    Seconds all_ = 0, slowed_ = 0;       ///< transfers, and what they take of the compute if all are hidden
};

} // namespace trivium
