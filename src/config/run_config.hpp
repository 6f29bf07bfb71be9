#pragma once
// The tables of a run's config file other than [model], one struct per table, and RunConfig with all tables.
#include "config/data_config.hpp"
#include "config/lora_config.hpp"
#include "config/model_config.hpp"
#include "config/parallel_config.hpp"

#include <set>

namespace trivium {

enum class Precision { f32, bf16, f64 };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<Precision>{"f32", "bf16", "f64"};

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
    double balance_rate = 1e-3;
    double balance_loss = 0;
    double router_z_loss = 0;
    i64 seed = 0;
    Precision precision = Precision::f32;
    bool fp8 = false;
    i64 eval_every = 0;
    i64 eval_batches = 0; ///< 0: the whole validation store
    std::string init_from;
    std::vector<std::string> freeze;
    LoraConfig lora;
    double ema = 0;
    i64 patience = 0;
    i64 stop_after = 0;
    double spike_z = 0;
    i64 spike_window = 128;
    i64 max_skipped = 100;
    i64 rewind = 0;

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
        visit("balance_rate", self.balance_rate, KeyKind::training,
              "with model.balance_bias: by how much a step raises the bias of each expert that got fewer "
              "tokens of the global batch than the mean, and lowers that of each that got more");
        visit("balance_loss", self.balance_loss, KeyKind::training,
              "with model.experts: coefficient a of a loss that is added to each token's: in each layer and "
              "sequence of T tokens a E / (k T) * sum over the E experts of (slots that chose it) * (mean of "
              "its "
              "score, of scores that add up to 1), with k = expert_slots; the training loss includes it, the "
              "validation loss does not; 0 = off");
        visit(
            "router_z_loss", self.router_z_loss, KeyKind::training,
            "with model.experts: coefficient of the squared log-sum-exp of the router's logits, of the mean "
            "over a sequence's tokens in each layer, which is added in the same way; 0 = off");
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
        visit("freeze", self.freeze, KeyKind::training,
              "patterns of parameters that stay as they are, such as \"embed.*\" or \"layers.0.*\"; they "
              "have no gradients and no moments");
        visit(
            "lora", self.lora, KeyKind::training,
            "low-rank adapters: a table with rank (0 = off), alpha (0 = twice the rank), rank_stable "
            "(alpha / sqrt(rank) in place of alpha / rank), dropout, magnitudes (DoRA), targets (patterns of "
            "parameters; by default all matrices of layers but routers) and train (patterns of parameters "
            "that are trained as a whole); all other parameters are frozen");
        visit("ema", self.ema, KeyKind::training,
              "decay per step of an exponential moving average of the weights, which evaluations use and "
              "checkpoints keep; 0 = none, 0.999 is usual");
        visit("patience", self.patience, KeyKind::free,
              "evaluations in a row without a better loss (checkpoint.best) after which the run stops; "
              "0 = train to the end");
        visit("stop_after", self.stop_after, KeyKind::free,
              "steps after which this launch saves and stops; 0 = run to the end");
        visit(
            "spike_z", self.spike_z, KeyKind::training,
            "skip a step whose loss is more than this many standard deviations above the mean of the recent "
            "losses; 0 = off");
        visit("spike_window", self.spike_window, KeyKind::free, "number of recent losses for spike_z");
        visit("max_skipped", self.max_skipped, KeyKind::free,
              "how many steps in a row may be skipped before the run fails; 0 = no limit");
        visit(
            "rewind", self.rewind, KeyKind::training,
            "how often the run may go back to its newest checkpoint and leave out the data since then, when "
            "spike_z skips more steps in a row than max_skipped; 0 = the run fails");
    }
};

struct CheckpointConfig {
    std::string dir = "checkpoints";
    i64 every = 0;
    i64 keep = 2;
    std::string best;
    bool async = true;
    std::string resume = "auto";

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("dir", self.dir, KeyKind::free, "folder for the run's checkpoints");
        visit("every", self.every, KeyKind::free, "steps between checkpoints; 0 = only at the end");
        visit("keep", self.keep, KeyKind::free,
              "how many of the newest checkpoints are kept, at least 2 (1 keeps 2); 0 = all");
        visit("best", self.best, KeyKind::free,
              "name of the set of data.valid whose lowest loss marks the best checkpoint, which is kept "
              "besides the newest (\"valid\" if the only set has no name); empty = none");
        visit("async", self.async, KeyKind::free,
              "write while training continues, from a snapshot whose memory is planned");
        visit("resume", self.resume, KeyKind::free,
              "\"auto\" (the newest good checkpoint, if any), \"never\", or the path of a checkpoint");
    }
};

struct LogConfig {
    std::string dir = "logs";
    i64 every = 1;
    i64 samples = 2;
    i64 layer_norms = 0;
    bool tensorboard = false;
    std::string prometheus;
    std::string otlp;
    std::string trace;
    std::string machine;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("dir", self.dir, KeyKind::free, "folder for metrics.jsonl");
        visit("every", self.every, KeyKind::free,
              "steps between lines of the log (metrics.jsonl has every step)");
        visit("samples", self.samples, KeyKind::free,
              "samples of the validation data in metrics.samples.jsonl, for the report: of a program with "
              "outputs "
              "per sample a slice of each input and, after evaluations, of these outputs; 0 = none");
        visit("layer_norms", self.layer_norms, KeyKind::free,
              "steps between norms of the gradients, weights and updates of each layer, in "
              "metrics.layers.jsonl; 0 = none");
        visit("tensorboard", self.tensorboard, KeyKind::free,
              "write TensorBoard's event files to the folder tensorboard of log.dir, while the run goes");
        visit("prometheus", self.prometheus, KeyKind::free,
              "file with the newest metrics in the text format of Prometheus, for a node exporter; "
              "empty = none");
        visit("otlp", self.otlp, KeyKind::free,
              "address of an OpenTelemetry collector (OTLP over HTTP) that gets the metrics; empty = none");
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

/// Sequences of step `step`, counted from 1: train.global_batch, or those of its stage of train.batch_ramp.
i64 batch_at(const TrainConfig& config, i64 step);
/// Sequences of the first `steps` steps.
i64 samples_in(const TrainConfig& config, i64 steps);
/// The greatest number that divides the batches of all steps.
i64 common_batch(const TrainConfig& config);

/// Whether the losses of batches of a step may count different numbers of tokens or samples.
inline bool counts_vary(const RunConfig& config)
{
    return config.model.is_program() ? config.model.program.counts_vary : config.data.masks_losses();
}
/// Whether post-validated updates are possible, and each is not done twice.
inline bool may_post_validate(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    return p.pipeline > 1 && p.offload == Offload::none && !p.graphs && !counts_vary(config);
}

/// The axes of the mesh, which parallel.order orders, in the default order.
std::vector<std::string> axes_in_order(const RunConfig& config);

/// Sequences of one microbatch. \pre train.micro_batch is set, or batch_ranks() divides common_batch()
i64 micro_batch(const RunConfig& config);
/// Microbatches per optimizer step of `batch` sequences and data rank; without `batch`, of
/// train.global_batch. \pre batch_ranks() divides common_batch()
i64 microbatch_count(const RunConfig& config, i64 batch);
i64 microbatch_count(const RunConfig& config);

/// Replaces zeros in [model] by the values that they stand for. Throws UserError for the first impossible
/// value. Returns warnings about settings without effect, one per line (warnings_of()).
std::vector<std::string> resolve_and_validate(RunConfig& config);

} // namespace trivium
