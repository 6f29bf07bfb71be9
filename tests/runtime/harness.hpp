#pragma once
// A small model, compiled and planned as in `train`, with an arena that tests can access.
#include "ir/names.hpp"
#include "kernels/runtime.hpp"
#include "reference_model.hpp"
#include "train/engine.hpp"

#include <memory>

namespace trivium::runs {

/// Kokkos and OpenMP, once per program.
void start_runtime();

/// A machine with little scratch, because small models need little, and contracts fill and search the whole
/// arena.
CompileConfig small_machine();

/// The run config of a reference model. \pre rows is a multiple of microbatches
RunConfig config_of(const reference::Model& model, Precision precision, i64 rows, i64 microbatches = 1);

/// The model trained with dropout, z-loss and label smoothing. \pre the seed of its run is 0
reference::Model regularised(reference::Model model);

/// Tokens and targets for `rows` sequences; about one target in seven is ignored, never all.
struct TokenBatch {
    reference::Ids tokens, targets;
    i64 seq = 0;
    i64 first_sample = 0;    ///< number in the run of the first sequence
    reference::Ids starts{}; ///< where each token's document begins in its sequence; empty: a sequence is one
};
/// Its rows from `first` on, valid while it exists.
Batch rows_of(const TokenBatch& batch, i64 first = 0);
TokenBatch random_batch(const reference::Model& model, i64 rows, std::uint64_t seed);

/// Content of a buffer of the arena as doubles. \pre `name` is a value of the program with its own buffer
reference::Vector read(const Program& program, const Arenas& arenas, std::string_view name);
void write(const Program& program, const Arenas& arenas, std::string_view name,
           const reference::Vector& values);
/// The value that the update of `parameter` reads as its gradient, and its buffer.
struct GradientPlace {
    ValueId value;
    const Buffer* buffer = nullptr;
};
GradientPlace gradient_place(const Program& program, const std::string& parameter);
/// The gradient that the update of `parameter` will read. \pre the Steps before the decision have run
reference::Vector read_gradient(const Program& program, const Arenas& arenas, const std::string& parameter);
/// All parameters of a program.
reference::Tensors read_parameters(const Program& program, const Arenas& arenas);
/// The training and evaluation programs of a config in one arena.
class Run {
public:
    /// Without the passes in `skip`.
    explicit Run(const RunConfig& config, int threads = 1, std::uint64_t seed = 1,
                 std::vector<std::string> skip = {});

    const Program& program() const { return engine->program(train_program); }
    void randomise(std::uint64_t seed, double spread = 0.4)
    {
        draw_parameters(program(), engine->arenas(), seed, "test", spread);
    }
    /// Runs the Steps before the decision.
    void differentiate(const TokenBatch& batch, const Hyper& hyper = {0, 0.9, 0.95, 1e-8, 0.1, 0.05});
    void update() { engine->executor(train_program).run_after_decision(); }
    double fetched(std::string_view name, i64 element = 0) const
    {
        return engine->executor(train_program).fetched(name, element);
    }
    double loss_sum() const { return fetched(value_name::totals, total_loss); }
    double tokens() const { return fetched(value_name::totals, total_tokens); }
    /// Of the sum of losses, by parameter name; valid until update(). \pre differentiate()
    reference::Tensors gradients() const;
    reference::Tensors parameters() const { return read_parameters(program(), engine->arenas()); }
    reference::Vector read(std::string_view name) const
    {
        return runs::read(program(), engine->arenas(), name);
    }
    void write(std::string_view name, const reference::Vector& values)
    {
        runs::write(program(), engine->arenas(), name, values);
    }
    /// All bytes of the run-lifetime buffers, concatenated.
    std::vector<std::byte> kept_bytes() const;
    /// Runs the programs, and requires that they use the planned bytes. Destroys the state after a step.
    void require_planned_is_used(const TokenBatch& batch);

    RunConfig config;
    std::unique_ptr<Engine> engine;
};

/// Largest magnitude in a tensor; infinite if an element is not finite.
double magnitude(const reference::Vector& values);
/// Largest difference between two tensors, relative to the largest magnitude of the second.
double scaled_difference(const reference::Vector& a, const reference::Vector& b);
/// Euclidean norm of the difference, relative to the second's.
double norm_difference(const reference::Vector& a, const reference::Vector& b);

/// Requires tokens, loss and gradients of a run to be those of the reference within `tolerance`: each tensor
/// by scaled_difference() or, if `by_norm`, norm_difference(). Tensors below `vanishing` times the largest
/// are 0 but for rounding errors, such as the bias of keys, which adds the same to all scores of a query.
void require_result(const Run& run, const reference::Result& want, double tolerance, double vanishing,
                    bool by_norm = false);

} // namespace trivium::runs
