#pragma once
// One training run, from config to summary.
#include "base/log.hpp"
#include "io/metrics/launches.hpp"
#include "io/metrics/metrics.hpp"
#include "io/tokens/sample_order.hpp"
#include "mpi/grid.hpp"
#include "runtime/device.hpp"
#include "train/collapse.hpp"
#include "train/config_changes.hpp"
#include "train/evaluator.hpp"
#include "train/job_time.hpp"
#include "train/run_folders.hpp"
#include "train/saver.hpp"
#include "train/signals.hpp"
#include "train/start_guard.hpp"

#include <memory>
#include <optional>

namespace trivium {

/// What a Trainer shares with its caller; all of it outlives the Trainer.
struct RunLinks {
    std::optional<LaunchLog>&
        launches; ///< rank 0 begins it once the run's folders are its own; the caller ends it
    const RunSignals& signals;
    StartGuard* guard = nullptr; ///< released before anything is changed that a stop must not interrupt
};

class Trainer {
public:
    /// Opens the data, compiles, allocates, and restores or initialises. All ranks of `world` make one, and
    /// run it, with the same config (require_same_config). A restart waits for them up to two minutes, or
    /// until it is asked to stop, and ends with an Error of status 75. Throws UserError, IoError, on all of
    /// them alike. \pre the grid has as many ranks as `world`
    Trainer(RunConfig config, const std::string& build, Comm& world, const RunLinks& links);

    /// Trains to the end, to train.stop_after, to a signal on any rank or to the end of the job's time.
    /// Returns the exit status.
    int run(const RunSignals& signals);

    i64 step() const { return state_.step; }              ///< steps done
    const std::string& ending() const { return ending_; } ///< after run(): why it returned

    Bytes planned_bytes() const { return compiled_.memory.arena; }
    Bytes used_bytes() const;

private:
    struct StepResult {
        double loss = 0, norm = 0;
        i64 tokens = 0;
        Seconds seconds = 0;
        std::string skipped{}; ///< why; empty: it was not
    };

    void open_data();
    /// Rank 0's part of a start: the folders, the lock, the launch. Throws Error where the job makes no
    /// progress.
    void begin_launch(const RunLinks& links);
    /// Tells the log where this launch really begins, if not where it was to. Throws as require_progress().
    void note_restored(LaunchLog& launch) const;
    /// Throws IoError where the job has begun at `step` too often; `before`: the launches so far, without
    /// this one.
    void require_progress(const std::vector<Launch>& before, i64 step) const;
    /// Rank 0 logs, and writes what there is one of.
    bool is_chief() const { return world_.rank() == 0; }
    void restore_or_initialise(StartGuard* guard);
    void begin_from(const CheckpointReader& checkpoint);
    void resume(const CheckpointReader& checkpoint);
    /// How many checkpoints stay; 0: all.
    i64 kept_checkpoints() const;
    /// Throws IoError where the disk has no room for a save. All ranks call it.
    void require_space();
    void announce() const;
    StepResult train_step();
    /// Why a step's update is left out; empty where it is not. Takes note of the loss.
    std::string why_skipped(double loss, double norm);
    void report(const StepResult& result, MetricsRecord& record);
    /// Returns why it was given up, as stop_requests() of all ranks; 0 where it was not.
    u64 evaluate(MetricsRecord& record, const RunSignals& signals);
    bool evaluation_is_due() const;
    /// Whether the launch before was stopped in an evaluation, or before it. All ranks call it.
    bool owes_evaluation();
    /// Makes up for it. As evaluate(). \pre owes_evaluation()
    u64 catch_up_on_evaluation(const RunSignals& signals);
    /// Bits that say why this rank asks for a save and the end of this launch: signals, and on rank 0 the
    /// job's time.
    u64 stop_requests(const RunSignals& signals) const;
    std::string describe_stop(u64 requests) const;
    /// What it takes from a request to stop until all is saved, by what was measured so far, with a margin.
    Seconds lead() const;
    void save();
    /// Whether someone has put the file that asks for a checkpoint; it goes.
    bool take_demand() const;
    void summarise() const;
    void write_trace() const;
    /// Learns the largest rank's bytes, used and planned. All ranks call it.
    void note_memory();
    Flops peak_flops() const;

    RunConfig config_;
    std::string build_;
    Job job_ = job_of_environment();
    Comm& world_;
    Grid grid_;
    int threads_;
    Computing computing_;
    Machine machine_;
    std::optional<TokenStore> train_, valid_;
    std::optional<SampleOrder> order_;
    Compiled compiled_;
    std::optional<RunFolders> folders_;
    std::optional<Arena> arena_;
    std::optional<Executor> executor_;
    std::optional<Evaluator> evaluator_;
    std::map<std::string, Box> inputs_;    ///< the rows that this rank is fed
    std::vector<SavedTensor> saved_;       ///< this rank's parts of what a checkpoint holds
    std::optional<MetricsWriter> metrics_; ///< before the saver, whose thread syncs it
    std::optional<Saver> saver_;
    Flops flops_ = 0;
    Bytes largest_used_ = 0, largest_planned_ = 0; ///< of any rank, as far as it is known
    RunState state_;
    std::string resumed_; ///< the checkpoint that this launch began at; empty: none
    i64 first_step_ = 0;  ///< of this launch
    i64 saved_step_ = -1;
    Seconds step_seconds_ = 0;      ///< smoothed
    std::unique_ptr<JobTime> time_; ///< on rank 0
    RecentTimes step_times_;
    Seconds longest_save_ = 0; ///< of this launch; before its first save, the newest of the run
    Seconds paused_ = 0,
            paused_at_save_ = 0; ///< how long the job was suspended so far, and when the save at hand began
    i64 saves_seen_ = 0;         ///< of this launch, measured
    Seconds most_lead_ = 1e30;   ///< before a save was seen: half of the time that was left at the start
    std::string ending_;
    Seconds train_seconds_ = 0;
    double last_loss_ = 0, last_valid_loss_ = -1;
    CollapseWatch collapse_;
};

} // namespace trivium
