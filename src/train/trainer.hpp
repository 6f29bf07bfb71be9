#pragma once
// The policy of a training run: learning rate, skipped steps, evaluations, saves, and when to stop. The
// engine runs the model, the report prints.
#include "io/metrics/live/monitors.hpp"
#include "lifecycle/deadline.hpp"
#include "train/launch.hpp"
#include "train/prediction.hpp"
#include "train/report/layer_report.hpp"
#include "train/report/run_report.hpp"
#include "train/report/sample_report.hpp"
#include "train/save/restore.hpp"
#include "train/save/saver.hpp"

namespace trivium {

/// Why a step does not update the weights.
enum class SkipKind {
    none,
    empty, ///< its batch has no token to train
    bad    ///< a spike, or values that are not finite
};
struct Skip {
    SkipKind kind = SkipKind::none;
    std::string reason{};
};

class Trainer {
public:
    /// Opens the data, compiles, allocates, and restores or initialises. All ranks of `world` make and run
    /// one, with the same config (require_same_config). Throws UserError or IoError on all ranks; see also
    /// begin_launch(). \pre the grid has as many ranks as `world`
    Trainer(RunConfig config, const std::string& build, Comm& world, const RunLinks& links);

    /// Collective: trains to the end, to train.stop_after, to a signal on any rank, or to the job's time
    /// limit. Returns the exit status.
    int run();

    i64 step() const { return state_.step; }              ///< steps done
    const std::string& ending() const { return ending_; } ///< after run(): the reason of its end

private:
    /// A flag: a save is requested; the lower bits are stop_requests().
    static constexpr u64 demand = u64{1} << 39;
    /// A flag of stop_requests(); the others are the numbers of signals.
    static constexpr u64 time_is_up = u64{1} << 38;

    /// `clock`: as RunLinks::clock. Rank 0 predicts the step.
    Compiled compile_for_this_rank(const Machine* clock);
    /// Fills the description of the run that its checkpoints record.
    void describe_run(const std::string& build);
    /// The program of the steps with this many sequences.
    std::size_t program_of(i64 batch) const;
    /// `ahead`: the next step follows without a save or an evaluation in between.
    SkipKind train_step(MetricsRecord& record, bool ahead);
    /// Whether and why a step's update is skipped. Records the loss.
    Skip why_skipped(const LossSum& sum, double norm);
    /// Whether the run may go back to a checkpoint once more (train.rewind).
    bool may_rewind() const;
    /// If too many steps in a row were skipped: goes back to the newest good checkpoint that
    /// checkpoint.every asked for, with the data behind those of this step. Returns false if nothing is
    /// wrong, or if it may not or cannot.
    bool rewind();
    /// As trivium::begin_judging(); rank 0 says so.
    void begin_judging(const std::string& before);
    /// Collective: marks the best checkpoint. If checkpoint.dir does not contain it, no loss counts as the
    /// lowest yet.
    void mark_best();
    /// Whether the norms of layers are measured in a step.
    bool measures_layers(i64 step) const;
    /// Throws, on all ranks, if too many steps in a row were skipped.
    void require_learning();
    bool evaluation_is_due(i64 step) const;
    struct Evaluated {
        u64 stop;     ///< the stop requests of all ranks that interrupted it; 0 if none did
        bool is_best; ///< its loss is the lowest so far
    };
    /// Evaluates after the step of `record`, and judges it.
    Evaluated evaluate(MetricsRecord& record);
    /// The losses of the validation sets by a program of the engine; those so far if `stop` is set meanwhile.
    std::vector<NamedEvaluation> losses_by(std::size_t program, u64& stop);
    /// Runs an evaluation that the previous launch did not complete. Returns false if it is interrupted
    /// again, with the reason in `stop`.
    bool make_up_for_evaluation(u64& stop);
    /// Bits for the reasons why this rank requests a save and the end of this launch: signals and, on rank 0,
    /// the job's time limit.
    u64 stop_requests();
    /// "the job's time limit, signal USR1".
    static std::string describe_stop(u64 requests);
    /// The flags of this rank, which all ranks combine between two steps.
    u64 flags() { return stop_requests() | (take_demand() ? demand : 0) | saver_->flags(); }
    bool saves_after(i64 step, i64 last) const;
    void save();
    void note_save(MetricsRecord& record);
    /// Whether a save is requested: by a signal, or by the file `save-now`, which is removed.
    bool take_demand() const;
    int stop(u64 requests);

    RunConfig config_;
    Job job_ = job_of_environment();
    Comm& world_;
    const RunSignals& signals_;
    bool first_rank_; ///< rank 0, which writes the files that exist once per run
    Grid grid_;
    int threads_;
    Computing computing_;
    Machine machine_;
    std::optional<TrainingData> data_;
    std::unique_ptr<RunFolders> folders_;
    std::optional<Engine> engine_;
    std::optional<RunReport> report_;
    std::vector<SavedTensor> saved_;       ///< this rank's shards in a checkpoint
    std::optional<MetricsWriter> metrics_; ///< declared before the saver, whose thread syncs it
    std::optional<SampleReport> shown_;    ///< on rank 0, if shows_samples()
    std::optional<Monitors> monitors_;     ///< on rank 0, with log.tensorboard, log.prometheus or log.otlp
    std::optional<LayerReport> layers_;    ///< on rank 0, with log.layer_norms
    std::optional<Saver> saver_;
    std::optional<Deadline> deadline_;   ///< on rank 0
    std::optional<Agreement> agreement_; ///< about flags(), if the last step began it
    Prediction prediction_;              ///< on rank 0
    RunState state_;
    i64 saved_step_ = -1;
    std::string ending_;
};

} // namespace trivium
