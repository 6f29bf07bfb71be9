#pragma once
// The tables of a run's config file other than [model], one struct per table, and RunConfig with all tables.
#include "config/data_config.hpp"
#include "config/model_config.hpp"

#include <set>

namespace trivium {

enum class Precision { f32, bf16, f64 };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<Precision>{"f32", "bf16", "f64"};

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

enum class Offload { none, optimizer };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<Offload>{"none", "optimizer"};

/// Whether an update waits for the global gradient norm.
enum class UpdateMode { synchronous, post_validated, automatic };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<UpdateMode>{"synchronous", "post-validated",
                                                                           "auto"};

enum class OptimizerKind { adamw, muon };

/// An optimizer: the ops (ir/ops.inc) that keep the states of its tensors. States, memory and checkpoints
/// follow from their rows.
struct Optimizer {
    std::string_view name;
    std::string_view matrices; ///< op for the weight matrices of layers
    std::string_view others;   ///< op for every other tensor
    double beta2;              ///< default of train.beta2
    bool continuous = true;    ///< rounding errors of gradients change an update by as little
};

/// By OptimizerKind.
inline constexpr std::array optimizers{
    Optimizer{.name = "adamw", .matrices = "adamw", .others = "adamw", .beta2 = 0.95},
    Optimizer{.name = "muon", .matrices = "nesterov", .others = "adamw", .beta2 = 0.95}};
constexpr const Optimizer& optimizer_row(OptimizerKind kind)
{
    return optimizers[static_cast<std::size_t>(kind)];
}
template <>
inline constexpr auto names_of_enum<OptimizerKind> = [] {
    std::array<std::string_view, optimizers.size()> names;
    for (std::size_t i = 0; i < names.size(); ++i)
        names[i] = optimizers[i].name;
    return names;
}();

/// Type of gradients in messages or accumulators; f32 stands for f64 in a run with precision = "f64".
enum class GradientType { f32, bf16 };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<GradientType>{"f32", "bf16"};

/// How the learning rate continues after the warm-up (train/learning_rate.hpp).
enum class RateSchedule { constant, linear, cosine, wsd, inverse_sqrt };
template <>
inline constexpr std::array<std::string_view, 5> names_of_enum<RateSchedule>{"constant", "linear", "cosine",
                                                                             "wsd", "inverse-sqrt"};
/// The decay at the end of "wsd".
enum class DecayShape { linear, cosine, one_minus_sqrt };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<DecayShape>{"linear", "cosine",
                                                                           "one-minus-sqrt"};

/// Smaller batches at the begin of a run: each stage has `steps` steps of `batch` sequences, in this order;
/// then train.global_batch applies.
struct BatchRamp {
    struct Stage {
        i64 batch = 0, steps = 0;
        bool operator==(const Stage&) const = default;
    };
    std::vector<Stage> stages;
    bool operator==(const BatchRamp&) const = default;
};

struct TrainConfig {
    i64 steps = 100;
    i64 global_batch = 8;
    BatchRamp batch_ramp;
    /// 0: global_batch / data ranks (no accumulation); with a ramp the greatest that fits.
    i64 micro_batch = 0;
    double lr = 3e-4;
    double min_lr = 0;
    i64 warmup = 0;
    RateSchedule schedule = RateSchedule::cosine;
    i64 decay_steps = 0; ///< 0: a tenth of the steps
    DecayShape decay_shape = DecayShape::linear;
    double weight_decay = 0.1;
    OptimizerKind optimizer = OptimizerKind::adamw;
    double momentum = 0.95;
    double beta1 = 0.9;
    double beta2 = optimizer_row(OptimizerKind::adamw).beta2;
    double eps = 1e-8;
    double grad_clip = 1.0;
    double z_loss = 0;
    double label_smoothing = 0;
    i64 seed = 0;
    Precision precision = Precision::f32;
    bool fp8 = false;
    i64 eval_every = 0;
    i64 eval_batches = 0; ///< 0: the whole validation store
    std::string init_from;
    i64 stop_after = 0;
    double spike_z = 0;
    i64 spike_window = 128;
    i64 max_skipped = 100;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("steps", self.steps, KeyKind::rate, "optimizer steps of the whole run");
        visit("global_batch", self.global_batch, KeyKind::training,
              "sequences per optimizer step, over all ranks");
        visit("batch_ramp", self.batch_ramp, KeyKind::training,
              "smaller batches at the begin, as a list of [sequences, steps]: [[8, 100], [16, 50]] is 100 "
              "steps of 8 sequences, 50 of 16, then global_batch; the number of microbatches follows");
        visit("micro_batch", self.micro_batch, KeyKind::free,
              "sequences per forward pass and data rank; 0 = the whole share of the rank at once (with "
              "batch_ramp the most that divide the shares of all stages)");
        visit("lr", self.lr, KeyKind::rate, "peak learning rate");
        visit("min_lr", self.min_lr, KeyKind::rate, "learning rate at the end of the decay");
        visit("warmup", self.warmup, KeyKind::rate, "steps of linear warm-up");
        visit("schedule", self.schedule, KeyKind::rate,
              "learning rate after the warm-up: constant; linear or cosine (to min_lr at the last step); wsd "
              "(constant, then a decay to min_lr in the last decay_steps); inverse-sqrt (lr * sqrt(warmup / "
              "step), at least min_lr)");
        visit("decay_steps", self.decay_steps, KeyKind::rate,
              "with schedule = \"wsd\": steps of the decay; 0 = a tenth of train.steps");
        visit("decay_shape", self.decay_shape, KeyKind::rate,
              "with schedule = \"wsd\": linear, cosine, or one-minus-sqrt (1 - sqrt(part of the decay "
              "done))");
        visit("weight_decay", self.weight_decay, KeyKind::training,
              "decoupled weight decay of matrices (not of norms and biases)");
        visit("optimizer", self.optimizer, KeyKind::training,
              "adamw, or muon: the weight matrices of layers by Muon, everything else by AdamW");
        visit("momentum", self.momentum, KeyKind::training, "decay of Muon's momentum");
        visit("beta1", self.beta1, KeyKind::training, "decay of AdamW's first moment");
        visit("beta2", self.beta2, KeyKind::training, "decay of AdamW's second moment");
        visit("eps", self.eps, KeyKind::training, "constant in AdamW's denominator");
        visit("grad_clip", self.grad_clip, KeyKind::training,
              "maximum global gradient norm; 0 = no clipping");
        visit("z_loss", self.z_loss, KeyKind::training,
              "coefficient of the squared log-sum-exp of a token's logits, which is added to its loss; the "
              "training "
              "loss includes it, the validation loss does not; 0 = off");
        visit(
            "label_smoothing", self.label_smoothing, KeyKind::training,
            "share of a target's probability that is spread evenly over the vocabulary; the training loss is "
            "that of the smoothed targets, the validation loss is not; 0 = off");
        visit("seed", self.seed, KeyKind::training,
              "seed of the initial weights, of the order of samples and of dropout");
        visit("precision", self.precision, KeyKind::training,
              "f32; bf16 (computes in bf16, with f32 master weights and reductions); f64 (for exact tests)");
        visit(
            "fp8", self.fp8, KeyKind::training,
            "round the operands of the blocks' products to 8 bits (e4m3, gradients e5m2), with one scale per "
            "tensor; requires precision = \"bf16\"");
        visit("eval_every", self.eval_every, KeyKind::free,
              "steps between validation losses; 0 = only at the end");
        visit("eval_batches", self.eval_batches, KeyKind::free,
              "batches of global_batch sequences per validation; 0 = the whole store");
        visit("init_from", self.init_from, KeyKind::free,
              "checkpoint from which this run takes its initial weights, with a fresh optimizer");
        visit("stop_after", self.stop_after, KeyKind::free,
              "steps after which this launch saves and stops; 0 = run to the end");
        visit(
            "spike_z", self.spike_z, KeyKind::training,
            "skip a step whose loss is more than this many standard deviations above the mean of the recent "
            "losses; 0 = off");
        visit("spike_window", self.spike_window, KeyKind::free, "number of recent losses for spike_z");
        visit("max_skipped", self.max_skipped, KeyKind::free,
              "how many steps in a row may be skipped before the run fails; 0 = no limit");
    }
};

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

struct ParallelConfig {
    i64 data = 1;
    i64 tensor = 1;
    i64 pipeline = 1;
    ProgramAxes axes;
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
        visit("tensor", self.tensor, KeyKind::free, "tensor-parallel ranks");
        visit("pipeline", self.pipeline, KeyKind::free, "pipeline-parallel ranks");
        visit("axes", self.axes, KeyKind::free,
              "with model.family = \"graph\": ranks along each axis of the program's mesh, as a table "
              "[parallel.axes] such as x = 2, y = 4; an axis that is not named has one");
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

struct CheckpointConfig {
    std::string dir = "checkpoints";
    i64 every = 0;
    i64 keep = 2;
    bool async = true;
    std::string resume = "auto";

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("dir", self.dir, KeyKind::free, "folder for the run's checkpoints");
        visit("every", self.every, KeyKind::free, "steps between checkpoints; 0 = only at the end");
        visit("keep", self.keep, KeyKind::free,
              "how many of the newest checkpoints are kept, at least 2 (1 keeps 2); 0 = all");
        visit("async", self.async, KeyKind::free,
              "write while training continues, from a snapshot whose memory is planned");
        visit("resume", self.resume, KeyKind::free,
              "\"auto\" (the newest good checkpoint, if any), \"never\", or the path of a checkpoint");
    }
};

struct LogConfig {
    std::string dir = "logs";
    i64 every = 1;
    std::string trace;
    std::string machine;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("dir", self.dir, KeyKind::free, "folder for metrics.jsonl");
        visit("every", self.every, KeyKind::free,
              "steps between lines of the log (metrics.jsonl has every step)");
        visit("trace", self.trace, KeyKind::free, "file for a trace of one step's Steps; empty = none");
        visit("machine", self.machine, KeyKind::free,
              "machine file of `trivium check -o`, or a name that `trivium plan --machine` knows: the run "
              "simulates its step on it and compares it with what it measures; empty = on GPUs the GPU, on "
              "CPUs none");
    }
};

struct JobConfig {
    i64 restarts = 3;
    double watchdog = 30;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("restarts", self.restarts, KeyKind::free,
              "how many launches of one job in a row may begin at the same step before the job ends; 0 = no "
              "limit");
        visit("watchdog", self.watchdog, KeyKind::free,
              "seconds without a heartbeat or progress after which a run is reported as hung and ended; "
              "0 = off");
    }
};

/// The config of a run. Paths are as the user wrote them: relative to the working folder.
struct RunConfig {
    ModelConfig model;
    DataConfig data;
    TrainConfig train;
    ParallelConfig parallel;
    CheckpointConfig checkpoint;
    LogConfig log;
    JobConfig job;
    /// Not a key: the dotted names of the keys that a file or an override sets. parallel.strategy = "auto"
    /// leaves their values as they are.
    std::set<std::string> given;

    /// Visits each table: `visit("model", self.model)` …
    template <class Self, class Visit>
    static void tables(Self& self, Visit&& visit)
    {
        visit("model", self.model);
        visit("data", self.data);
        visit("train", self.train);
        visit("parallel", self.parallel);
        visit("checkpoint", self.checkpoint);
        visit("log", self.log);
        visit("job", self.job);
    }
};

/// What the ranks along an axis of the grid share: the sequences of a batch, the blocks of the model, or the
/// dimensions of tensors.
enum class AxisShards { batch, blocks, tensors };

/// One axis of the grid. Mesh, checks, reports and messages follow from grid_axes.
struct GridAxis {
    const char* name; ///< of the mesh axis; its degree is the key parallel.NAME
    i64 ParallelConfig::*degree;
    AxisShards shards;
};

/// In the order of the mesh, the last axis fastest.
inline constexpr std::array grid_axes{GridAxis{"data", &ParallelConfig::data, AxisShards::batch},
                                      GridAxis{"pipeline", &ParallelConfig::pipeline, AxisShards::blocks},
                                      GridAxis{"tensor", &ParallelConfig::tensor, AxisShards::tensors}};

/// Number of ranks in the grid of `config`.
inline i64 rank_count(const ParallelConfig& config)
{
    i64 ranks = 1;
    for (const GridAxis& axis : grid_axes)
        ranks *= config.*axis.degree;
    for (const ProgramAxes::Axis& axis : config.axes.list)
        ranks *= axis.degree;
    return ranks;
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

/// Every grid of `ranks` ranks, as configs that have its degrees and are otherwise the default. Ordered by
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

/// Ranks over which ZeRO shards: of data-parallel ranks a divisor of `config.data`; without ZeRO all.
inline i64 shard_ranks(const ParallelConfig& config)
{
    const std::string zero = zero_axis(config);
    for (const ProgramAxes::Axis& axis : config.axes.list)
        if (axis.name == zero)
            return axis.degree;
    return config.zero > 0 && config.shard > 0 ? config.shard : config.data;
}

/// Sequences of step `step`, counted from 1: train.global_batch, or those of its stage of train.batch_ramp.
i64 batch_at(const TrainConfig& config, i64 step);
/// Sequences of the first `steps` steps.
i64 samples_in(const TrainConfig& config, i64 steps);
/// The greatest number that divides the batches of all steps.
i64 common_batch(const TrainConfig& config);

/// Sequences of one microbatch. \pre batch_ranks() divides common_batch()
i64 micro_batch(const RunConfig& config);
/// Microbatches per optimizer step of `batch` sequences and data rank; without `batch`, of
/// train.global_batch. \pre batch_ranks() divides common_batch()
i64 microbatch_count(const RunConfig& config, i64 batch);
i64 microbatch_count(const RunConfig& config);

/// Replaces zeros in [model] by the values that they stand for. Throws UserError for the first impossible
/// value. Returns warnings about settings without effect, one per line (warnings_of()).
std::vector<std::string> resolve_and_validate(RunConfig& config);

} // namespace trivium
