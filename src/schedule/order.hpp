#pragma once
// The order in which the ranks of a pipeline run the passes of their microbatches.
#include "config/schedules.hpp"

#include <string>
#include <vector>

namespace trivium {

/// The stages of a pipeline on its ranks: runs of consecutive blocks, numbered in the order of the model.
/// Each rank has `chunks` stages. Stage s is on rank s mod ranks; with `v_shaped`, every second chunk runs
/// backwards over the ranks, so that of two chunks the first and the last stage are on rank 0.
struct PipelineShape {
    i64 ranks = 1, chunks = 1;
    bool v_shaped = false;
    i64 microbatches = 1;

    i64 stages() const { return ranks * chunks; }
    i64 rank_of(i64 stage) const;
    i64 stage_of(i64 rank, i64 chunk) const;
    bool operator==(const PipelineShape&) const = default;
};

/// The work of a rank for one microbatch in one stage: the forward pass, the whole backward pass, or one half
/// of it (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"): the gradients of activations, for which the
/// previous stage waits, or the gradients of weights.
enum class Work { forward, backward, input_gradient, weight_gradient };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<Work>{"F", "B", "I", "W"};

struct Task {
    Work work = Work::forward;
    i64 stage = 0;
    i64 microbatch = 0;
    bool operator==(const Task&) const = default;
    auto operator<=>(const Task&) const = default;
};

/// Stage, work and microbatch: "2F0" is the forward pass of microbatch 0 in stage 2.
std::string to_text(const Task& task);

/// The tasks of one rank, in order.
using RankOrder = std::vector<Task>;

struct PipelineOrder {
    PipelineShape shape;
    std::vector<RankOrder> ranks;

    /// Whether some backward pass is split into its two halves.
    bool is_split() const;
    bool operator==(const PipelineOrder&) const = default;
};

/// By rank: the number of its first tasks that run before the decision about the previous step
/// (passes/pipeline/post_validate.hpp): forward passes before the first backward pass that read only results
/// of such tasks of other ranks. So no rank waits for one that stops at its decision.
std::vector<i64> head_tasks(const PipelineOrder& order);

/// For each task of `rank`: the number of tasks of the rank `other` that have ended when it begins, whatever
/// the tasks take: what the orders and the messages between neighbouring stages imply.
std::vector<i64> ended_before(const PipelineOrder& order, i64 rank, i64 other);

/// The largest number of forward passes of a rank, over all its stages, whose activations it keeps at a time:
/// from the begin of the pass to the end of the last task of the same stage and microbatch.
i64 in_flight(const RankOrder& tasks);

} // namespace trivium
