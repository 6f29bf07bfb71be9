#pragma once
// One rank's part of a compiled model with all that it needs to run: the arena, and an executor per program.
// Training, evaluation, generation, the self-test and the benchmarks run models through it.
#include "compile/compile.hpp"
#include "passes/optimizer.hpp"
#include "runtime/executor.hpp"

#include <array>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>

namespace trivium {

enum class BatchInput { tokens, targets };

/// The sequences that all ranks process together, one row each, from 0 on: writes the tokens of row
/// `sequence`, or its targets (-1: not counted in the loss). `row` has model.seq elements.
using Batch = std::function<void(BatchInput input, i64 sequence, std::span<std::int32_t> row)>;

/// What the optimizer reads in a step, in the order that hyper_count documents.
using Hyper = std::array<double, hyper_count>;
/// For update number `update` (from 1 on) at learning rate `lr`.
Hyper hyper_of(const TrainConfig& config, double lr, i64 update);

/// Of one batch, over all ranks.
struct LossSum {
    double sum = 0; ///< nats
    double tokens = 0;
    double mean() const { return sum / tokens; }
};

struct StepResult {
    LossSum loss;
    double norm = 0;     ///< of the mean gradient, before it is clipped
    bool updated = true; ///< whether parameters and moments changed
};

/// Decides, alike on all ranks, whether a step's update is made; called after the gradients are reduced and
/// before anything that outlives the step changes.
using Accept = std::function<bool(const StepResult&)>;

/// As a config asks for it, on `threads` threads.
ExecutorConfig executor_config(const RunConfig& config, int threads);

/// Random parameters of a good size for tests, larger than a run begins with: normal numbers times `spread`,
/// norms' weights around 1, by (seed, label, name, global index) and so the same on any grid.
void draw_parameters(const Program& program, Arena& arena, std::uint64_t seed, const std::string& label,
                     double spread);

class Engine {
public:
    /// Allocates the arena and binds all programs. `grid`: the ranks that run it together, which all make
    /// their Engines at once; null where this rank runs alone; it outlives the Engine. IoError, on all ranks,
    /// where one has too little memory. `config.red_zone` is ignored: the plan has it.
    explicit Engine(Compiled compiled, ExecutorConfig config = {}, const Grid* grid = nullptr,
                    const StreamsMaker& streams = {});
    Engine(const Engine&) = delete;
    Engine& operator=(const Engine&) = delete;

    /// Fills what is kept over a run (all of it, or what has `role`) as each value's Init says.
    void initialise(std::uint64_t seed, std::optional<Role> role = {});

    /// One optimizer step of the program `train`: every microbatch of `batch`, the reductions, `accept`
    /// (default: always), the update.
    StepResult step(const Batch& batch, const Hyper& hyper, const Accept& accept = {});

    /// Sequences that one call of evaluate() takes.
    i64 evaluation_rows(std::size_t program = eval_program) const;
    /// Loss of a batch by the program `eval`, whose place among the programs is `program`.
    LossSum evaluate(const Batch& batch, std::size_t program = eval_program);

    const Compiled& compiled() const { return compiled_; }
    const Program& program(std::size_t index) const { return compiled_.programs[index]; }
    Executor& executor(std::size_t program) { return executors_[program]; }
    const Executor& executor(std::size_t program) const { return executors_[program]; }
    Arena& arena() { return *arena_; }
    const Arena& arena() const { return *arena_; }

    Bytes planned() const { return compiled_.memory.arena; }
    /// Bytes of the arena that were used so far; with contracts those that were written to, else those that
    /// Steps were given.
    Bytes used() const;

private:
    Feed feed(std::size_t program, const Batch& batch, const Hyper* hyper) const;

    Compiled compiled_;
    int threads_;
    std::optional<Arena> arena_;
    std::deque<Executor> executors_; ///< one per program
    std::vector<std::map<std::string, Box>>
        inputs_; ///< by program: the rows of each input that this rank is fed
};

} // namespace trivium
