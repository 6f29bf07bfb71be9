#include "train/choose_grid.hpp"

#include "base/check.hpp"
#include "train/compile.hpp"
#include "train/describe.hpp"

#include <algorithm>
#include <cmath>
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
            if (c.train.global_batch % data != 0 || share % micro_batch(c) != 0)
                continue;
            const bool cut_enough = pipeline * c.parallel.tensor >= before.pipeline * before.tensor;
            candidates.push_back({c, cut_enough, score(c, before.tensor)});
        }
}

bool compiles(const RunConfig& config)
{
    try {
        CompileConfig options;
        options.machine = machine_called(default_machine());
        compile_training(config, options);
        return true;
    } catch (const UserError&) {
        return false;
    }
}

} // namespace

ParallelConfig choose_grid(const RunConfig& config, i64 ranks)
{
    if (rank_count(config.parallel) == ranks)
        return config.parallel;
    std::vector<Candidate> candidates;
    for (i64 n = ranks; n >= 1; --n)
        add_candidates(config, n, candidates);
    std::stable_sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
        return a.cut_enough != b.cut_enough ? a.cut_enough : a.score > b.score;
    });
    for (const Candidate& candidate : candidates)
        if (compiles(candidate.config))
            return candidate.config.parallel;
    throw UserError({"parallel.strategy", str("\"auto\" finds no grid for ", ranks, " ranks"), str("the config's is ", describe_grid(config.parallel)),
                     "start as many ranks as the config's grid has; `trivium plan` says what does not fit"});
}

} // namespace trivium
