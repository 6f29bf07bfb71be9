#pragma once
// One training run, from config to summary.
#include "base/log.hpp"
#include "io/metrics.hpp"
#include "io/sample_order.hpp"
#include "mpi/grid.hpp"
#include "runtime/device.hpp"
#include "train/evaluator.hpp"
#include "train/folder_lock.hpp"
#include "train/saver.hpp"
#include "train/signals.hpp"

#include <optional>

namespace trivium {

/// Learning rate of step `step` (from 1 on): linear warm-up, then half a cosine down to min_lr.
double learning_rate(const TrainConfig& config, i64 step);

class Trainer {
public:
    /// Opens the data, compiles, allocates, and restores or initialises. All ranks of `world` make one, and run it, with
    /// the same config (require_same_config). Throws UserError, IoError, on all of them alike. \pre the grid has as many ranks as `world`
    Trainer(RunConfig config, const std::string& build, Comm& world);

    /// Trains to the end, to train.stop_after or to a signal on any rank. Returns the exit status.
    int run(const RunSignals& signals);

    Bytes planned_bytes() const { return compiled_.memory.arena; }
    Bytes used_bytes() const;

private:
    struct StepResult {
        double loss = 0, norm = 0;
        i64 tokens = 0;
        Seconds seconds = 0;
        bool skipped = false;
    };

    void open_data();
    /// Rank 0 logs, and writes what there is one of.
    bool is_chief() const { return world_.rank() == 0; }
    void restore_or_initialise();
    void resume(const CheckpointReader& checkpoint);
    void announce() const;
    StepResult train_step();
    void report(const StepResult& result, MetricsRecord& record);
    void evaluate(MetricsRecord& record);
    void save();
    /// Whether someone has put the file that asks for a checkpoint; it goes.
    bool take_demand() const;
    void summarise() const;
    void write_trace() const;
    /// Learns the largest rank's used bytes. All ranks call it.
    void note_memory();
    Flops peak_flops() const;

    RunConfig config_;
    std::string build_;
    Comm& world_;
    Grid grid_;
    int threads_;
    Computing computing_;
    Machine machine_;
    std::optional<TokenStore> train_, valid_;
    std::optional<SampleOrder> order_;
    Compiled compiled_;
    std::optional<FolderLock> lock_;
    std::optional<Arena> arena_;
    std::optional<Executor> executor_;
    std::optional<Evaluator> evaluator_;
    std::map<std::string, Box> inputs_;  ///< the rows that this rank is fed
    std::vector<SavedTensor> saved_;     ///< this rank's parts of what a checkpoint holds
    std::optional<Saver> saver_;
    std::optional<MetricsWriter> metrics_;
    Flops flops_ = 0;
    Bytes largest_used_ = 0; ///< of any rank, as far as it is known
    RunState state_;
    i64 first_step_ = 0;      ///< of this launch
    i64 saved_step_ = -1;
    Seconds step_seconds_ = 0; ///< smoothed
    Seconds train_seconds_ = 0;
    double last_loss_ = 0, last_valid_loss_ = -1;
};

} // namespace trivium
