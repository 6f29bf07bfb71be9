#include "config/run_config.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/words.hpp"
#include "config/schedules.hpp"
#include "config/trained_parameters.hpp"
#include "config/warnings.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace trivium {

namespace {

void require(bool holds, const std::string& key, const std::string& problem, const std::string& remedy,
             const std::string& reason = "")
{
    if (!holds)
        throw UserError({key, problem, reason, remedy});
}

void at_least(i64 least, const std::string& key, i64 value, i64 most = i64{1} << 31)
{
    require(value >= least, key, str("must be at least ", least, ", is ", value),
            str("set it to an integer of at least ", least));
    require(value <= most, key, str("must be at most ", most, ", is ", value), "set a smaller number");
}

void unit_interval(const char* key, double value)
{
    require(value >= 0 && value < 1, key, str("must be in [0, 1), is ", value), "0.9 to 0.999 are usual");
}

void finite_from(const char* key, double value, double least, bool inclusive)
{
    require(std::isfinite(value) && (inclusive ? value >= least : value > least), key,
            str("must be a finite number ", inclusive ? "of at least " : "above ", least, ", is ", value),
            "check the value");
}

void validate_train(const TrainConfig& c)
{
    at_least(1, "train.steps", c.steps);
    at_least(1, "train.global_batch", c.global_batch, 1 << 24);
    at_least(0, "train.micro_batch", c.micro_batch);
    at_least(0, "train.warmup", c.warmup);
    at_least(0, "train.eval_every", c.eval_every);
    at_least(0, "train.eval_batches", c.eval_batches);
    at_least(0, "train.stop_after", c.stop_after);
    at_least(8, "train.spike_window", c.spike_window, 1 << 16);
    at_least(0, "train.max_skipped", c.max_skipped);
    unit_interval("train.momentum", c.momentum);
    unit_interval("train.beta1", c.beta1);
    unit_interval("train.beta2", c.beta2);
    finite_from("train.lr", c.lr, 0, true);
    finite_from("train.min_lr", c.min_lr, 0, true);
    finite_from("train.weight_decay", c.weight_decay, 0, true);
    finite_from("train.eps", c.eps, 0, false);
    finite_from("train.grad_clip", c.grad_clip, 0, true);
    finite_from("train.spike_z", c.spike_z, 0, true);
    finite_from("train.z_loss", c.z_loss, 0, true);
    require(c.balance_rate >= 0 && c.balance_rate <= 1, "train.balance_rate",
            str("must be from 0 to 1, is ", c.balance_rate), "1e-3 is usual");
    finite_from("train.balance_loss", c.balance_loss, 0, true);
    finite_from("train.router_z_loss", c.router_z_loss, 0, true);
    require(c.label_smoothing >= 0 && c.label_smoothing < 1, "train.label_smoothing",
            str("must be from 0 to below 1, is ", c.label_smoothing), "0.1 is usual, 0 turns it off");
    require(!c.fp8 || c.precision == Precision::bf16, "train.fp8", "requires precision = \"bf16\"",
            "set train.precision to \"bf16\", or fp8 to false");
    unit_interval("train.ema", c.ema);
    at_least(0, "train.patience", c.patience);
    at_least(0, "train.rewind", c.rewind);
    at_least(0, "train.decay_steps", c.decay_steps);
    for (const BatchRamp::Stage& stage : c.batch_ramp.stages) {
        at_least(1, "train.batch_ramp", stage.batch, 1 << 24);
        at_least(1, "train.batch_ramp", stage.steps);
        require(stage.batch <= c.global_batch, "train.batch_ramp",
                str("has a stage of ", counted(stage.batch, "sequence"),
                    ", more than train.global_batch = ", c.global_batch),
                "raise train.global_batch, to which the ramp leads, or lower the stage");
    }
    require(c.min_lr <= c.lr, "train.min_lr", str("is above train.lr: ", c.min_lr, " > ", c.lr),
            "set min_lr to at most lr");
}

/// The set of data.valid whose loss marks the best checkpoint.
void validate_best(const RunConfig& config)
{
    const std::string& best = config.checkpoint.best;
    const std::vector<ValidationStore>& sets = config.data.valid.list;
    if (best.empty() || sets.empty())
        return;
    std::vector<std::string> names;
    for (const ValidationStore& set : sets)
        names.push_back(set.name.empty() ? "valid" : set.name);
    require(std::ranges::count(names, best) > 0, "checkpoint.best",
            str("is '", best, "', but data.valid has no set of that name"),
            did_you_mean(best, names, "name one of them"), str("its sets are ", joined_words(names, ", ")));
}

void validate_schedule(const ParallelConfig& c)
{
    at_least(0, "parallel.chunks", c.chunks, i64{1} << 20);
    if (is_schedule_file(c.schedule)) {
        require(c.chunks == 0, "parallel.chunks",
                str("is ", c.chunks, ", but ", c.schedule, " has its own stages"), "remove the key");
        return;
    }
    if (c.schedule == automatic_schedule) {
        require(c.chunks <= most_searched_chunks, "parallel.chunks",
                str("is ", c.chunks, ", but schedule \"auto\" looks at up to ", most_searched_chunks,
                    " stages per rank"),
                "lower it, or remove the key");
        return;
    }
    const std::optional<ScheduleKind> kind = schedule_called(c.schedule);
    std::string names = str("\"", automatic_schedule, "\"");
    for (const std::string_view name : names_of_enum<ScheduleKind>)
        names += str(", \"", name, "\"");
    require(kind.has_value(), "parallel.schedule", str("has the unknown value '", c.schedule, "'"),
            str("set ", names, ", or the name of a file that ends with .csv"));
    const ChunkRange range = chunks_of(*kind);
    const i64 nearest = std::clamp(c.chunks, range.least, range.most);
    require(c.chunks == 0 || c.chunks == nearest, "parallel.chunks",
            str("is ", c.chunks, ", but schedule \"", c.schedule, "\" has ",
                range.least == range.most ? "" : "at least ", nearest, nearest == 1 ? " stage" : " stages",
                " per rank"),
            str("set chunks to ", nearest, range.most == 1 ? ", or schedule to \"interleaved\"" : "",
                ", or remove the key"));
}

void validate_stage_layers(const ParallelConfig& c, i64 layers)
{
    if (c.stage_layers.empty())
        return;
    const std::string key = "parallel.stage_layers";
    const std::optional<ScheduleKind> kind = schedule_called(c.schedule);
    require(kind.has_value(), key, str("cannot be combined with parallel.schedule = \"", c.schedule, "\""),
            "name a schedule, such as \"1f1b\", or remove the key");
    const i64 stages = c.pipeline * stages_per_rank(*kind, c.chunks);
    if (c.strategy == "auto") // the search takes it where it fits
        return;
    require(static_cast<i64>(c.stage_layers.size()) == stages, key,
            str("has ", counted(c.stage_layers.size(), "number"), " for ", counted(stages, "stage")),
            "write the layers of each stage: parallel.pipeline x stages per rank (parallel.chunks) numbers");
    i64 sum = 0;
    for (std::size_t s = 0; s < c.stage_layers.size(); ++s) {
        at_least(s == 0 || s + 1 == c.stage_layers.size() ? 0 : 1, key, c.stage_layers[s], layers);
        sum += c.stage_layers[s];
    }
    require(sum == layers, key, str("has ", counted(sum, "layer"), " of ", layers),
            "let the numbers sum to model.layers");
}

void validate_parallel(const ParallelConfig& c, const TrainConfig& train)
{
    constexpr i64 most_ranks = i64{1} << 20; // the limit of a mesh (ir/limits.hpp)
    double ranks = 1;
    for (const GridAxis& axis : grid_axes) {
        at_least(1, str("parallel.", axis.name), c.*axis.degree);
        ranks *= static_cast<double>(c.*axis.degree);
    }
    require(ranks <= static_cast<double>(most_ranks), "parallel",
            str(describe_degrees(c), " is more than ", most_ranks, " ranks"), "use smaller degrees");
    validate_schedule(c);
    at_least(0, "parallel.threads", c.threads, 4096);
    at_least(0, "parallel.memory_limit", c.memory_limit, i64{1} << 60);
    require(c.zero >= 0 && c.zero <= 3, "parallel.zero", str("must be 0, 1, 2 or 3, is ", c.zero),
            "1 is usual");
    at_least(0, "parallel.shard", c.shard);
    at_least(0, "parallel.context_heads", c.context_heads);
    require(c.context_heads == 0 || c.context % c.context_heads == 0, "parallel.context_heads",
            str("is ", c.context_heads, ", which does not divide ", counted(c.context, "context rank")),
            "set a divisor of parallel.context");
    at_least(1, "parallel.expert", c.expert);
    finite_from("parallel.expert_buffer", c.expert_buffer, 0, true);
    require(c.expert_buffer == 0 || c.expert_buffer >= 1, "parallel.expert_buffer",
            str("is ", c.expert_buffer, ", so that equally loaded experts lose rows"),
            "set 0 or a number from 1, such as 1.5");
    require(c.expert == 1 || !c.graphs, "parallel.graphs",
            "cannot be combined with parallel.expert, because the host sends as many rows as it learns at "
            "run time",
            "set parallel.graphs to false");
    at_least(0, "parallel.tile", c.tile);
    require(c.shard == 0 || c.data % c.shard == 0, "parallel.shard",
            str("groups of ", c.shard, " do not divide ", c.data, " data ranks"),
            "set a divisor of parallel.data, e.g. the ranks of a node, or 0 for all");
    at_least(0, "parallel.recompute_layers", c.recompute_layers);
    finite_from("parallel.delay_latency", c.delay_latency, 0, true);
    finite_from("parallel.delay_bandwidth", c.delay_bandwidth, 0, true);
    i64 bytes = 0;
    const char* end = c.bucket.data() + c.bucket.size();
    const auto parsed = std::from_chars(c.bucket.data(), end, bytes);
    const std::string_view modes[] = {"auto", "none", "block", "greedy", "global"};
    require(std::find(std::begin(modes), std::end(modes), c.bucket) != std::end(modes) ||
                (parsed.ec == std::errc{} && parsed.ptr == end && bytes > 0),
            "parallel.bucket", str("has the unknown value '", c.bucket, "'"),
            "set \"auto\", \"none\", \"block\", \"greedy\", \"global\" or a number of bytes");
    require(c.update != UpdateMode::post_validated || !c.graphs, "parallel.update",
            "\"post-validated\" cannot be combined with parallel.graphs, because a captured step waits for "
            "all its "
            "messages",
            "set parallel.update to \"synchronous\" or parallel.graphs to false");
    require(c.update != UpdateMode::post_validated || c.offload == Offload::none, "parallel.update",
            "\"post-validated\" cannot be combined with parallel.offload",
            "set parallel.update to \"synchronous\" or parallel.offload to \"none\"");
    require(c.strategy.empty() || c.strategy == "auto", "parallel.strategy",
            str("has the unknown value '", c.strategy, "'"),
            "set \"auto\", or remove the key and set the degrees of the grid");
    for (const BatchRamp::Stage& stage : train.batch_ramp.stages)
        require(stage.batch % batch_ranks(c) == 0, "train.batch_ramp",
                str("has a stage of ", counted(stage.batch, "sequence"), ", which ",
                    counted(batch_ranks(c), "data rank"), " cannot share evenly"),
                str("make the batch of each stage a multiple of ", batch_ranks(c)));
    require(train.batch_ramp.stages.empty() ||
                (!is_schedule_file(c.schedule) && c.schedule != automatic_schedule),
            "train.batch_ramp", str("cannot be combined with parallel.schedule = \"", c.schedule, "\""),
            "name the schedule, such as \"1f1b\": an order that was searched or read has one number of "
            "microbatches");
    require(train.global_batch % batch_ranks(c) == 0, "train.global_batch",
            str(counted(train.global_batch, "sequence"), train.global_batch == 1 ? " does" : " do",
                " not divide over ", counted(batch_ranks(c), "data rank")),
            str("make global_batch a multiple of ", batch_ranks(c)));
}

/// Puts the axes of the program's mesh in its order, each with its degree; those of the grid have keys of
/// their own.
void resolve_axes(ParallelConfig& p, const ModelProgram& program)
{
    const std::vector<ProgramAxes::Axis> given = std::move(p.axes.list);
    p.axes.list.clear();
    const auto is_of_grid = [](const std::string& name) {
        return std::ranges::any_of(grid_axes, [&](const GridAxis& axis) {
            return axis.name == name && axis.shards != AxisShards::tokens;
        });
    };
    for (const std::string& name : program.axes)
        if (!is_of_grid(name))
            p.axes.list.push_back({name, 1, std::ranges::count(program.batch_axes, name) > 0});
    for (const ProgramAxes::Axis& axis : given) {
        at_least(1, "parallel.axes." + axis.name, axis.degree, 1 << 20);
        const auto own = std::ranges::find(p.axes.list, axis.name, &ProgramAxes::Axis::name);
        if (own != p.axes.list.end()) {
            own->degree = axis.degree;
            continue;
        }
        require(is_of_grid(axis.name), "parallel.axes." + axis.name,
                str("is ", axis.degree, ", but the model has no mesh axis '", axis.name, "'"),
                program.axes.empty() ? "remove it" : did_you_mean(axis.name, program.axes, "remove it"),
                program.text.get().empty() ? "axes are those of a program (model.family = \"graph\")"
                : program.axes.empty()     ? "the program has no line `mesh`"
                                           : str("its axes are ", joined_words(program.axes, ", ")));
        for (const GridAxis& grid : grid_axes)
            if (grid.name == axis.name)
                p.*grid.degree = axis.degree;
    }
}

/// Each axis of the mesh has one place in parallel.order.
void validate_order(const RunConfig& config)
{
    const std::vector<std::string>& order = config.parallel.order;
    const std::vector<std::string> axes = axes_in_order(config);
    const auto once = [&](const std::string& axis, bool holds, const std::string& problem) {
        const bool part = axis == "context" || axis == "expert" || axis == "replica";
        require(order.empty() || holds, "parallel.order", problem,
                str("name each axis of the mesh once: [\"", joined_words(axes, "\", \""), "\"] in any order"),
                part ? str("'", axis, "' is part of 'data', and has its place") : "");
    };
    for (const std::string& axis : order) {
        once(axis, std::ranges::count(axes, axis) > 0,
             str("names '", axis, "', which is not an axis of the mesh"));
        once(axis, std::ranges::count(order, axis) == 1, str("names '", axis, "' twice"));
    }
    for (const std::string& axis : axes)
        once(axis, std::ranges::count(order, axis) > 0, str("does not name '", axis, "'"));
}

/// Settings that only transformers have.
void validate_program(const RunConfig& config)
{
    if (!config.model.is_program())
        return;
    const auto only = [](bool unset, const char* key) {
        require(unset, key, "is for transformers, the model is a program (model.family = \"graph\")",
                "remove the key");
    };
    for (const GridAxis& axis : grid_axes)
        if (axis.shards == AxisShards::tensors)
            require(config.parallel.*axis.degree == 1 ||
                        std::ranges::count(config.model.program.axes, axis.name) > 0,
                    str("parallel.", axis.name),
                    str("is ", config.parallel.*axis.degree, ", but the program has no mesh axis '",
                        axis.name, "'"),
                    "set degrees of its own axes in [parallel.axes]");
    for (const std::string& key : config.given)
        only(!key.starts_with("model.") || key == "model.family" || key == "model.file" ||
                 key.starts_with("model.sizes"),
             key.c_str());
    const TrainConfig& t = config.train;
    only(t.z_loss == 0, "train.z_loss");
    only(t.label_smoothing == 0, "train.label_smoothing");
    only(t.balance_loss == 0, "train.balance_loss");
    only(t.router_z_loss == 0, "train.router_z_loss");
    only(!t.fp8, "train.fp8");
    only(config.parallel.context == 1, "parallel.context");
    only(config.parallel.expert == 1, "parallel.expert");
    only(config.parallel.stage_layers.empty(), "parallel.stage_layers");
    only(config.data.tokenizer.empty(), "data.tokenizer");
    only(config.data.packing == SamplePacking::concatenate, "data.packing");
    only(config.data.attention == SampleAttention::causal, "data.attention");
}

/// Sums of bytes over the graph of all ranks must fit into 64 bits (ir/limits.hpp: 2^58 bytes). The bounds
/// are generous and use floating point.
/// Rows of experts per token, with those of an expert rank's buffer that stay empty.
double rows_of_token(const RunConfig& config)
{
    const ModelConfig& m = config.model;
    const ParallelConfig& p = config.parallel;
    if (m.experts == 0)
        return 0;
    const i64 ranks = std::min(p.expert, m.experts);
    const auto slots = static_cast<double>(m.expert_slots),
               most = static_cast<double>(ranks * std::min(m.expert_slots, m.experts / ranks));
    return p.expert_buffer > 0 ? std::max(slots, std::min(most, p.expert_buffer * slots)) : most;
}

void validate_size(const RunConfig& config)
{
    const ModelConfig& m = config.model;
    if (m.is_program()) // verify() checks its graph
        return;
    constexpr double most = 0x1p58;
    const double parameters = static_cast<double>(parameter_count(m));
    require(64 * parameters <= most, "model",
            str("has ", format_si(parameters), " parameters, more than 2^52"),
            "lower layers, dim, ffn_dim or vocab");
    const i64 sequences = micro_batch(config) * batch_ranks(config.parallel);
    const double tokens = static_cast<double>(sequences) * static_cast<double>(m.seq);
    const double of_slots = rows_of_token(config) * static_cast<double>(std::max(m.dim, m.expert_dim));
    const i64 of_heads = m.heads * std::max(m.head_dim, value_dim(m));
    const double wide = std::max(of_slots, static_cast<double>(std::max(
                                               {m.dim, m.ffn_dim, of_heads, m.experts, m.shared_dim}))),
                 layers = static_cast<double>(m.layers + 2);
    require(1024 * layers * tokens * wide + 2048 * tokens * static_cast<double>(m.vocab) <= most,
            "train.micro_batch",
            str("results in microbatches of ", sequences, " sequences of ", m.seq,
                " tokens over all ranks, whose activations are too large to plan"),
            "lower train.micro_batch, train.global_batch or model.seq");
}

} // namespace

std::vector<ParallelConfig> grids_of(i64 ranks)
{
    std::vector<ParallelConfig> grids{{}};
    for (const GridAxis& axis : grid_axes) {
        std::vector<ParallelConfig> longer;
        for (const ParallelConfig& grid : grids)
            for (i64 degree = 1, left = ranks / rank_count(grid); degree <= left; ++degree)
                if (left % degree == 0 && (&axis != &grid_axes.back() || degree == left)) {
                    longer.push_back(grid);
                    longer.back().*axis.degree = degree;
                }
        grids = std::move(longer);
    }
    return grids;
}

std::string describe_degrees(const ParallelConfig& config)
{
    std::string text;
    for (const auto& [axis, degree] : named_degrees(config))
        text += str(text.empty() ? "" : " x ", axis, " ", degree);
    return text;
}

std::optional<ScheduleKind> schedule_called(std::string_view name)
{
    const auto& names = names_of_enum<ScheduleKind>;
    const auto at = std::find(names.begin(), names.end(), name);
    return at == names.end() ? std::nullopt : std::optional(static_cast<ScheduleKind>(at - names.begin()));
}

i64 batch_at(const TrainConfig& config, i64 step)
{
    for (const BatchRamp::Stage& stage : config.batch_ramp.stages) {
        if (step <= stage.steps)
            return stage.batch;
        step -= stage.steps;
    }
    return config.global_batch;
}

i64 samples_in(const TrainConfig& config, i64 steps)
{
    i64 samples = 0;
    for (const BatchRamp::Stage& stage : config.batch_ramp.stages) {
        const i64 these = std::min(steps, stage.steps);
        samples += these * stage.batch;
        steps -= these;
    }
    return samples + steps * config.global_batch;
}

std::vector<std::string> axes_in_order(const RunConfig& config)
{
    std::vector<std::string> axes;
    for (const GridAxis& axis : grid_axes)
        if (axis.shards != AxisShards::tokens &&
            (axis.shards != AxisShards::tensors || !config.model.is_program() ||
             std::ranges::count(config.model.program.axes, axis.name) > 0))
            axes.emplace_back(axis.name);
    for (const ProgramAxes::Axis& axis : config.parallel.axes.list)
        axes.push_back(axis.name);
    return axes;
}

i64 common_batch(const TrainConfig& config)
{
    i64 common = config.global_batch;
    for (const BatchRamp::Stage& stage : config.batch_ramp.stages)
        common = std::gcd(common, stage.batch);
    return common;
}

i64 micro_batch(const RunConfig& config)
{
    if (config.train.micro_batch != 0)
        return config.train.micro_batch; // also of evaluations on ranks that do not divide the batch
    const i64 ranks = batch_ranks(config.parallel), batch = common_batch(config.train);
    TRV_EXPECT(batch % ranks == 0, batch, " sequences over ", ranks, " data ranks");
    return batch / ranks;
}

i64 microbatch_count(const RunConfig& config, i64 batch)
{
    return batch / batch_ranks(config.parallel) / micro_batch(config);
}

i64 microbatch_count(const RunConfig& config) { return microbatch_count(config, config.train.global_batch); }

std::vector<std::string> resolve_and_validate(RunConfig& config)
{
    resolve(config.model);
    validate(config.model);
    validate_train(config.train);
    validate(config.data);
    resolve_axes(config.parallel, config.model.program);
    validate_parallel(config.parallel, config.train);
    validate_order(config);
    validate_program(config);
    validate_trained(config);
    validate_stage_layers(config.parallel, config.model.layers);
    require(!config.train.fp8 || config.model.experts == 0, "train.fp8",
            "is not available for mixtures of experts", "set train.fp8 to false", "model.experts is set");
    for (const BatchRamp::Stage& stage : config.train.batch_ramp.stages) {
        const i64 part = stage.batch / batch_ranks(config.parallel);
        require(part % micro_batch(config) == 0, "train.batch_ramp",
                str("has a stage of ", counted(part, "sequence"),
                    " per data rank, no multiple of train.micro_batch = ", micro_batch(config)),
                str("make the batch of each stage a multiple of ",
                    batch_ranks(config.parallel) * micro_batch(config), ", or remove train.micro_batch"));
    }
    const i64 share = config.train.global_batch / batch_ranks(config.parallel);
    require(share % micro_batch(config) == 0, "train.micro_batch",
            str(counted(share, "sequence"), " per data rank ", share == 1 ? "does" : "do",
                " not divide into microbatches of ", micro_batch(config)),
            str("make global_batch a multiple of ", batch_ranks(config.parallel) * micro_batch(config)),
            str("global_batch = ", config.train.global_batch, " on ", describe_degrees(config.parallel)));
    validate_size(config);
    at_least(-1, "data.eos", config.data.eos);
    at_least(0, "checkpoint.every", config.checkpoint.every);
    at_least(0, "checkpoint.keep", config.checkpoint.keep);
    at_least(1, "log.every", config.log.every);
    at_least(0, "log.samples", config.log.samples, 16);
    at_least(0, "log.layer_norms", config.log.layer_norms);
    const std::string& collector = config.log.otlp;
    require(collector.empty() || collector.starts_with("http://") || collector.starts_with("https://"),
            "log.otlp", str("is '", collector, "', not an address"),
            "write it as http://HOST:4318 or https://…");
    validate_best(config);
    at_least(0, "job.restarts", config.job.restarts);
    const double watchdog = config.job.watchdog;
    require(watchdog == 0 || (watchdog >= 2 && watchdog <= 1e6), "job.watchdog",
            str("must be 0 or at least 2 seconds, is ", watchdog), "30 is usual, 0 turns it off");
    return warnings_of(config);
}

} // namespace trivium
