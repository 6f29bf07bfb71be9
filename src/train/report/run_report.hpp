#pragma once
// The log of a training run, and the metrics of each step. All public functions are collective; rank 0 logs.
#include "io/metrics/metrics.hpp"
#include "lifecycle/core_watch.hpp"
#include "mpi/grid.hpp"
#include "runtime/device.hpp"
#include "train/collapse.hpp"
#include "train/evaluator.hpp"
#include "train/prediction.hpp"
#include "train/save/saved_tensors.hpp"

namespace trivium {

/// The hardware of a run.
struct RunPlace {
    Grid& grid;
    const Computing& computing;
    const Machine& machine;
    int threads = 1;
};

class RunReport {
public:
    /// All arguments must outlive it.
    RunReport(const RunConfig& config, const Engine& engine, const RunPlace& place);

    /// Logs model, data (describe_data()), grid, memory, compute and the predicted step, before the first
    /// step.
    void announce(const std::vector<std::string>& data, const RunState& begin, const Prediction& prediction);

    /// Logs the step that led to `state`, and returns its metrics. `skipped`: why its update was skipped;
    /// empty: it was not.
    MetricsRecord step(const RunState& state, const StepResult& result, Seconds seconds,
                       const std::string& skipped);
    /// Logs the losses of the validation sets after `step` and adds them to the step's metrics: `valid_loss`
    /// over all of them, and of those with a name `valid_loss_NAME`. `raw`: if those are of averaged weights,
    /// the losses of the weights that are trained, `valid_loss_raw`; otherwise empty.
    void evaluation(i64 step, const std::vector<NamedEvaluation>& sets,
                    const std::vector<NamedEvaluation>& raw, MetricsRecord& record);
    /// Logs, after the last step, totals, speed and memory, and writes the trace if log.trace is set.
    void summarise(const RunState& state, const std::string& metrics_path) const;

private:
    void note_memory(); ///< collects the largest used and planned bytes of any rank
    void write_trace() const;
    /// Adds the loads of experts to the metrics of a step.
    void note_loads(const StepResult& result, MetricsRecord& record) const;
    bool shares_cores() const; ///< ranks share cores or devices

    const RunConfig& config_;
    const Engine& engine_;
    RunPlace place_;
    bool first_rank_;
    double units_;                                 ///< devices or cores that compute
    Flops peak_;                                   ///< FLOP/s of all devices or cores
    i64 first_step_ = 0, first_sample_ = 0;        ///< of this launch
    Bytes largest_used_ = 0, largest_planned_ = 0; ///< of any rank, as last collected
    Bytes host_used_ = 0, host_planned_ = 0;       ///< the same for the arenas in host memory
    Seconds step_seconds_ = 0;                     ///< smoothed
    Seconds train_seconds_ = 0;
    double last_loss_ = 0, last_valid_loss_ = -1;
    Prediction prediction_;
    std::vector<Seconds> last_steps_; ///< durations of the last steps of the whole batch, in a ring
    std::size_t timed_ = 0;           ///< such steps in this launch, without its first step
    CollapseWatch collapse_;
    CoreWatch cores_;
};

} // namespace trivium
