#pragma once
// One rank of a compiled model, ready to run: the arenas, and an executor per program. Training, evaluation,
// generation, `trivium check` and the benchmarks run models through it.
#include "compile/compile.hpp"
#include "passes/optimizer.hpp"
#include "runtime/executor.hpp"
#include "runtime/samples.hpp"

#include <array>
#include <deque>
#include <functional>
#include <optional>

namespace trivium {

/// The numbers that the optimizer reads in a step, in the order documented at hyper_count.
using Hyper = std::array<double, hyper_count>;
/// The values for update `update` (counted from 1) at learning rate `lr`.
Hyper hyper_of(const TrainConfig& config, double lr, i64 update);

/// The loss of one batch, summed over all ranks.
struct LossSum {
    double sum = 0; ///< nats
    double tokens = 0;
    double mean() const { return sum / tokens; }
};

struct StepResult {
    LossSum loss;
    double norm = 0;               ///< of the mean gradient, before clipping
    bool updated = true;           ///< whether parameters and moments changed
    std::vector<double> loads{};   ///< the outputs of GraphConfig::loads
    std::vector<double> squares{}; ///< of the summed gradient of each of norm_parameters()
};

/// Norms of each of norm_parameters() (passes/layer_norms.hpp).
struct ParameterNorms {
    std::vector<double> gradients;        ///< mean over tokens, before clipping
    std::vector<double> weights, updates; ///< after the step; of the difference that it made
};

/// Decides, after the reduction of the gradients, whether a step's update is applied. Must return the same on
/// all ranks.
using Accept = std::function<bool(const StepResult&)>;

/// The next step, which post-validated updates may begin before the outcome of the current step is known.
struct Ahead {
    Batch batch;
    Hyper hyper{};                     ///< of the next step, if the current one is updated
    std::function<void()> meanwhile{}; ///< called only if the next step begins ahead, just before it
};

/// Callbacks of a step, the step after it, and the program that it runs; all may be left out.
struct StepCalls {
    Accept accept{};                        ///< default: always
    std::function<void()> before_changes{}; ///< called before parameters and optimizer states change
    const Ahead* ahead = nullptr;           ///< a step of the same program
    std::size_t program = train_program;    ///< of the step: training_program()
};

/// The settings of a config, with `threads` threads.
ExecutorConfig executor_config(const RunConfig& config, int threads);

/// Random parameters for tests, larger than the initial ones of a run: normal numbers times `spread`, around
/// the value with which a run fills a tensor (1 for most norms). They depend on (seed, label, name, global
/// index) only, so they are the same on any grid.
void draw_parameters(const Program& program, const Arenas& arenas, std::uint64_t seed,
                     const std::string& label, double spread);

class Engine {
public:
    /// Allocates the arenas and binds all programs. Collective over `grid`, the ranks that run the model
    /// together, which must outlive the Engine; null: this rank runs alone. Throws IoError, on all ranks, if
    /// one has too little memory. Ignores `config.red_zone` and uses that of the plan.
    explicit Engine(Compiled compiled, ExecutorConfig config = {}, const Grid* grid = nullptr,
                    const StreamsMaker& streams = {});
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Fills the run-lifetime values (all, or only those of `role`) according to their Init.
    void initialise(std::uint64_t seed, std::optional<Role> role = {});

    /// Collective, with the same arguments: one optimizer step of a program `train`: all microbatches of
    /// `batch`, the reductions, accept, the update. With post-validated updates, the update precedes accept;
    /// it is undone if accept refuses it, and done again if the gradient is clipped. Then calls.ahead may
    /// have begun: it must be the next step, unless abandon() is called.
    StepResult step(const Batch& batch, const Hyper& hyper, const StepCalls& calls = {});
    /// Collective: ends a step that the last step() has begun ahead, without effect.
    void abandon();

    /// Collective, before a step: keeps the weights for norms_after(). No step may have begun ahead.
    /// \pre log.layer_norms > 0
    void remember_weights();
    /// Collective, after that step.
    ParameterNorms norms_after(const StepResult& step);

    /// Number of samples that one call of evaluate() processes.
    i64 evaluation_rows(std::size_t program = eval_program) const;
    /// Collective: the loss of a batch, by the program `eval` with index `program`. Calls abandon() first.
    LossSum evaluate(const Batch& batch, std::size_t program = eval_program);
    /// What else the last evaluate() summed: of a program of the user's own, each of ModelProgram::metrics.
    std::vector<LossSum> metrics(std::size_t program = eval_program) const;

    const Compiled& compiled() const { return compiled_; }
    const Program& program(std::size_t index) const { return compiled_.programs[index]; }
    Executor& executor(std::size_t program) { return executors_[program]; }
    const Executor& executor(std::size_t program) const { return executors_[program]; }
    const Arenas& arenas() const { return *arenas_; }
    std::size_t last_program() const { return last_; } ///< of the last step
    /// Executor::exposed() of the last step; with post-validated updates, until its update was issued.
    Seconds exposed() const;

    Bytes planned(Space space = Space::device) const
    {
        return (space == Space::device ? compiled_.memory : compiled_.host).arena;
    }
    /// Bytes of an arena that the programs use: the end of the buffers of all their Steps; with contracts, of
    /// the highest byte that was written so far.
    Bytes used(Space space = Space::device) const;

private:
    Feed feed(std::size_t program, const Batch& batch, const Hyper* hyper, double factor = 0) const;
    bool is_post_validated() const { return compiled_.parallel.update == UpdateMode::post_validated; }
    StepResult step_and_validate(const Batch& batch, const Hyper& hyper, const StepCalls& calls);
    /// The factor of gradients that the next update of last_ assumes: nothing is clipped, and as much counts
    /// as in the step before.
    double& assumed();

    Compiled compiled_;
    int threads_;
    std::optional<Arenas> arenas_;
    std::deque<Executor> executors_; ///< one per program
    std::size_t last_ = train_program;
    std::optional<Hyper> begun_;     ///< of a step of the last step's program that has begun ahead
    bool was_repaired_ = false;      ///< the last step's update was undone or done again
    std::vector<double> assumed_;    ///< by program; 0: no step was decided yet
    std::optional<Seconds> exposed_; ///< of the last step, with post-validated updates
};

} // namespace trivium
