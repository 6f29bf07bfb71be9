#pragma once
// A small model trained for a few steps on a grid of ranks, and the outcome by global name.
#include "config/data_config.hpp"
#include "config/option_sets.hpp"
#include "config/trained_parameters.hpp"
#include "mpi/grid.hpp"
#include "runtime/harness.hpp"

#include <functional>
#include <optional>
#include <set>

namespace trivium::grids {

struct Case {
    reference::Model model;
    std::optional<OptionSet> mixed{}; ///< options in place of those of the model's family
    TrainedParameters trained{};
    /// The first values of a parameter, by name and flattened index; empty: drawn.
    std::function<double(const std::string&, i64)> initial{};
    Precision precision = Precision::f64;
    OptimizerKind optimizer = OptimizerKind::adamw;
    i64 rows = 8;                           ///< sequences of a step
    std::optional<SamplePacking> packing{}; ///< of documents, which do not see each other; none: no documents
    bool apart = false;                     ///< each of these documents in a sequence of its own, of 3 * rows
    i64 micro_batch = 1;                    ///< of a data rank
    ParallelConfig parallel;
    int steps = 3;
    double lr = 0.02;
    double spread = 0.3; ///< of the random parameters
    double clip = 1;
    double average = 0;      ///< train.ema; the averages begin with 0
    bool norms = false;      ///< of layers, in the last step; then no step begins ahead
    bool counts_all = false; ///< every second batch ignores no token but padding
    std::set<int> refused{}; ///< steps, from 0, that are not accepted; their learning rate is NaN
    std::vector<runs::TokenBatch> batches{}; ///< of the steps; empty: drawn

    i64 sequences() const { return apart ? 3 * rows : rows; } ///< of a step
    i64 ranks() const { return rank_count(parallel); }
    std::string text() const; ///< "llama, data 2 x pipeline 2 x tensor 2, zero 1, …"
};

/// Of a model of 3 layers that is 8 wide: 4 heads on 2 key-value heads, 11 feed-forward, vocabulary and odd
/// shards.
Case narrow_case();

/// The same on one rank, in one microbatch, with all documents apart.
Case alone(const Case& c);

/// The sequences of step `step`, from 0.
runs::TokenBatch batch_of(const Case& c, int step);

/// The run config of a case.
RunConfig config_of(const Case& c);

struct Outcome {
    std::vector<double> losses, norms; ///< by step
    double evaluation = 0; ///< loss of the last step's sequences after the step, by the program `eval`
    double average_evaluation = 0; ///< the same by the averages
    std::vector<std::string> norm_names;
    ParameterNorms last_norms;              ///< with Case::norms
    reference::Tensors initial;             ///< parameters before the first step
    reference::Tensors gradients;           ///< summed over all tokens, before the first update
    reference::Tensors parameters, moments; ///< after the last step; moments as "adam_m.NAME", "muon_m.NAME"
};

/// The programs of one rank.
Compiled compile(const Case& c, i64 rank);

/// Makes the Steps and the memory plan of the program `train` again after its graph was changed; removes all
/// other programs.
void lay_out_again(Compiled& compiled);

/// For mutations: changes of a rank's graph `train` before its Steps are made, and of the Comm of its Grid.
/// With any of these, nothing is evaluated and memory is not checked. `streams`: the streams to run on, and a
/// function to call before the arena is read.
struct Meddle {
    std::function<void(Graph&)> graph;
    std::function<std::unique_ptr<Comm>(Comm&, const Program&)> comm;
    StreamsMaker streams;
    std::function<void()> settle;
    bool graphs = false;
    explicit operator bool() const { return graph || comm; }
};

/// All ranks of `world` call it; each gets the whole outcome. Requires that every rank uses the planned
/// bytes, and that ranks with the same shard of a tensor have the same bits.
Outcome train(const Case& c, Comm& world, Compiled compiled, const Meddle& meddle = {});
inline Outcome train(const Case& c, Comm& world) { return train(c, world, compile(c, world.rank())); }

/// The same on threads of this process.
Outcome train_on_threads(const Case& c, const Meddle& meddle = {});

/// The values of a role, by global name. Collective over `world`. Requires that ranks with the same shard
/// have the same bits.
reference::Tensors collect(Comm& world, const Program& program, const Arenas& arenas, Role role);

/// Whether everything is the same bit for bit.
bool same_bits(const Outcome& a, const Outcome& b);

/// Largest difference of any tensor, relative to the largest magnitude of that tensor in `want`, or to a
/// thousandth of the largest of all tensors if that is more (gradients of a key's bias are only rounding
/// errors). NaN counts as infinite.
double largest_difference(const reference::Tensors& got, const reference::Tensors& want);
/// The same for numbers, each relative to itself.
double largest_difference(const std::vector<double>& got, const std::vector<double>& want);

/// The largest difference of anything in the outcomes.
struct Differences {
    double losses = 0, norms = 0, evaluation = 0, gradients = 0, parameters = 0, moments = 0;
    double most() const;
    std::string text() const;
};
Differences differences(const Outcome& got, const Outcome& want);

} // namespace trivium::grids
