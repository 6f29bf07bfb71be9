#include "config/warnings.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "config/schedules.hpp"
#include "config/trained_parameters.hpp"

#include <algorithm>

namespace trivium {

std::vector<std::string> warnings_of(const RunConfig& config)
{
    std::vector<std::string> warnings;
    const auto warn = [&](bool holds, const char* key, const std::string& problem,
                          const std::string& remedy) {
        if (holds)
            warnings.push_back(str(key, ": ", problem, "; ", remedy));
    };
    const TrainConfig &t = config.train, usual;
    warn(t.warmup > t.steps, "train.warmup",
         str("the warm-up of ", counted(t.warmup, "step"), " is longer than the run of ", t.steps,
             ", which never reaches lr = ", t.lr),
         "lower warmup, or raise train.steps");
    warn(t.warmup >= t.steps && t.min_lr > 0, "train.min_lr",
         str("is ignored: no step follows the warm-up of ", t.warmup),
         "lower train.warmup, or raise train.steps");
    const bool decays = t.schedule == RateSchedule::wsd;
    warn(!decays && (t.decay_steps != 0 || t.decay_shape != usual.decay_shape), "train.decay_steps",
         str("and train.decay_shape are ignored because train.schedule is \"", name_of(t.schedule), "\""),
         "set train.schedule to \"wsd\", or remove them");
    warn(
        decays && t.decay_steps > t.steps - std::min(t.steps, t.warmup), "train.decay_steps",
        str("is ", t.decay_steps, ", more than the steps after the warm-up: the decay begins right after it"),
        "lower decay_steps, or raise train.steps");
    warn(t.schedule == RateSchedule::constant && t.min_lr > 0, "train.min_lr",
         "is ignored because train.schedule is \"constant\"", "remove it, or set train.schedule");
    warn(
        t.schedule == RateSchedule::inverse_sqrt && t.warmup == 0, "train.warmup",
        "is 0: the learning rate of \"inverse-sqrt\" is lr / sqrt(step), a steep descent from the first step",
        "set train.warmup, e.g. to 1 % of the steps");
    const BatchRamp& ramp = t.batch_ramp;
    warn(!ramp.stages.empty() && batch_at(t, t.steps) != t.global_batch, "train.global_batch",
         str("is never reached: train.batch_ramp lasts longer than the run of ", counted(t.steps, "step")),
         "shorten the ramp, or raise train.steps");
    warn(t.optimizer != OptimizerKind::muon && t.momentum != usual.momentum, "train.momentum",
         str("is ignored because train.optimizer is \"", name_of(t.optimizer), "\""),
         "set train.optimizer to \"muon\", or train.beta1 instead");
    warn(t.lr == 0, "train.lr", "is 0: no step changes a weight", "3e-4 is usual");
    warn(t.eval_every > 0 && config.data.valid.empty(), "train.eval_every",
         str("is ", t.eval_every, ", but data.valid is empty: there will be no validation loss"),
         "set data.valid to a token store, or eval_every to 0");
    warn(t.eval_batches > 0 && config.data.valid.empty(), "train.eval_batches",
         str("is ", t.eval_batches, ", but data.valid is empty: there will be no validation loss"),
         "set data.valid to a token store, or eval_batches to 0");
    warn(t.stop_after > t.steps, "train.stop_after",
         str("is ", t.stop_after, ", more than the run's ", counted(t.steps, "step"), ": it has no effect"),
         "lower stop_after, or set it to 0");
    warn(t.spike_z == 0 && t.spike_window != usual.spike_window, "train.spike_window",
         "is ignored because train.spike_z is 0: no step is skipped for its loss",
         "set train.spike_z, e.g. to 6");
    warn(t.lora.rank > 0 && t.init_from.empty(), "train.lora",
         "adapts weights that are random, because train.init_from is empty",
         "set train.init_from to a checkpoint, such as an imported model");
    const i64 largest = largest_adapted(config);
    warn(t.lora.rank > 0 && t.lora.rank >= largest, "train.lora",
         str("has rank = ", t.lora.rank, ", but no matrix that it adapts has more than ", largest,
             " rows or columns, whichever are fewer: A and B are larger than the matrix"),
         "lower the rank, or train these matrices as a whole: train.lora.train");
    warn(t.lora.rank > 0 && !t.freeze.empty() && !freezes_more_than_adapters(config), "train.freeze",
         "has no effect: with train.lora, what it names is frozen anyway", "remove it");
    const bool evaluates = !config.data.valid.empty();
    warn(t.patience > 0 && !evaluates, "train.patience",
         str("is ", t.patience, ", but data.valid is empty: no loss ends the run early"),
         "set data.valid to a token store, or patience to 0");
    warn(t.patience > 0 && evaluates && t.eval_every == 0, "train.patience",
         str("is ", t.patience, ", but train.eval_every is 0: the only evaluation is at the end"),
         "set train.eval_every, or patience to 0");
    warn(!config.checkpoint.best.empty() && !evaluates, "checkpoint.best",
         str("is \"", config.checkpoint.best, "\", but data.valid is empty: no checkpoint is the best"),
         "set data.valid to a token store, or remove the key");
    warn(!config.checkpoint.best.empty() && evaluates && t.eval_every == 0, "checkpoint.best",
         "marks the last checkpoint, because train.eval_every is 0: the only evaluation is at the end",
         "set train.eval_every");
    warn(t.rewind > 0 && config.checkpoint.every == 0, "train.rewind",
         "has no effect because checkpoint.every is 0: there is no checkpoint to go back to",
         "set checkpoint.every");
    warn(t.rewind > 0 && t.max_skipped == 0, "train.rewind",
         "has no effect because train.max_skipped is 0: any number of steps may be skipped",
         "set train.max_skipped, e.g. to 4");
    warn(config.log.layer_norms > t.steps, "log.layer_norms",
         str("is ", config.log.layer_norms, ", more than the run's ", counted(t.steps, "step"),
             ": it has no effect"),
         "lower it, or set it to 0");
    warn(t.lora.rank == 0 && !(t.lora == LoraConfig{}), "train.lora", "is ignored because its rank is 0",
         "set rank, e.g. to 16, or remove the table");
    const std::string& resume = config.checkpoint.resume;
    warn(!t.init_from.empty() && resume != "auto" && resume != "never", "train.init_from",
         str("is ignored because the run resumes from checkpoint.resume = \"", resume, "\""),
         "remove one of the two");
    warn(config.checkpoint.keep == 1, "checkpoint.keep",
         "is 1, but 2 are kept, so that the run can fall back to the previous one", "set it to 2");
    warn(config.log.every > t.steps, "log.every",
         str("is ", config.log.every, ", more than the run's ", counted(t.steps, "step"),
             ": the log shows only the last step"),
         "lower log.every");
    const ParallelConfig& p = config.parallel;
    warn(p.shard > 0 && p.zero == 0, "parallel.shard",
         "is ignored because parallel.zero is 0: without ZeRO nothing is sharded over data ranks",
         "set parallel.zero to 1, 2 or 3, or remove the key");
    warn(p.update == UpdateMode::post_validated && counts_vary(config), "parallel.update",
         config.model.is_program()
             ? "\"post-validated\" makes an update twice where %count is another one than in the step before"
             : "\"post-validated\" makes each update twice, because the losses of some tokens do not count "
               "(data.packing, data.boundary_loss)",
         "set parallel.update to \"synchronous\"");
    warn(p.delay_latency > 0 || p.delay_bandwidth > 0, "parallel.delay_latency",
         "and parallel.delay_bandwidth slow the ranks' transfers down on purpose",
         "remove both keys from a run that is not a measurement");
    warn(p.gather_every != GatherEvery::automatic && p.zero < 3, "parallel.gather_every",
         str("is ignored because parallel.zero is ", p.zero, ": only stage 3 shards what microbatches read"),
         "set parallel.zero to 3, or remove the key");
    warn(p.tile > 0 && (p.zero < 3 || p.gather_every == GatherEvery::step), "parallel.tile",
         "is ignored because microbatches gather no parameters",
         "set parallel.zero to 3 and parallel.gather_every to \"pass\", or remove the key");
    warn(p.reduce_every != ReduceEvery::automatic && p.zero < 2, "parallel.reduce_every",
         str("is ignored because parallel.zero is ", p.zero, ": stages 2 and 3 shard gradients"),
         "set parallel.zero to 2 or 3, or remove the key");
    warn(p.recompute == Recompute::automatic && p.memory_limit == 0, "parallel.recompute",
         "recomputes nothing: \"auto\" recomputes what parallel.memory_limit requires, and that is 0",
         "set parallel.memory_limit, or parallel.recompute to \"selective\" or \"full\"");
    warn(p.recompute_layers > 0 && (p.recompute == Recompute::none || p.recompute == Recompute::automatic),
         "parallel.recompute_layers", str("is ignored because parallel.recompute is ", name_of(p.recompute)),
         "set parallel.recompute to \"selective\" or \"full\", or remove the key");
    warn(p.pipeline == 1 && p.strategy.empty() && p.schedule != ParallelConfig{}.schedule &&
             p.schedule != automatic_schedule,
         "parallel.schedule",
         str("\"", p.schedule,
             "\" makes no step shorter on one pipeline rank (parallel.pipeline is 1); it only "
             "takes more memory"),
         "raise parallel.pipeline, or remove the key");
    const ModelConfig& m = config.model;
    warn(m.positions == Positions::learned && m.rope_theta != ModelConfig{}.rope_theta, "model.rope_theta",
         str("is ignored: the ", name_of(m.family), " model has learned positions, not rotary embeddings"),
         "remove the key");
    warn(m.local_rope_theta > 0 && m.window == 0, "model.local_rope_theta", "is ignored: no layer is sliding",
         "remove the key, or set model.window");
    // Files that programs write have all keys; one that has its default is no mistake.
    const auto is_set = [&](const char* key, bool differs) { return differs && config.given.contains(key); };
    const ModelConfig plain;
    if (!m.is_program() && m.experts == 0)
        for (const auto& [key, differs] : std::initializer_list<std::pair<const char*, bool>>{
                 {"model.expert_slots", m.expert_slots != plain.expert_slots},
                 {"model.expert_dim", m.expert_dim != plain.expert_dim},
                 {"model.shared_dim", m.shared_dim != plain.shared_dim},
                 {"model.dense_layers", m.dense_layers != plain.dense_layers},
                 {"model.router_bias", m.router_bias != plain.router_bias},
                 {"model.router_scores", m.router_scores != plain.router_scores},
                 {"model.router_normalised", m.router_normalised != plain.router_normalised},
                 {"model.router_scale", m.router_scale != plain.router_scale},
                 {"model.router_groups", m.router_groups != plain.router_groups},
                 {"model.router_top_groups", m.router_top_groups != plain.router_top_groups},
                 {"model.router_group_score", m.router_group_score != plain.router_group_score},
                 {"model.balance_bias", m.balance_bias != plain.balance_bias},
                 {"model.expert_capacity", m.expert_capacity != plain.expert_capacity},
                 {"train.balance_loss", t.balance_loss != usual.balance_loss},
                 {"train.router_z_loss", t.router_z_loss != usual.router_z_loss}})
            warn(is_set(key, differs), key, "is ignored because model.experts is 0",
                 "remove the key, or set model.experts");
    warn(is_set("train.balance_rate", t.balance_rate != usual.balance_rate) &&
             !(m.experts > 0 && m.balance_bias),
         "train.balance_rate", "is ignored: routers have no bias that balances their experts",
         "remove the key, or set model.experts and model.balance_bias");
    warn(m.experts > 0 && m.balance_bias && t.balance_rate == 0, "train.balance_rate",
         "is 0: model.balance_bias stays as it is", "1e-3 is usual");
    warn(m.experts > 0 && m.router_normalised && m.expert_slots == 1, "model.router_normalised",
         "makes the weight of each token's one expert 1: the router learns nothing from the loss",
         "set it to false, or raise model.expert_slots");
    warn(p.expert == 1 && p.expert_buffer > 0, "parallel.expert_buffer",
         "is ignored: no rows travel between ranks", "remove the key, or set parallel.expert");
    warn(p.expert_overflow == ExpertOverflow::drop && (p.expert == 1 || p.expert_buffer == 0),
         "parallel.expert_overflow", "is ignored: every row has a place",
         "remove the key, or set parallel.expert_buffer");
    return warnings;
}

} // namespace trivium
