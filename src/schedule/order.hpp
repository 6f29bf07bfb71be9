#pragma once
// The order in which the ranks of a pipeline run the passes of their microbatches.
#include "config/schedules.hpp"

#include <string>
#include <vector>

namespace trivium {

/// The stages of a pipeline on its ranks: runs of consecutive blocks, numbered in the order of the model.
/// Each rank has `chunks` of them. Stage s is on rank s mod ranks; with `v_shaped`, every second chunk runs
/// backwards over the ranks, so that the first and the last of two chunks meet on rank 0.
struct PipelineShape {
    i64 ranks = 1, chunks = 1;
    bool v_shaped = false;
    i64 microbatches = 1;

    i64 stages() const { return ranks * chunks; }
    i64 rank_of(i64 stage) const;
    i64 stage_of(i64 rank, i64 chunk) const;
    bool operator==(const PipelineShape&) const = default;
};

/// What a rank does for one microbatch in one stage: the forward pass, the whole backward pass, or its two
/// halves (Qi et al. 2023, "Zero Bubble Pipeline Parallelism"), the gradients of activations, on which the
/// previous stage waits, and those of weights.
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

/// Stage, work and microbatch: "2F0".
std::string to_text(const Task& task);

/// The tasks of one rank, in order.
using RankOrder = std::vector<Task>;

struct PipelineOrder {
    PipelineShape shape;
    std::vector<RankOrder> ranks;

    /// Whether some backward pass is in halves.
    bool is_split() const;
    bool operator==(const PipelineOrder&) const = default;
};

/// By rank: how many of its tasks a step can begin with while ranks do not yet know whether they keep the
/// step before: forward passes until the first backward pass, and none that waits for a task after those of
/// another rank. So ranks that stop there wait for no one.
std::vector<i64> head_tasks(const PipelineOrder& order);

/// The most microbatches of all stages of a rank whose forward pass has begun and whose last task has not
/// ended: the activations that it keeps.
i64 in_flight(const RankOrder& tasks);

} // namespace trivium
