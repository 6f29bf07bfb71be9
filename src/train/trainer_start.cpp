// From the config to the state from which the first step begins: data, folders, launch, restore.
#include "train/trainer.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "compile/describe.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "io/files/hash.hpp"
#include "runtime/initialise.hpp"
#include "train/disk_space.hpp"
#include "train/inputs.hpp"

#include <fmt/format.h>

namespace trivium {

namespace {

TokenStore open_store(const char* key, const std::string& path, const RunConfig& config)
{
    TokenStore store = TokenStore::open(path);
    if (store.vocab() > config.model.vocab)
        throw UserError(
            {path,
             str("has a vocabulary of ", store.vocab(), " tokens, the model one of ", config.model.vocab),
             "token ids would lie outside the model's tables",
             str("set model.vocab to ", store.vocab(), " or more")});
    if (window_count(store.size(), config.model.seq) == 0)
        throw UserError(
            {path, str("has ", store.size(), " tokens, less than one sample of ", config.model.seq, " + 1"),
             str("model.seq = ", config.model.seq), str("give ", key, " more text, or lower model.seq")});
    return store;
}

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

void Trainer::begin_launch(const RunLinks& links)
{
    CheckpointConfig& c = config_.checkpoint;
    // The ranks of the start before may outlive it by a minute, their locks on a file server by 90 s.
    folders_.emplace(c.dir, config_.log.dir,
                     job_.restart > 0
                         ? LockPatience{.limit = 120, .stopped = [&] { return links.signals.stop() != 0; }}
                         : LockPatience{});
    if (c.resume != "auto" && job_.restart > 0 && has_saved(c.dir, job_.id)) {
        log_info(str("checkpoint.resume is \"", c.resume, "\", but job ", job_.id,
                     " was put back after it had saved: it goes on from that"));
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
    launch.from =
        c.resume == "never" ? 0 : checkpoint_step(newest_checkpoint(c.resume == "auto" ? c.dir : c.resume));
    require_progress(read_launches(config_.log.dir), launch.from);
    links.launches.emplace(config_.log.dir, launch);
    if (links.guard)
        links.guard->launch_began(config_.log.dir);
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
        throw IoError({str("job ", job_.id),
                       str("has begun ", config_.job.restarts, " times in a row at step ", step,
                           " and saved nothing later"),
                       "restarting it once more would not help",
                       str("see in its log, and in ", config_.log.dir,
                           "/launches.jsonl, how these launches ended; "
                           "job.restarts sets how many are tried")});
}

void Trainer::open_data()
{
    if (config_.log.dir.empty() || config_.checkpoint.dir.empty())
        throw UserError({config_.log.dir.empty() ? "log.dir" : "checkpoint.dir", "is empty",
                         "a run needs a folder for it", "name one"});
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
                         valid_->fingerprint() + " and " + train_->fingerprint(),
                         "tokenize both with the same one"});
    if (valid_ && is_chief() && valid_->content() == train_->content())
        log_warning(str("data.valid (", config_.data.valid, ") has the same tokens as data.train (",
                        config_.data.train,
                        "): the validation loss will be that of the training text; `trivium data tokenize "
                        "--valid` holds text out"));
}

void Trainer::restore_or_initialise(StartGuard* guard)
{
    const Program& train = compiled_.programs[train_program];
    const auto seed = static_cast<std::uint64_t>(config_.train.seed);
    saved_ = saved_tensors(compiled_, *arena_);
    const Seconds begin = now();
    Activity::of_process().enter("the read of a checkpoint");
    const auto path = restore_newest(world_, config_.checkpoint,
                                     [&](const CheckpointReader& checkpoint) { resume(checkpoint); });
    if (path) {
        resumed_ = *path;
        log_info(str("resuming from ", *path, " at step ", state_.step,
                     state_.grid.empty() || state_.ranks <= 1 ? "" : str(", saved by ", state_.grid),
                     "; read and verified in ", format_seconds(now() - begin)));
        std::vector<std::string> changes;
        succeed_together(world_, [&] {
            changes = changes_since(state_, config_, train_->content(), valid_ ? valid_->content() : "");
        });
        for (const std::string& change : changes)
            log_warning(change);
    } else {
        succeed_together(world_, [&] { initialise(train.graph, train.schedule, *arena_, seed, threads_); });
        if (const std::string& source = config_.train.init_from; !source.empty())
            log_info("weights from " + restore_from(world_, source, [&](const CheckpointReader& checkpoint) {
                         begin_from(checkpoint);
                     }));
    }
    const CheckpointConfig& c = config_.checkpoint;
    const bool snapshot = saves_from_snapshot(config_, machine_);
    saver_.emplace(
        world_,
        SaverConfig{c.dir, kept_checkpoints(), snapshot, snapshot && c.async, [this] { metrics_->sync(); }},
        saved_);
    require_space(); // what a killed save has left is gone by now
    first_step_ = state_.step;
    if (guard)
        guard->release();
    agree(world_, 0); // no rank may still end the run when rank 0 moves checkpoints
    succeed_together(world_,
                     [&] { // only now: a start that fails moves nothing away, and nobody reads any more
                         if (is_chief())
                             supersede_checkpoints(config_.checkpoint.dir, state_.step);
                     });
    state_.seed = config_.train.seed;
    state_.config = to_toml(config_);
    state_.build = build_;
    state_.job = job_.id;
    state_.tokenizer = train_->fingerprint();
    state_.data = train_->content();
    state_.valid = valid_ ? valid_->content() : "";
    state_.grid = describe_grid(config_.parallel);
    state_.ranks = world_.size();
    state_.machine = machine_.name;
    state_.cost_table = hex(hash_bytes(to_text(machine_)));
}

i64 Trainer::kept_checkpoints() const
{
    const i64 least = 2; // should the newest turn out to be bad
    return config_.checkpoint.keep == 0 ? 0 : std::max(config_.checkpoint.keep, least);
}

void Trainer::require_space()
{
    Bytes own = 0;
    for (const SavedTensor& tensor : saved_)
        own += tensor.written();
    SavesToCome saves;
    for (const u64 bytes : gather_numbers(world_, static_cast<u64>(own)))
        saves.bytes += static_cast<Bytes>(bytes);
    const CheckpointConfig& c = config_.checkpoint;
    const i64 steps = config_.train.steps - state_.step;
    saves.count = steps <= 0 ? 0 : c.every > 0 ? ceil_div(steps, c.every) : 1;
    saves.keep = kept_checkpoints();
    succeed_together(world_, [&] {
        if (!is_chief())
            return;
        saves.kept_before = static_cast<i64>(list_checkpoints(c.dir).size());
        if (const std::string warning = judge_space(c.dir, free_space(c.dir), saves); !warning.empty())
            log_warning(warning);
    });
}

void Trainer::begin_from(const CheckpointReader& checkpoint)
{
    restore_parameters(checkpoint, compiled_.programs[train_program], *arena_);
    state_.imported = checkpoint.state().imported;
    state_.imported_tokenizer = checkpoint.state().imported_tokenizer;
}

void Trainer::resume(const CheckpointReader& checkpoint)
{
    const Program& train = compiled_.programs[train_program];
    require_same_model(checkpoint, config_);
    restore(checkpoint, train, saved_);
    initialise(train.graph, train.schedule, *arena_, static_cast<std::uint64_t>(config_.train.seed), threads_,
               Role::constant);
    state_ = checkpoint.state();
    if (state_.tokenizer != train_->fingerprint())
        throw UserError({checkpoint.path(), "was trained with another tokenizer than " + config_.data.train,
                         state_.tokenizer + " and " + train_->fingerprint(),
                         "train on data of the same tokenizer"});
    saved_step_ = state_.step;
}

} // namespace trivium
