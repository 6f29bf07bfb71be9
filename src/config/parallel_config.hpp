#pragma once
// [parallel]: degrees of the mesh's axes, and what is sharded, gathered, recomputed and scheduled how.
#include "base/short_list.hpp"
#include "config/keys.hpp"
#include "config/model_program.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace trivium {

/// How often parameters are gathered. decide() replaces the value `automatic`, here and in the enums below.
enum class GatherEvery { automatic, pass, microbatch, step };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<GatherEvery>{"auto", "pass", "microbatch",
                                                                            "step"};
enum class ReduceEvery { automatic, microbatch, step };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<ReduceEvery>{"auto", "microbatch", "step"};
enum class Recompute { none, selective, full, automatic };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<Recompute>{"none", "selective", "full",
                                                                          "auto"};

/// How attention gets the keys and values of other context ranks.
enum class ContextForm { automatic, gather, ring };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<ContextForm>{"auto", "gather", "ring"};

enum class Offload { none, optimizer };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<Offload>{"none", "optimizer"};

/// Whether an update waits for the global gradient norm.
enum class UpdateMode { synchronous, post_validated, automatic };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<UpdateMode>{"synchronous", "post-validated",
                                                                           "auto"};

/// Type of gradients in messages or accumulators; f32 stands for f64 in a run with precision = "f64".
enum class GradientType { f32, bf16 };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<GradientType>{"f32", "bf16"};

/// Degrees of mesh axes that a program of the user's own has besides those of the grid.
struct ProgramAxes {
    struct Axis {
        std::string name;
        i64 degree = 1;
        bool shards_batch = false; ///< not from the config: the program shards samples over it
        bool operator==(const Axis&) const = default;
    };
    std::vector<Axis> list; ///< in the order of the mesh

    NamedNumbers degrees() const
    {
        NamedNumbers numbers;
        for (const Axis& axis : list)
            numbers.list.emplace_back(axis.name, axis.degree);
        return numbers;
    }
    bool operator==(const ProgramAxes&) const = default;
};

/// What happens to rows that do not fit an expert rank's buffer.
enum class ExpertOverflow { refuse, drop };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<ExpertOverflow>{"refuse", "drop"};

struct ParallelConfig {
    i64 data = 1;
    i64 context = 1;
    i64 context_heads = 0;
    ContextForm context_form = ContextForm::automatic;
    i64 expert = 1;
    double expert_buffer = 0;
    ExpertOverflow expert_overflow = ExpertOverflow::refuse;
    i64 tensor = 1;
    i64 pipeline = 1;
    ProgramAxes axes;
    std::vector<std::string> order; ///< empty: as the axes of grid_axes and then of the program
    i64 zero = 0;
    i64 shard = 0;
    GatherEvery gather_every = GatherEvery::automatic;
    ReduceEvery reduce_every = ReduceEvery::automatic;
    std::string schedule = "1f1b";
    // Not keys. schedule_rows: the content of the file that `schedule` names (schedule/order_file.hpp).
    // schedule_near: the named schedule from which the order for "auto" was found.
    std::string schedule_rows, schedule_near;
    i64 chunks = 0;
    std::vector<i64> stage_layers; ///< empty: balanced; ignored by searches for other pipelines
    bool sequence = true;
    Recompute recompute = Recompute::none;
    i64 recompute_layers = 0;
    Offload offload = Offload::none;
    i64 tile = 0;
    bool overlap = true;
    UpdateMode update = UpdateMode::synchronous;
    bool graphs = false;
    bool group = false;
    std::string bucket = "auto";
    i64 memory_limit = 0;
    i64 threads = 0;
    bool deterministic = true;
    bool cudnn = true;
    GradientType reduce = GradientType::f32;
    GradientType accumulate = GradientType::f32;
    std::string strategy;
    std::string machine;
    double delay_latency = 0;
    double delay_bandwidth = 0;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("data", self.data, KeyKind::free, "data-parallel ranks");
        visit("context", self.context, KeyKind::free,
              "ranks that share the tokens of each sequence (context parallelism); gradients are summed, and "
              "ZeRO shards, over data x context ranks");
        visit("context_heads", self.context_heads, KeyKind::free,
              "context ranks among which attention exchanges tokens for heads (all-to-all), a divisor of "
              "context; others gather the keys and values. 0 = 1");
        visit(
            "context_form", self.context_form, KeyKind::free,
            "how context / context_heads ranks get each other's keys and values: all before attention "
            "(gather), or block by block, while attention computes with the block before (ring); auto = the "
            "one with the shorter step by the simulator, on GPUs gather: rings have not run on GPUs yet");
        visit(
            "expert", self.expert, KeyKind::free,
            "ranks that share the experts of a layer (expert parallelism): the fastest of the data x context "
            "ranks, of whose number and of model.experts it is a divisor; tokens travel to the ranks of "
            "their experts and back");
        visit(
            "expert_buffer", self.expert_buffer, KeyKind::training,
            "with expert > 1: rows that a rank can take from its group, as a multiple of those that it gets "
            "if all experts are equally loaded; 0 = as many as can arrive");
        visit("expert_overflow", self.expert_overflow, KeyKind::training,
              "with expert_buffer: rows beyond it end the run with an error (refuse), or are dropped and "
              "counted (drop)");
        visit("tensor", self.tensor, KeyKind::free, "tensor-parallel ranks");
        visit("pipeline", self.pipeline, KeyKind::free, "pipeline-parallel ranks");
        visit("axes", self.axes, KeyKind::free,
              "with model.family = \"graph\": ranks along each axis of the program's mesh, as a table "
              "[parallel.axes] such as x = 2, y = 4; an axis that is not named has one");
        visit(
            "order", self.order, KeyKind::free,
            "the axes of the mesh in the order in which ranks are numbered, the last one fastest, such as "
            "[\"pipeline\", \"data\", \"tensor\"]: ranks along the last axis are neighbours, most likely on "
            "one node; context and expert ranks are part of data. empty = data, pipeline, tensor, then the "
            "axes of the program");
        visit("zero", self.zero, KeyKind::free, "ZeRO stage, 0 to 3");
        visit("shard", self.shard, KeyKind::free,
              "data-parallel ranks over which ZeRO shards: groups of this many hold one copy each, and sum "
              "their "
              "gradients once per step (hybrid sharding); 0 = all");
        visit("gather_every", self.gather_every, KeyKind::free,
              "with zero = 3: when parameters are gathered: in each forward and each backward pass, once per "
              "microbatch, or once per step; auto = pass, or with parallel.memory_limit the least frequent "
              "that fits");
        visit("reduce_every", self.reduce_every, KeyKind::free,
              "with zero = 2 or 3: when gradients are reduced into shards; auto = microbatch, or with "
              "parallel.memory_limit the least frequent that fits");
        visit("schedule", self.schedule, KeyKind::free,
              "pipeline schedule: \"gpipe\", \"1f1b\", \"interleaved\", \"breadth-first\", \"zb-h1\", "
              "\"zb-h2\", "
              "\"zb-v\", \"v-half\", \"v-min\", \"dualpipe-v\", \"auto\" (the order whose step is the "
              "shortest by the simulator), or a file NAME.csv with a row of actions per "
              "pipeline rank");
        visit("chunks", self.chunks, KeyKind::free,
              "stages per pipeline rank; 0 = as many as the schedule needs");
        visit("stage_layers", self.stage_layers, KeyKind::free,
              "layers of each pipeline stage, in the order of the model, such as [2, 3, 3, 2]: the embedding "
              "is in the first stage, the head in the last; empty = balanced by work");
        visit("sequence", self.sequence, KeyKind::free, "sequence parallelism over the tensor axis");
        visit("recompute", self.recompute, KeyKind::free,
              "which activations the backward pass recomputes: those of norms, attention and activation "
              "functions (selective), all of a layer (full), or as much as parallel.memory_limit requires");
        visit("recompute_layers", self.recompute_layers, KeyKind::free,
              "in how many layers, evenly spread; the others recompute one level less (full: selective; "
              "selective: "
              "none); 0 = in all, or with recompute = auto as many as parallel.memory_limit requires");
        visit("offload", self.offload, KeyKind::free,
              "what is in host memory instead of the device's: the optimizer's states, the parameters in "
              "their stored type and the update; only in CPU builds, where both are arenas of the host");
        visit("tile", self.tile, KeyKind::free,
              "with zero = 3: maximum bytes gathered at once, of a weight or of a bucket; larger weights are "
              "gathered, used and reduced in tiles; 0 = no maximum");
        visit("overlap", self.overlap, KeyKind::free, "overlap communication with computation");
        visit("update", self.update, KeyKind::free,
              "when parameters are updated: when the global norm is known (synchronous), or before, where an "
              "update that turns out to be clipped or skipped is done again (post-validated), with the same "
              "bits; auto = post-validated if a step is at least 1 % shorter by the simulator");
        visit("graphs", self.graphs, KeyKind::free,
              "on GPUs: capture a step as CUDA graphs once, then replay them");
        visit("group", self.group, KeyKind::free,
              "one product for the weights that read the same values: q, k and v, gate and up. Sums "
              "have another order, and on hosts no product is faster");
        visit("bucket", self.bucket, KeyKind::free,
              "how gradients and parameters are grouped into collectives: \"none\", \"block\", \"greedy\", "
              "\"global\", a number of bytes, or \"auto\" (of the first four, the one with the shortest step "
              "by "
              "the simulator)");
        visit("machine", self.machine, KeyKind::free,
              "machine whose speeds decide about buckets, by one of the names that `trivium plan --machine` "
              "knows; empty = h100 on GPUs, cpu otherwise, wherever the run is");
        visit("memory_limit", self.memory_limit, KeyKind::free,
              "maximum arena per rank in bytes; 0 = no limit");
        visit("threads", self.threads, KeyKind::free,
              "CPU threads per rank; 0 = all cores that the rank may use");
        visit("deterministic", self.deterministic, KeyKind::free, "the same bits on every run");
        visit("cudnn", self.cudnn, KeyKind::free,
              "on NVIDIA GPUs: attention by cuDNN, if the build has it and the shape fits");
        visit("reduce", self.reduce, KeyKind::free, "type in which gradients are communicated");
        visit(
            "accumulate", self.accumulate, KeyKind::free,
            "type in which gradients are summed over microbatches and kept until the update; bf16 takes half "
            "the memory and rounds each sum");
        visit(
            "strategy", self.strategy, KeyKind::free,
            "\"auto\": if the product of the degrees is not the number of ranks that were started, or no "
            "degree is set, use the strategy with the shortest step by the simulator (`trivium plan --ranks "
            "N`); keys that are set stay; the global batch and the order of samples do not change");
        visit(
            "delay_latency", self.delay_latency, KeyKind::free,
            "to measure overlap on one machine: seconds that each message between ranks takes at least; 0 = "
            "no delay");
        visit(
            "delay_bandwidth", self.delay_bandwidth, KeyKind::free,
            "the same for bandwidth: bytes per second that a rank sends and receives at most; 0 = no limit");
    }
};

/// What the ranks along an axis of the grid share: the sequences of a batch, their tokens, the blocks of the
/// model, or the dimensions of tensors.
enum class AxisShards { batch, tokens, blocks, tensors };

/// One axis of the grid. Mesh, checks, reports and messages follow from grid_axes.
struct GridAxis {
    const char* name; ///< of the mesh axis; its degree is the key parallel.NAME
    i64 ParallelConfig::*degree;
    AxisShards shards;
};

/// In the order of the mesh, the last axis fastest, unless ParallelConfig::order says another.
inline constexpr std::array grid_axes{GridAxis{"data", &ParallelConfig::data, AxisShards::batch},
                                      GridAxis{"context", &ParallelConfig::context, AxisShards::tokens},
                                      GridAxis{"pipeline", &ParallelConfig::pipeline, AxisShards::blocks},
                                      GridAxis{"tensor", &ParallelConfig::tensor, AxisShards::tensors}};

/// For sorting axes of the mesh, stably, into the order of `config`: its place there. The parts of data have
/// that of data, unless a program has an axis of such a name.
inline std::ptrdiff_t position_in_order(const ParallelConfig& config, std::string_view axis)
{
    const bool part = (axis == "context" || axis == "replica") &&
                      std::ranges::count(config.axes.list, axis, &ProgramAxes::Axis::name) == 0;
    return std::ranges::find(config.order, part ? "data" : axis) - config.order.begin();
}

struct NamedDegree {
    std::string_view name;
    i64 degree = 1;
};

/// The grid's axes and the program's with their degrees, in the order of the mesh; those that share sequences
/// only if they do. \pre `config` outlives the names
inline ShortList<NamedDegree, 8> named_degrees(const ParallelConfig& config)
{
    ShortList<NamedDegree, 8> degrees;
    const auto position = [&](const NamedDegree& axis) { return position_in_order(config, axis.name); };
    const auto add = [&](std::string_view name, i64 degree) {
        degrees.push_back({name, degree});
        NamedDegree* const last = degrees.end() - 1;
        std::rotate(std::ranges::upper_bound(degrees.begin(), last, position(*last), {}, position), last,
                    degrees.end());
    };
    for (const GridAxis& axis : grid_axes)
        if (axis.shards != AxisShards::tokens || config.*axis.degree > 1)
            add(axis.name, config.*axis.degree);
    for (const ProgramAxes::Axis& axis : config.axes.list)
        add(axis.name, axis.degree);
    return degrees;
}

/// The degrees of all axes, as grid_axes and then the program's: the same for all orders of the mesh.
inline std::vector<i64> degrees_of(const ParallelConfig& config)
{
    std::vector<i64> degrees;
    for (const GridAxis& axis : grid_axes)
        degrees.push_back(config.*axis.degree);
    for (const ProgramAxes::Axis& axis : config.axes.list)
        degrees.push_back(axis.degree);
    return degrees;
}

/// By how much the numbers of neighbours along an axis differ: the ranks of the axes that are faster.
inline i64 stride_along(const ParallelConfig& config, std::string_view axis)
{
    i64 stride = 1;
    const auto degrees = named_degrees(config);
    for (auto after = degrees.end(); after != degrees.begin() && (after - 1)->name != axis; --after)
        stride *= (after - 1)->degree;
    return stride;
}

/// Number of ranks in the grid of `config`.
inline i64 rank_count(const ParallelConfig& config)
{
    i64 ranks = 1;
    for (const auto& [name, degree] : named_degrees(config))
        ranks *= degree;
    return ranks;
}

/// Number of ranks that share the tensors of a stage: the product of the degrees of all axes but data and
/// pipeline.
inline i64 tensor_ranks(const ParallelConfig& config)
{
    return rank_count(config) / (config.data * config.pipeline);
}

/// Number of groups of ranks that share the sequences of a batch: the product of the degrees of these axes.
inline i64 batch_ranks(const ParallelConfig& config)
{
    i64 ranks = 1;
    for (const GridAxis& axis : grid_axes)
        if (axis.shards == AxisShards::batch)
            ranks *= config.*axis.degree;
    for (const ProgramAxes::Axis& axis : config.axes.list)
        ranks *= axis.shards_batch ? axis.degree : 1;
    return ranks;
}

/// Number of ranks that get each other's keys and values as ContextForm says.
inline i64 block_ranks(const ParallelConfig& config)
{
    return config.context / std::max<i64>(config.context_heads, 1);
}

/// Number of ranks over which the gradients of a parameter are summed.
inline i64 gradient_ranks(const ParallelConfig& config) { return batch_ranks(config) * config.context; }

/// Every grid of `ranks` ranks, as configs that have its degrees and are otherwise the default. Sorted by
/// the degrees, in the order of grid_axes.
std::vector<ParallelConfig> grids_of(i64 ranks);

/// "data 2 x pipeline 4 x tensor 1"
std::string describe_degrees(const ParallelConfig& config);

/// The axis over which ZeRO shards: data; with one data rank the first of config.axes that shards samples.
inline std::string zero_axis(const ParallelConfig& config)
{
    for (const ProgramAxes::Axis& axis : config.axes.list)
        if (config.data == 1 && axis.shards_batch && axis.degree > 1)
            return axis.name;
    return "data";
}

/// Whether ZeRO shards over groups of data ranks: hybrid sharding.
inline bool shards_in_groups(const ParallelConfig& config)
{
    return config.zero > 0 && config.shard > 0 && config.shard < config.data;
}

/// Data ranks of a group: those over which ZeRO shards, or all.
inline i64 group_ranks(const ParallelConfig& config)
{
    return shards_in_groups(config) ? config.shard : config.data;
}

/// Ranks along zero_axis(), of which context ranks are a part.
inline i64 zero_ranks(const ParallelConfig& config)
{
    const std::string zero = zero_axis(config);
    for (const ProgramAxes::Axis& axis : config.axes.list)
        if (axis.name == zero)
            return axis.degree;
    return config.data * config.context;
}

/// Ranks over which ZeRO shards: those of zero_axis(), or a group of its data ranks; without ZeRO all.
inline i64 shard_ranks(const ParallelConfig& config)
{
    return shards_in_groups(config) ? group_ranks(config) * config.context : zero_ranks(config);
}

} // namespace trivium
