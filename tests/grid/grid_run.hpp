#pragma once
// A small model trained for a few steps on a grid of ranks, and what came of it by global name.
#include "mpi/grid.hpp"
#include "runtime/harness.hpp"

#include <functional>

namespace trivium::grids {

struct Case {
    reference::Model model;
    Precision precision = Precision::f64;
    i64 rows = 8;       ///< sequences of a step
    i64 micro_batch = 1; ///< of a data rank
    ParallelConfig parallel;
    int steps = 3;

    std::string text() const; ///< "llama, data 2 x pipeline 2 x tensor 2, zero 1, …"
};

/// The run config of a case.
RunConfig config_of(const Case& c);

struct Outcome {
    std::vector<double> losses, norms; ///< by step
    reference::Tensors gradients;      ///< summed over all tokens, before the first update
    reference::Tensors parameters, moments; ///< after the last step; moments as "adam_m.NAME"
};

/// What may be done to the local graph of a rank before its Steps are made: for mutations.
using Meddle = std::function<void(Graph&)>;

/// All ranks of `world` call it; each gets the whole outcome. Requires on every rank that the bytes used are those
/// planned, and over all that ranks with the same part of a tensor have the same bits of it.
Outcome train(const Case& c, Comm& world, const Meddle& meddle = {});

/// The same on threads of this process.
Outcome train_on_threads(const Case& c, const Meddle& meddle = {});

/// Largest difference of any tensor, relative to the largest magnitude of that tensor in `want`, or to a thousandth of
/// the largest of all where that is more (a key's bias has gradients of rounding errors only). NaN counts as infinite.
double largest_difference(const reference::Tensors& got, const reference::Tensors& want);

} // namespace trivium::grids
