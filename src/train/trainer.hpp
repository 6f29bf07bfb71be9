#pragma once
// A training run's policy: learning rate, skipped steps, evaluations, saves, and when to stop. What runs is
// the engine's, what is printed the report's.
#include "lifecycle/deadline.hpp"
#include "train/launch.hpp"
#include "train/restore.hpp"
#include "train/run_report.hpp"
#include "train/saver.hpp"

namespace trivium {

class Trainer {
public:
    /// Opens the data, compiles, allocates, and restores or initialises. All ranks of `world` make one, and
    /// run it, with the same config (require_same_config). Throws UserError, IoError, on all of them alike;
    /// begin_launch() has more. \pre the grid has as many ranks as `world`
    Trainer(RunConfig config, const std::string& build, Comm& world, const RunLinks& links);

    /// Trains to the end, to train.stop_after, to a signal on any rank or to the end of the job's time.
    /// Returns the exit status.
    int run();

    i64 step() const { return state_.step; }              ///< steps done
    const std::string& ending() const { return ending_; } ///< after run(): why it returned

private:
    Compiled compile_for_this_rank();
    /// Fills what a checkpoint records about the run that saves it.
    void describe_run(const std::string& build);
    void train_step(MetricsRecord& record);
    /// Why a step's update is left out; empty where it is not. Takes note of the loss.
    std::string why_skipped(double loss, double norm);
    /// Throws, on all ranks, where too many steps in a row were skipped.
    void require_learning();
    bool evaluation_is_due() const;
    /// Evaluates the step of `record`. Returns why it was given up, as stop_requests() of all ranks; 0 where
    /// it was not.
    u64 evaluate(MetricsRecord& record);
    /// Runs an evaluation that the previous launch gave up or did not begin. Returns false where it is given
    /// up again, with the reason in `stop`.
    bool make_up_for_evaluation(u64& stop);
    /// Bits that say why this rank asks for a save and the end of this launch: signals, and on rank 0 the
    /// job's time.
    u64 stop_requests();
    bool saves_after_this_step(i64 last) const;
    void save();
    void note_save(MetricsRecord& record);
    /// Whether a save is requested: by a signal, or by the file `save-now`, which is removed.
    bool take_demand() const;
    int stop(u64 requests);

    RunConfig config_;
    Job job_ = job_of_environment();
    Comm& world_;
    const RunSignals& signals_;
    bool first_rank_; ///< writes what a run writes once
    Grid grid_;
    int threads_;
    Computing computing_;
    Machine machine_;
    std::optional<TrainingData> data_;
    std::unique_ptr<RunFolders> folders_;
    std::optional<Engine> engine_;
    std::optional<RunReport> report_;
    std::vector<SavedTensor> saved_;       ///< this rank's shards of a checkpoint
    std::optional<MetricsWriter> metrics_; ///< before the saver, whose thread syncs it
    std::optional<Saver> saver_;
    std::optional<Deadline> deadline_; ///< on rank 0
    RunState state_;
    i64 saved_step_ = -1;
    std::string ending_;
};

} // namespace trivium
