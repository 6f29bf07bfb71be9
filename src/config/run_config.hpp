#pragma once
// The tables of a run's config file beside [model], one struct per consumer, and RunConfig, which holds all.
#include "config/model_config.hpp"

namespace trivium {

enum class Precision { f32, bf16, f64 };
template <>
inline constexpr std::array<std::string_view, 3> names_of_enum<Precision>{"f32", "bf16", "f64"};

enum class ScheduleKind { gpipe, one_f_one_b };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<ScheduleKind>{"gpipe", "1f1b"};

enum class Recompute { none, selective, full, automatic };
template <>
inline constexpr std::array<std::string_view, 4> names_of_enum<Recompute>{"none", "selective", "full",
                                                                          "auto"};

enum class ReduceType { f32, bf16 };
template <>
inline constexpr std::array<std::string_view, 2> names_of_enum<ReduceType>{"f32", "bf16"};

struct DataConfig {
    std::string train;
    std::string valid;
    std::string tokenizer; ///< empty: the store's; "bytes" where there is no store

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("train", self.train, "token store to train on (made by `trivium data tokenize`)");
        visit("valid", self.valid, "token store for the validation loss; empty = none");
        visit("tokenizer", self.tokenizer,
              "\"bytes\", a SentencePiece model file, or a tokenizer.json (byte-level BPE, as GPT-2 and "
              "Llama 3 have); empty = that of the token store");
    }
};

struct TrainConfig {
    i64 steps = 100;
    i64 global_batch = 8;
    i64 micro_batch = 0; ///< 0: global_batch / data ranks (no accumulation)
    double lr = 3e-4;
    double min_lr = 0;
    i64 warmup = 0;
    double weight_decay = 0.1;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double eps = 1e-8;
    double grad_clip = 1.0;
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
        visit("steps", self.steps, "optimizer steps of the whole run");
        visit("global_batch", self.global_batch, "sequences per optimizer step, over all ranks");
        visit("micro_batch", self.micro_batch,
              "sequences per forward pass and data rank; 0 = all of the rank's share at once");
        visit("lr", self.lr, "peak learning rate");
        visit("min_lr", self.min_lr, "learning rate at the end of the cosine");
        visit("warmup", self.warmup, "steps of linear warm-up");
        visit("weight_decay", self.weight_decay, "decoupled decay of matrices (norms and biases are spared)");
        visit("beta1", self.beta1, "AdamW's first-moment decay");
        visit("beta2", self.beta2, "AdamW's second-moment decay");
        visit("eps", self.eps, "AdamW's denominator constant");
        visit("grad_clip", self.grad_clip, "largest global gradient norm; 0 = no clipping");
        visit("seed", self.seed, "seed of the initial weights and of the order of samples");
        visit("precision", self.precision,
              "f32, or bf16 compute with f32 master weights and reductions; f64 is for exact tests");
        visit("fp8", self.fp8,
              "the blocks' products round their operands to 8 bits (e4m3, gradients e5m2), each tensor under "
              "its own scale; "
              "with precision = \"bf16\"");
        visit("eval_every", self.eval_every, "steps between validation losses; 0 = only at the end");
        visit("eval_batches", self.eval_batches,
              "validation batches of global_batch sequences; 0 = the whole store");
        visit("init_from", self.init_from, "checkpoint whose weights start this run, with a fresh optimizer");
        visit("stop_after", self.stop_after,
              "stop this launch after so many steps, with a checkpoint; 0 = run to the end");
        visit("spike_z", self.spike_z,
              "skip a step whose loss lies more than so many standard deviations above the mean of recent "
              "losses; 0 = off");
        visit("spike_window", self.spike_window, "recent losses that spike_z looks at");
        visit("max_skipped", self.max_skipped,
              "steps in a row that may be skipped; then the run fails; 0 = no limit");
    }
};

struct ParallelConfig {
    i64 data = 1;
    i64 tensor = 1;
    i64 pipeline = 1;
    i64 zero = 0;
    ScheduleKind schedule = ScheduleKind::one_f_one_b;
    i64 chunks = 1;
    bool sequence = true;
    Recompute recompute = Recompute::none;
    bool overlap = true;
    bool graphs = false;
    std::string bucket = "auto";
    i64 memory_limit = 0;
    i64 threads = 0;
    bool deterministic = true;
    ReduceType reduce = ReduceType::f32;
    std::string strategy;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("data", self.data, "data-parallel ranks");
        visit("tensor", self.tensor, "tensor-parallel ranks");
        visit("pipeline", self.pipeline, "pipeline stages");
        visit("zero", self.zero, "ZeRO stage, 0 to 3: what data ranks shard");
        visit("schedule", self.schedule, "pipeline schedule");
        visit("chunks", self.chunks, "model chunks per pipeline rank");
        visit("sequence", self.sequence, "sequence parallelism beside tensor parallelism");
        visit("recompute", self.recompute, "activations computed again in the backward pass");
        visit("overlap", self.overlap, "overlap communication with computation");
        visit("graphs", self.graphs, "on GPUs: capture a step's work once as a CUDA graph, then replay it");
        visit("bucket", self.bucket,
              "\"auto\", \"block\", \"none\" or bytes: how gradients are grouped for reduction");
        visit("memory_limit", self.memory_limit,
              "bytes per rank that the plan must not exceed; 0 = no limit");
        visit("threads", self.threads, "CPU threads per rank; 0 = the cores the rank may use");
        visit("deterministic", self.deterministic, "the same bits on every run");
        visit("reduce", self.reduce, "type in which gradients travel");
        visit("strategy", self.strategy,
              "\"auto\": where the degrees do not make up the ranks that were started, the nearest grid that "
              "does; global batch and order of samples stay");
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
        visit("dir", self.dir, "folder of the run's checkpoints");
        visit("every", self.every, "steps between checkpoints; 0 = only at the end");
        visit("keep", self.keep, "checkpoints kept, newest first, at least 2 (1 keeps 2); 0 = all");
        visit("async", self.async, "write while training goes on, from a snapshot whose memory is planned");
        visit("resume", self.resume,
              "\"auto\" (the newest good one, if any), \"never\", or a checkpoint's path");
    }
};

struct LogConfig {
    std::string dir = "logs";
    i64 every = 1;
    std::string trace;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("dir", self.dir, "folder of metrics.jsonl");
        visit("every", self.every, "steps between lines on the terminal (metrics.jsonl has every step)");
        visit("trace", self.trace, "file for a trace of one step's Steps; empty = none");
    }
};

struct JobConfig {
    i64 restarts = 3;
    double watchdog = 30;

    template <class Self, class Visit>
    static void keys(Self& self, Visit&& visit)
    {
        visit("restarts", self.restarts,
              "launches of one job in a row that may begin at the same step; then it stops for good; 0 = no "
              "limit");
        visit("watchdog", self.watchdog,
              "seconds without a sign of life or of progress after which a hung run is described and ended; "
              "0 = off");
    }
};

/// Everything that one run is told. Paths are as written: relative to the working folder.
struct RunConfig {
    ModelConfig model;
    DataConfig data;
    TrainConfig train;
    ParallelConfig parallel;
    CheckpointConfig checkpoint;
    LogConfig log;
    JobConfig job;

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

/// Ranks the grid of `config` needs.
inline i64 rank_count(const ParallelConfig& config) { return config.data * config.tensor * config.pipeline; }

/// Sequences of one microbatch. \pre parallel.data divides train.global_batch
i64 micro_batch(const RunConfig& config);
/// Microbatches per optimizer step and data rank. \pre the same
i64 microbatch_count(const RunConfig& config);

/// Fills in the zeros that stand for a rule and throws UserError on the first value that makes no run.
/// Returns what the run would do otherwise than its config says, a warning a line ("train.warmup: is longer
/// than the run …").
std::vector<std::string> resolve_and_validate(RunConfig& config);

/// Values that keys have and this version does not: compiling refuses them, and the reference page says so.
struct NotBuilt {
    std::string_view table, key;
    std::string_view values; ///< "2 and 3"
    std::string_view what;   ///< what they would do
    std::string_view remedy;
    bool (*asked)(const RunConfig&);
};
const std::vector<NotBuilt>& not_built();

} // namespace trivium
