#pragma once
// A program of the user's own, trained for a few steps on a grid of ranks as threads.
#include "config/run_config.hpp"
#include "ir/graph.hpp"
#include "runtime/reference_model.hpp"

#include <set>
#include <string>
#include <vector>

namespace trivium::grids {

struct ProgramCase {
    std::string text; ///< of the graph file
    std::string name = "program.graph";
    NamedNumbers sizes{}; ///< in place of those that the text declares
    Precision precision = Precision::f64;
    OptimizerKind optimizer = OptimizerKind::adamw;
    i64 samples = 8; ///< of a step
    i64 micro_batch = 0;
    ParallelConfig parallel{};
    int steps = 4;
    double lr = 0.01;
    std::set<int> refused{}; ///< steps, from 1, that are not accepted; their learning rate is NaN
};

struct ProgramOutcome {
    std::vector<double> losses, norms; ///< by step
    std::vector<double> evaluation;    ///< loss, then each metric, of the last batch after the last step
    std::vector<double> shown;         ///< by output that is shown: the slices of two samples
    reference::Tensors parameters, moments;
};

/// Element `index` of the array `input` of a sample: a number from -2 to 2; 1 or 0 of `valid`; of integers 0
/// to `classes` - 1. torch/example_losses.py has the same formula.
double element_of(const std::string& input, i64 sample, i64 index);
i64 integer_of(i64 sample, i64 index, i64 classes);

/// The config of a case; `axes` of its parallel config need only names and degrees. Throws UserError.
RunConfig config_of(const ProgramCase& c);

/// Trains on threads. Requires that every rank uses the planned
/// bytes.
ProgramOutcome train_program(const ProgramCase& c, i64 classes);

/// The training program of rank 0.
Graph first_rank_of(const ProgramCase& c);

/// Largest relative difference of anything; `evaluation` and `shown`: absolute.
struct ProgramDifferences {
    double losses = 0, norms = 0, evaluation = 0, parameters = 0, moments = 0;
    double shown = 0;    ///< of numbers in f32
    double most() const; ///< of the others
    std::string text() const;
};
ProgramDifferences differences(const ProgramOutcome& got, const ProgramOutcome& want);

/// The text of a program in docs/examples.
std::string example_text(const std::string& name);

/// Lines of a graph file for %n.$i, which is %c.$i [b,channels,rows,columns] with batch norm. They need the
/// size numbers = b rows columns. `averages`: evaluations read running statistics, with the variance of one
/// number less, as PyTorch's; otherwise those of the batch.
std::string batch_norm_lines(bool averages);

/// Ranks, and how they share the work.
struct ProgramMesh {
    ProgramAxes axes{};
    i64 data = 1, pipeline = 1, zero = 0;
    Recompute recompute = Recompute::none;
    i64 micro_batch = 0;
};

/// `one` on that mesh.
ProgramCase on_mesh(ProgramCase one, const ProgramMesh& mesh);

/// Checks that on each mesh the outcome is that of one rank: in f64 everything within 1e-9; in f32 losses,
/// norms and evaluation within 1e-4, because AdamW divides gradients that are rounding errors by themselves,
/// so that parameters say nothing.
void check_same_on(const ProgramCase& one, i64 classes, const std::vector<ProgramMesh>& meshes);

} // namespace trivium::grids
