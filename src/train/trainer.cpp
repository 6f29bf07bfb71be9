#include "train/trainer.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "io/config_file.hpp"
#include "io/files.hpp"
#include "io/hash.hpp"
#include "passes/optimizer.hpp"
#include "plan/cost.hpp"
#include "runtime/initialise.hpp"
#include "runtime/trace.hpp"
#include "train/command.hpp"
#include "train/describe.hpp"
#include "train/grid_report.hpp"
#include "train/loss_spikes.hpp"
#include "train/run_commands.hpp"

#include <bit>
#include <cmath>
#include <fmt/format.h>
#include <memory>
#include <numbers>
#include <sys/resource.h>
#include <unistd.h>

namespace trivium {

namespace {

// Of the flags that ranks agree on. The numbers of signals lie below, the saver's above.
constexpr u64 time_is_up = u64{1} << 38, demand = u64{1} << 39;
constexpr u64 stop_bits = demand - 1;

TokenStore open_store(const char* key, const std::string& path, const RunConfig& config)
{
    TokenStore store = TokenStore::open(path);
    if (store.vocab() > config.model.vocab)
        throw UserError({path, str("has a vocabulary of ", store.vocab(), " tokens, the model one of ", config.model.vocab),
                         "token ids would lie outside the model's tables", str("set model.vocab to ", store.vocab(), " or more")});
    if (window_count(store.size(), config.model.seq) == 0)
        throw UserError({path, str("has ", store.size(), " tokens, less than one sample of ", config.model.seq, " + 1"),
                         str("model.seq = ", config.model.seq), str("give ", key, " more text, or lower model.seq")});
    return store;
}

} // namespace

double learning_rate(const TrainConfig& c, i64 step)
{
    if (step <= c.warmup)
        return c.lr * static_cast<double>(step) / static_cast<double>(c.warmup);
    const double span = static_cast<double>(std::max<i64>(1, c.steps - c.warmup));
    const double done = std::min(1.0, static_cast<double>(step - c.warmup) / span);
    return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + std::cos(std::numbers::pi * done));
}

Trainer::Trainer(RunConfig config, const std::string& build, Comm& world, std::optional<LaunchLog>& launches, const RunSignals& signals)
    : config_(std::move(config)), build_(build), world_(world), grid_(world, mesh_of(config_.parallel), node_name()),
      threads_(thread_count(config_.parallel, ranks_on_same_cores(grid_))),
      computing_(threads_, &grid_), machine_(machine_of(computing_))
{
    succeed_together(world_, [&] {
        open_data();
        if (is_chief())
            begin_launch(launches, signals);
    });
    if (agree(world_, is_chief() && config_.checkpoint.resume == "auto") != 0)
        config_.checkpoint.resume = "auto";
    require_same_data(world_, config_.data.train, *train_);
    if (valid_)
        require_same_data(world_, config_.data.valid, *valid_);
    require_shared_folder(world_, config_.checkpoint.dir);
    succeed_together(world_, [&] {
        CompileConfig options;
        options.machine = machine_;
        options.rank = world_.rank();
        compiled_ = compile_training(config_, options);
    });
    require_free_memory(grid_, computing_.address(), compiled_.memory.arena + (machine_.is_device ? 0 : compiled_.memory.snapshot));
    succeed_together(world_, [&] { arena_.emplace(compiled_.memory.arena); });
    ExecutorConfig executor;
    executor.threads = threads_;
    executor.red_zone = contracts_on ? 256 : 0;
    executor.trace = !config_.log.trace.empty();
    executor.overlap = config_.parallel.overlap;
    executor.graphs = config_.parallel.graphs;
    executor.deterministic = config_.parallel.deterministic;
    // Not together: making one takes the other ranks along on devices, and one that fails must not wait for them first.
    const Program& train = compiled_.programs[train_program];
    executor_.emplace(train.graph, train.schedule, *arena_, executor, &grid_);
    inputs_ = input_boxes(train.graph);
    if (valid_)
        evaluator_.emplace(compiled_.programs[eval_program], *arena_, executor, &grid_);
    flops_ = compiled_.flops;
    restore_or_initialise();
    succeed_together(world_, [&] {
        if (!is_chief())
            return;
        note_restored(*launches);
        metrics_.emplace(config_.log.dir, state_.step);
        time_ = std::make_unique<JobTime>(job_);
        if (job_.end || !job_.id.empty()) {
            visit_metrics(config_.log.dir, [&](const MetricsRecord& record) {
                if (record.has("checkpoint_seconds"))
                    longest_save_ = record.value("checkpoint_seconds"); // the newest
            });
            if (job_.end)
                most_lead_ = job_.left() / 2;
        }
    });
}

namespace {

/// Whether the newest checkpoint of `dir` that can be read is of job `job`.
bool has_saved(const std::string& dir, const std::string& job)
{
    for (const std::string& name : list_checkpoints(dir))
        try {
            return CheckpointReader::open(dir + "/" + name).state().job == job;
        } catch (const Error&) { // as it will be told in the restore
        }
    return false;
}

} // namespace

void Trainer::begin_launch(std::optional<LaunchLog>& launches, const RunSignals& signals)
{
    CheckpointConfig& c = config_.checkpoint;
    probe_folder(c.dir);
    // The ranks of the start before may outlive it by a minute, their locks on a file server by 90 s.
    lock_.emplace(c.dir, job_.restart > 0 ? LockPatience{.limit = 120, .stopped = [&] { return signals.stop() != 0; }} : LockPatience{});
    if (c.resume != "auto" && job_.restart > 0 && has_saved(c.dir, job_.id)) {
        log_info(str("checkpoint.resume is \"", c.resume, "\", but job ", job_.id, " was put back after it had saved: it goes on from that"));
        c.resume = "auto";
    }
    if (!config_.log.trace.empty())
        write_file(config_.log.trace, "");
    Launch launch;
    launch.job = job_.id;
    launch.restart = job_.restart;
    launch.ranks = world_.size();
    launch.nodes = grid_.nodes();
    launch.grid = describe_grid(config_.parallel);
    launch.model = describe_model(config_);
    launch.steps = config_.train.steps;
    launch.from = c.resume == "never" ? 0 : checkpoint_step(newest_checkpoint(c.resume == "auto" ? c.dir : c.resume));
    require_progress(read_launches(config_.log.dir), launch.from);
    launches.emplace(config_.log.dir, launch);
}

void Trainer::note_restored(LaunchLog& launch) const
{
    if (launch.from() == state_.step)
        return;
    std::vector<Launch> before = read_launches(config_.log.dir);
    if (!before.empty())
        before.pop_back(); // this one
    launch.restored(state_.step);
    require_progress(before, state_.step);
}

void Trainer::require_progress(const std::vector<Launch>& before, i64 step) const
{
    if (job_.restart > 0 && makes_no_progress(before, job_.id, step, config_.job.restarts))
        throw IoError({str("job ", job_.id), str("has begun ", config_.job.restarts, " times in a row at step ", step, " and saved nothing later"),
                       "restarting it once more would not help", str("see in its log, and in ", config_.log.dir, "/launches.jsonl, how these launches ended; "
                       "job.restarts sets how many are tried")});
}

void Trainer::open_data()
{
    if (config_.log.dir.empty() || config_.checkpoint.dir.empty())
        throw UserError({config_.log.dir.empty() ? "log.dir" : "checkpoint.dir", "is empty", "a run needs a folder for it", "name one"});
    if (config_.data.train.empty())
        throw UserError({"data.train", "is not given", "training needs a token store",
                         "make one with `trivium data tokenize TEXT --output train.h5` and set data.train"});
    train_.emplace(open_store("data.train", config_.data.train, config_));
    if (!config_.data.valid.empty())
        valid_.emplace(open_store("data.valid", config_.data.valid, config_));
    require_tokenizer(config_.data, *train_);
    verify_at_start(*train_, grid_.local_rank(), grid_.local_ranks());
    if (valid_)
        verify_at_start(*valid_, grid_.local_rank(), grid_.local_ranks());
    order_.emplace(window_count(train_->size(), config_.model.seq), static_cast<u64>(config_.train.seed));
    if (valid_ && valid_->fingerprint() != train_->fingerprint())
        throw UserError({config_.data.valid, "was made with another tokenizer than " + config_.data.train,
                         valid_->fingerprint() + " and " + train_->fingerprint(), "tokenize both with the same one"});
    if (valid_ && is_chief() && valid_->size() == train_->size() && valid_->tokens_hash() == train_->tokens_hash())
        log_warning(str("data.valid (", config_.data.valid, ") has the same tokens as data.train (", config_.data.train,
                        "): the validation loss will be that of the training text; `trivium data tokenize --valid` holds text out"));
}

void Trainer::restore_or_initialise()
{
    const Program& train = compiled_.programs[train_program];
    const auto seed = static_cast<std::uint64_t>(config_.train.seed);
    saved_ = saved_tensors(compiled_, *arena_);
    const Seconds begin = now();
    Activity::of_process().enter("the read of a checkpoint");
    const auto path = restore_newest(world_, config_.checkpoint, [&](const CheckpointReader& checkpoint) { resume(checkpoint); });
    if (path) {
        if (state_.seed != config_.train.seed)
            log_warning(str("train.seed is ", config_.train.seed, ", the checkpoint's run had ", state_.seed, ": the order of samples changes from here on"));
        log_info(str("resuming from ", *path, " at step ", state_.step, state_.grid.empty() || state_.ranks <= 1 ? "" : str(", saved by ", state_.grid), "; read and verified in ",
                     format_seconds(now() - begin)));
    } else {
        succeed_together(world_, [&] { initialise(train.graph, train.schedule, *arena_, seed, threads_); });
        if (const std::string& source = config_.train.init_from; !source.empty())
            log_info("weights from " + restore_from(world_, source, [&](const CheckpointReader& checkpoint) { restore_parameters(checkpoint, train, *arena_); }));
    }
    first_step_ = state_.step;
    succeed_together(world_, [&] { // only now: a start that fails moves nothing away, and nobody reads any more
        if (is_chief())
            supersede_checkpoints(config_.checkpoint.dir, state_.step);
    });
    state_.seed = config_.train.seed;
    state_.config = to_toml(config_);
    state_.build = build_;
    state_.job = job_.id;
    state_.tokenizer = train_->fingerprint();
    state_.grid = describe_grid(config_.parallel);
    state_.ranks = world_.size();
    state_.machine = machine_.name;
    state_.cost_table = hex(hash_bytes(to_text(machine_)));
    const i64 least_kept = 2; // should the newest turn out to be bad
    const CheckpointConfig& c = config_.checkpoint;
    const bool snapshot = saves_from_snapshot(config_, machine_);
    saver_.emplace(world_, SaverConfig{c.dir, c.keep == 0 ? 0 : std::max(c.keep, least_kept), snapshot, snapshot && c.async, [this] { metrics_->sync(); }}, saved_);
}

void Trainer::resume(const CheckpointReader& checkpoint)
{
    const Program& train = compiled_.programs[train_program];
    require_same_model(checkpoint, config_);
    restore(checkpoint, train, saved_);
    initialise(train.graph, train.schedule, *arena_, static_cast<std::uint64_t>(config_.train.seed), threads_, Role::constant);
    state_ = checkpoint.state();
    if (state_.tokenizer != train_->fingerprint())
        throw UserError({checkpoint.path(), "was trained with another tokenizer than " + config_.data.train,
                         state_.tokenizer + " and " + train_->fingerprint(), "train on data of the same tokenizer"});
    saved_step_ = state_.step;
}

Bytes Trainer::used_bytes() const
{
    if constexpr (contracts_on) // what was really written to, not what Steps were given
        return arena_->high_water();
    return std::max(executor_->used(), evaluator_ ? evaluator_->executor().used() : Bytes{0});
}

Flops Trainer::peak_flops() const
{
    const double each = config_.train.precision == Precision::bf16  ? machine_.flops_bf16
                        : config_.train.precision == Precision::f64 ? machine_.flops_f64
                                                                    : machine_.flops_f32;
    return each * static_cast<double>(machine_.workers(threads_)) * world_.size();
}

void Trainer::announce() const
{
    const std::vector<std::string> grid_lines = grid_report(grid_, config_, compiled_);
    if (!is_chief())
        return;
    const i64 samples = window_count(train_->size(), config_.model.seq);
    log_info("model    " + describe_model(config_));
    log_info(fmt::format("data     {} tokens, {} samples; {} a step; {:.2f} epochs in {} steps", format_count(train_->size()),
                         format_count(samples), config_.train.global_batch,
                         static_cast<double>(config_.train.steps * config_.train.global_batch) / static_cast<double>(samples),
                         config_.train.steps));
    for (const std::string& line : grid_lines)
        log_info(line);
    log_info(fmt::format("memory   arena {} ({} bytes){}: {} kept over the run, {} within a step{}", format_bytes(compiled_.memory.arena),
                         compiled_.memory.arena, world_.size() > 1 ? " of rank 0" : "", format_bytes(compiled_.memory.kept),
                         format_bytes(compiled_.memory.transient),
                         compiled_.memory.snapshot == 0 ? "" : str("; ", format_bytes(compiled_.memory.snapshot), " of snapshot beside it")));
    const std::string each = machine_.is_device ? computing_.device() : str(threads_, " thread(s)");
    log_info(fmt::format("compute  {} rank(s) x {}, {} microbatches of {}, {} model flops a step; MFU against {}FLOP/s of '{}'",
                         world_.size(), each, microbatch_count(config_), micro_batch(config_), format_si(flops_), format_si(peak_flops()),
                         machine_.name));
}

std::string Trainer::why_skipped(double loss, double norm)
{
    const TrainConfig& t = config_.train;
    if (!std::isfinite(loss) || !std::isfinite(norm))
        return str("its ", std::isfinite(loss) ? "gradient norm" : "loss", " is not finite");
    if (t.spike_z == 0)
        return "";
    std::vector<double>& recent = state_.recent_losses;
    if (is_spike(recent, loss, t.spike_z)) {
        if (state_.skipped_in_row < most_spikes)
            return fmt::format("its loss {:.4f} stands out from the last {} (train.spike_z = {})", loss, recent.size(), t.spike_z);
        recent.clear();
    }
    recent.push_back(loss);
    if (static_cast<i64>(recent.size()) > t.spike_window)
        recent.erase(recent.begin(), recent.end() - t.spike_window);
    return "";
}

Trainer::StepResult Trainer::train_step()
{
    const Seconds begin = now();
    Activity::of_process().enter(str("step ", state_.step + 1));
    const TrainConfig& t = config_.train;
    const i64 batch = micro_batch(config_) * config_.parallel.data; // rows of a microbatch over all data ranks
    const auto updates = static_cast<double>(state_.updates + 1);
    const double hyper[hyper_count] = {learning_rate(t, state_.step + 1),       t.beta1, t.beta2, t.eps,
                                       1 - std::pow(t.beta1, updates), 1 - std::pow(t.beta2, updates)};
    executor_->run_until_decision([&](const Value& value, i64 microbatch, void* destination) {
        if (value.role == Role::hyper)
            std::copy(hyper, hyper + hyper_count, static_cast<double*>(destination));
        else {
            const Box& box = inputs_.at(value.name);
            for (i64 row = 0; row < box.shape[0]; ++row)
                fill_row(value, row, *train_, order_->at(state_.samples + microbatch * batch + box.offset[0] + row), destination);
        }
    });
    StepResult result;
    const double tokens = executor_->fetched("totals", total_tokens);
    result.loss = executor_->fetched("totals", total_loss) / tokens;
    result.norm = executor_->fetched("global_norm", 0);
    result.tokens = static_cast<i64>(tokens);
    result.skipped = why_skipped(result.loss, result.norm);
    saver_->wait_for_snapshot();
    const bool updates_now = result.skipped.empty();
    if (updates_now)
        executor_->run_after_decision();
    state_.step += 1;
    state_.updates += updates_now ? 1 : 0;
    state_.skipped_in_row = updates_now ? 0 : state_.skipped_in_row + 1;
    state_.samples += t.global_batch;
    state_.tokens += result.tokens;
    result.seconds = now() - begin;
    return result;
}

void Trainer::report(const StepResult& r, MetricsRecord& record)
{
    const double tokens_per_second = static_cast<double>(r.tokens) / r.seconds;
    const double mfu = flops_ / r.seconds / peak_flops();
    const double lr = learning_rate(config_.train, state_.step);
    record.step = state_.step;
    record.set("loss", r.loss);
    record.set("grad_norm", r.norm);
    record.set("lr", lr);
    record.set("tokens", static_cast<double>(state_.tokens));
    record.set("tokens_per_second", tokens_per_second);
    record.set("step_seconds", r.seconds);
    record.set("mfu", mfu);
    record.set("memory_bytes", static_cast<double>(largest_used_));
    record.set("planned_bytes", static_cast<double>(largest_planned_));
    record.set("ranks", world_.size());
    record.set("time", unix_now());
    if (const Seconds exposed = executor_->exposed(); world_.size() > 1 && exposed >= 0)
        record.set("exposed_comm_seconds", exposed);
    if (!r.skipped.empty()) {
        record.set("skipped", 1);
        log_warning(str("step ", state_.step, " skipped: ", r.skipped, "; parameters stay as they are"));
    }
    const Seconds paused = time_ ? time_->paused() : 0;
    step_times_.add(std::max(0.0, r.seconds - (paused - paused_)));
    paused_ = paused;
    step_seconds_ = step_seconds_ == 0 ? r.seconds : 0.9 * step_seconds_ + 0.1 * r.seconds;
    train_seconds_ += r.seconds;
    last_loss_ = r.loss;
    const int width = static_cast<int>(std::to_string(config_.train.steps).size());
    const std::string line = fmt::format(
        "step {:>{}}/{}  loss {:.4f}  norm {:.3f}  lr {:.2e}  {:>7} tok/s  MFU {:4.1f} %  left {}", state_.step, width,
        config_.train.steps, r.loss, r.norm, lr, format_si(tokens_per_second), 100 * mfu,
        format_seconds(step_seconds_ * static_cast<double>(config_.train.steps - state_.step)));
    if (state_.step % config_.log.every == 0 || state_.step == config_.train.steps)
        log_info(line);
    else
        log_progress(line);
}

bool Trainer::evaluation_is_due() const
{
    const TrainConfig& t = config_.train;
    return valid_ && state_.step > 0 && (state_.step == t.steps || (t.eval_every > 0 && state_.step % t.eval_every == 0));
}

u64 Trainer::evaluate(MetricsRecord& record, const RunSignals& signals)
{
    Activity::of_process().enter(str("the evaluation after step ", state_.step));
    u64 stop = 0;
    const Evaluation e = evaluator_->run(*valid_, config_.train.eval_batches * config_.train.global_batch, [&] {
        stop = agree(world_, stop_requests(signals));
        return stop != 0;
    });
    if (stop != 0) {
        log_info(str("evaluation after step ", state_.step, " given up: ", describe_stop(stop), "; the next launch makes up for it"));
        return stop;
    }
    if (last_valid_loss_ < 0) // the first one in this launch
        note_memory();
    last_valid_loss_ = e.loss;
    record.set("valid_loss", e.loss);
    log_info(fmt::format("step {}  validation loss {:.4f}  perplexity {:.2f}  ({} tokens)", state_.step, e.loss,
                         std::exp(e.loss), format_count(e.tokens)));
    return 0;
}

bool Trainer::owes_evaluation()
{
    std::optional<MetricsRecord> record;
    if (is_chief() && evaluation_is_due())
        record = metrics_->last();
    return agree(world_, record && record->step == state_.step && !record->has("valid_loss")) != 0;
}

u64 Trainer::catch_up_on_evaluation(const RunSignals& signals)
{
    MetricsRecord record = is_chief() ? metrics_->last().value() : MetricsRecord{};
    const u64 stop = evaluate(record, signals);
    if (stop == 0 && is_chief())
        metrics_->replace_last(record);
    return stop;
}

u64 Trainer::stop_requests(const RunSignals& signals) const
{
    const bool late = is_chief() && time_->is_over(lead());
    return (signals.stop() ? u64{1} << signals.stop() : 0) | (late ? time_is_up : 0);
}

std::string Trainer::describe_stop(u64 requests) const
{
    std::string text = (requests & time_is_up) != 0 ? "the job's time limit" : "";
    for (int number = 1; number < std::countr_zero(time_is_up); ++number)
        if ((requests >> number & 1) != 0)
            text += str(text.empty() ? "" : ", ", "signal ", name_of_signal(number));
    return text;
}

Seconds Trainer::lead() const
{
    const Seconds margin = 10;
    const double slow_disk = 200e6; // bytes a second, before a save was measured
    Bytes bytes = 0;
    for (const SavedTensor& tensor : saved_)
        bytes += tensor.written();
    const Seconds save = longest_save_ > 0 ? longest_save_ : static_cast<double>(bytes) * grid_.local_ranks() / slow_disk;
    const Seconds lead = margin + 2 * (save + step_times_.usual()); // one of each may just have begun
    return std::min(lead, saves_seen_ > 0 ? lead : most_lead_); // a guess must not take the whole of a short job
}

void Trainer::save()
{
    if (saved_step_ == state_.step)
        return;
    Activity::of_process().enter(str("the save of step ", state_.step));
    paused_at_save_ = paused_;
    saver_->start(state_);
    saved_step_ = state_.step;
}

bool Trainer::take_demand() const
{
    return is_chief() && ::unlink((config_.checkpoint.dir + "/save-now").c_str()) == 0;
}

int Trainer::run(const RunSignals& signals)
{
    announce();
    const TrainConfig& t = config_.train;
    if (state_.step >= t.steps)
        log_info(str("the run is complete: ", state_.step, " of ", t.steps, " steps; raise train.steps to go on"));
    const i64 last = t.stop_after > 0 ? std::min(t.steps, state_.step + t.stop_after) : t.steps;
    u64 stop = agree(world_, stop_requests(signals)); // any rank's request stops all
    bool evaluated = !owes_evaluation();
    if (!evaluated && stop == 0) {
        stop = catch_up_on_evaluation(signals);
        evaluated = stop == 0;
    }
    while (stop == 0 && state_.step < last) {
        const StepResult result = train_step();
        if (state_.step == first_step_ + 1)
            note_memory();
        MetricsRecord record;
        report(result, record);
        const bool demanded = signals.take_demand() || take_demand();
        const u64 agreed = agree(world_, stop_requests(signals) | (demanded ? demand : 0) | saver_->flags());
        stop = agreed & stop_bits;
        saver_->advance(agreed);
        evaluated = !evaluation_is_due();
        if (!evaluated && stop == 0) {
            stop = evaluate(record, signals);
            evaluated = stop == 0;
        }
        if (const Saver::Times times = saver_->take_times(); times.whole > 0) { // of the save before: this step's line is written before its own
            record.set("checkpoint_seconds", times.whole);
            record.set("checkpoint_stall_seconds", times.stall);
            const Seconds whole = std::max(0.0, times.whole - (paused_ - paused_at_save_)); // suspended, a job saves nothing
            longest_save_ = saves_seen_++ > 0 ? std::max(longest_save_, whole) : whole;
        }
        // The line first: a crash in between leaves one line too many, which the next launch moves aside.
        if (is_chief())
            metrics_->write(record);
        if (t.max_skipped > 0 && state_.skipped_in_row >= t.max_skipped)
            succeed_together(world_, [&] {
                throw IoError({str("step ", state_.step), str("is the ", state_.skipped_in_row, "th in a row that was skipped"), "the run learns nothing any more",
                               "go on from an earlier checkpoint (checkpoint.resume = its path) with a lower train.lr; train.max_skipped sets how many are let pass"});
            });
        if (stop != 0 || (agreed & demand) != 0 || state_.step == last || (config_.checkpoint.every > 0 && state_.step % config_.checkpoint.every == 0))
            save();
    }
    if (stop != 0 && (state_.step < t.steps || !evaluated)) {
        save(); // where the request came before the first step
        saver_->finish();
        ending_ = describe_stop(stop);
        if ((stop & time_is_up) == 0 && is_chief() && job_.end && job_.left() < most_lead_)
            ending_ += ", late in the job's time";
        log_info(str("stopped on ", describe_stop(stop), " after step ", state_.step, "; start again to go on"));
        return 75;
    }
    Activity::of_process().enter("the end");
    saver_->finish();
    write_trace();
    summarise();
    ending_ = state_.step < t.steps ? "train.stop_after" : "done";
    return 0;
}

void Trainer::note_memory()
{
    for (const u64 used : gather_numbers(world_, static_cast<u64>(used_bytes())))
        largest_used_ = std::max(largest_used_, static_cast<Bytes>(used));
    for (const u64 planned : gather_numbers(world_, static_cast<u64>(planned_bytes())))
        largest_planned_ = std::max(largest_planned_, static_cast<Bytes>(planned));
}

void Trainer::write_trace() const
{
    if (config_.log.trace.empty() || state_.step == first_step_)
        return;
    const Program& train = compiled_.programs[train_program];
    const Timeline& timeline = executor_->timeline();
    // On one node the ranks' clocks are the same one; elsewhere each begins at its own first Step.
    const Seconds begin = timeline.spans.front().begin;
    Seconds start = begin;
    for (const std::string& theirs : gather_texts(world_, fmt::format("{:.9f}", begin)))
        start = grid_.nodes() == 1 ? std::min(start, std::stod(theirs)) : start;
    const std::vector<std::string> events = gather_to_first(world_, trace_events(train.graph, train.schedule, timeline, world_.rank(), start));
    if (!is_chief())
        return;
    write_file(config_.log.trace, trace_json(events));
    log_info("trace    " + config_.log.trace + " holds the last step; open it in Perfetto or chrome://tracing");
}

void Trainer::summarise() const
{
    const i64 steps = state_.step - first_step_;
    std::string unlike; // ranks that did not use what was planned
    const std::vector<std::string> memory = gather_to_first(world_, str(planned_bytes(), " bytes, ", used_bytes() == planned_bytes() ? "" : str("used ", used_bytes(), " bytes")));
    if (!is_chief())
        return;
    for (std::size_t rank = 1; rank < memory.size(); ++rank)
        if (!memory[rank].ends_with(", "))
            unlike += str("; rank ", rank, ": ", memory[rank]);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    log_info("");
    log_info(fmt::format("done     {} of {} steps ({} in this launch), {} tokens", state_.step, config_.train.steps, steps,
                         format_count(state_.tokens)));
    if (steps > 0) {
        const double tokens = static_cast<double>(steps * config_.train.global_batch * config_.model.seq);
        log_info(fmt::format("loss     {:.4f}{}", last_loss_, last_valid_loss_ >= 0 ? fmt::format(", validation {:.4f}", last_valid_loss_) : ""));
        log_info(fmt::format("speed    {} tokens/s, {} a step, MFU {:.1f} %", format_si(tokens / train_seconds_),
                             format_seconds(train_seconds_ / static_cast<double>(steps)),
                             100 * flops_ * static_cast<double>(steps) / train_seconds_ / peak_flops()));
    }
    log_info(fmt::format("memory   arena planned {} bytes, {}{}; process peak {}", planned_bytes(),
                         steps > 0 ? fmt::format("used {} bytes", used_bytes()) : "no step was run",
                         steps == 0 || world_.size() == 1 ? "" : unlike.empty() ? str("; the others used what was planned too") : unlike,
                         format_bytes(Bytes{usage.ru_maxrss} * 1024)));
    if (const DeviceMemory device = computing_.memory(); device.total > 0)
        log_info(fmt::format("device   {} bytes of its memory are taken: the arena, and {} of driver, libraries and others who use it; the plan states {}",
                             device.total - device.free, format_bytes(device.total - device.free - planned_bytes()), format_bytes(compiled_.memory.process)));
    log_info("metrics  " + metrics_->path());
}

} // namespace trivium
