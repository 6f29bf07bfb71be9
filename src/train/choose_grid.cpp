#include "train/choose_grid.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "train/compile.hpp"
#include "train/describe.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

namespace trivium {

namespace {

struct Candidate {
    RunConfig config;
    bool cut_enough; ///< into as many parts as the given one, or more
    double score;
};

double score(const RunConfig& c, i64 tensor_before)
{
    const ParallelConfig& p = c.parallel;
    const auto layers = static_cast<double>(c.model.layers), stages = static_cast<double>(p.pipeline), batches = static_cast<double>(microbatch_count(c));
    const double balance = layers / (stages * std::ceil(layers / stages));
    const double busy = batches / (batches + stages - 1);
    const double steps = std::abs(std::log2(static_cast<double>(p.tensor) / static_cast<double>(tensor_before)));
    return static_cast<double>(rank_count(p)) * balance * busy * std::pow(0.7, steps);
}

/// The largest divisor of `share` that is at most `most`.
i64 largest_part(i64 share, i64 most)
{
    i64 part = std::min(share, most);
    while (share % part != 0)
        --part;
    return part;
}

/// Grids of `ranks` ranks that the batch and the rough shape of the model admit.
void add_candidates(const RunConfig& config, i64 ranks, std::vector<Candidate>& candidates)
{
    const ParallelConfig& before = config.parallel;
    for (i64 data = 1; data <= ranks; ++data)
        for (i64 pipeline = 1; ranks % data == 0 && pipeline <= std::min(ranks / data, config.model.layers); ++pipeline) {
            if (ranks / data % pipeline != 0)
                continue;
            RunConfig c = config;
            c.parallel.data = data;
            c.parallel.pipeline = pipeline;
            c.parallel.tensor = ranks / data / pipeline;
            const i64 share = c.train.global_batch / data, tensor = c.parallel.tensor;
            if (tensor % before.tensor != 0 && before.tensor % tensor != 0) // heads would lie unevenly
                continue;
            if (c.train.global_batch % data != 0 || (c.train.micro_batch > 0 && share % c.train.micro_batch != 0))
                continue;
            if (c.train.micro_batch == 0)
                c.train.micro_batch = largest_part(share, micro_batch(config));
            const bool cut_enough = pipeline * c.parallel.tensor >= before.pipeline * before.tensor;
            candidates.push_back({c, cut_enough, score(c, before.tensor)});
        }
}

/// Most bytes that the plan wants of a rank's memory; none where the model does not fit the grid, or the limit.
std::optional<Bytes> bytes_of_largest(const RunConfig& config)
{
    if (const Bytes limit = config.parallel.memory_limit; limit > 0 && least_bytes(config) > static_cast<double>(limit))
        return std::nullopt; // compiling a large model takes seconds
    CompileConfig options;
    options.machine = machine_called(default_machine());
    Bytes most = 0;
    const auto first_of_stage = [](const Mesh& mesh, i64 rank) { // the first along data and tensor have the largest parts
        const Coordinates at = mesh.coordinates(rank);
        return at[0] == 0 && at[2] == 0;
    };
    try {
        compile_ranks(config, options, first_of_stage, [&](i64, const Compiled& compiled) {
            const MemoryPlan& plan = compiled.memory;
            most = std::max(most, plan.arena + (options.machine.is_device ? plan.process : plan.snapshot));
        });
        return most;
    } catch (const UserError&) {
        return std::nullopt;
    }
}

} // namespace

double least_bytes(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    const auto master = static_cast<double>(size_of(master_type(c.train.precision)));
    const double gradient = p.reduce == ReduceType::bf16 && p.data > 1 ? 2 : master;
    const double shards = p.zero > 0 ? static_cast<double>(p.data) : 1;
    // All gradients are there at once when their norm is known; shards of the parameters are gathered for the forward pass.
    const double copies = shards > 1 ? static_cast<double>(size_of(compute_type(c.train.precision))) : 0;
    return static_cast<double>(parameter_count(c.model)) * (3 * master / shards + std::max(copies, gradient / shards)) / static_cast<double>(p.pipeline * p.tensor);
}

RunConfig choose_grid(const RunConfig& config, i64 ranks, Bytes memory)
{
    if (rank_count(config.parallel) == ranks)
        return config;
    std::vector<Candidate> candidates;
    for (i64 n = ranks; n >= 1; --n)
        add_candidates(config, n, candidates);
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return a.cut_enough != b.cut_enough ? a.cut_enough : a.score > b.score;
    });
    const RunConfig* best = nullptr; // whatever memory there is
    for (const Candidate& candidate : candidates) {
        const RunConfig& c = candidate.config;
        if (best && least_bytes(c) > static_cast<double>(memory))
            continue;
        Activity::of_process().advance(); // of a large model each takes seconds
        const std::optional<Bytes> bytes = bytes_of_largest(c);
        if (bytes && (memory == 0 || *bytes <= memory))
            return c;
        if (bytes && !best)
            best = &c;
    }
    if (best)
        return *best;
    throw UserError({"parallel.strategy", str("\"auto\" finds no grid for ", ranks, " ranks"), str("the config's is ", describe_grid(config.parallel)),
                     "start as many ranks as the config's grid has; `trivium plan` says what does not fit"});
}

} // namespace trivium
