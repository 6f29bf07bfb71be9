#include "choose/choose_grid.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "choose/choose_schedule.hpp"
#include "choose/memory_policy.hpp"
#include "compile/describe.hpp"
#include "config/schedules.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

namespace trivium {

namespace {

struct GridCandidate {
    i64 data, pipeline, tensor;
    i64 most_micro;      ///< maximum sequences of a microbatch, if the config does not set them
    bool sharded_enough; ///< over at least as many ranks as the config's grid
    double score;

    std::tuple<bool, double, i64, i64, i64, i64> order() const
    {
        return {!sharded_enough, -score, -data * pipeline * tensor, data, pipeline, -most_micro};
    }
};

/// Whether the heads divide evenly over this many tensor ranks.
bool divides_heads(const ModelConfig& m, i64 tensor)
{
    return tensor <= m.kv_heads ? m.kv_heads % tensor == 0 : m.heads / m.kv_heads % tensor == 0;
}

/// Score of a tensor degree other than the config's: heads divide evenly, within a node, power of two.
double tensor_degree_factor(const RunConfig& c, i64 tensor_before, i64 ranks_per_node)
{
    const i64 tensor = c.parallel.tensor;
    if (tensor == tensor_before)
        return 1;
    const bool even = divides_heads(c.model, tensor) && c.model.ffn_dim % tensor == 0;
    const bool in_node = ranks_per_node == 0 || ranks_per_node % tensor == 0;
    const bool power = (tensor & (tensor - 1)) == 0;
    return (even ? 1 : 0.1) * (in_node ? 1 : 0.1) * (power ? 1 : 0.8);
}

double score(const RunConfig& c, i64 tensor_before, i64 ranks_per_node)
{
    const ParallelConfig& p = c.parallel;
    const auto layers = static_cast<double>(c.model.layers), stages = static_cast<double>(p.pipeline),
               batches = static_cast<double>(microbatch_count(c));
    const double balance = layers / (stages * std::ceil(layers / stages));
    const double busy = batches / (batches + stages - 1);
    const double steps =
        std::abs(std::log2(static_cast<double>(p.tensor) / static_cast<double>(tensor_before)));
    return static_cast<double>(rank_count(p)) * balance * busy * std::pow(0.7, steps) *
           tensor_degree_factor(c, tensor_before, ranks_per_node);
}

/// The largest divisor of `share` that is at most `most`.
i64 largest_part(i64 share, i64 most)
{
    i64 part = std::min(share, most);
    while (share % part != 0)
        --part;
    return part;
}

/// `config` on another grid, whose other degrees are the config's; ZeRO shards over all data ranks if the
/// config's groups do not divide them; with microbatches of at most `most_micro` sequences if it does not set
/// their size.
RunConfig config_on(const RunConfig& config, i64 most_micro, i64 data, i64 pipeline, i64 tensor)
{
    RunConfig c = config;
    c.parallel.data = data;
    c.parallel.pipeline = pipeline;
    c.parallel.tensor = tensor;
    if (c.parallel.shard > 0 && data % c.parallel.shard != 0)
        c.parallel.shard = 0;
    if (c.train.micro_batch == 0)
        c.train.micro_batch = largest_part(c.train.global_batch / batch_ranks(c.parallel), most_micro);
    return c;
}

/// Adds the grids of at most `ranks` ranks that the batch and the rough shape of the model allow.
void add_candidates(const RunConfig& config, i64 most_micro, i64 ranks, i64 ranks_per_node,
                    std::vector<GridCandidate>& candidates)
{
    const ParallelConfig& before = config.parallel;
    const ModelConfig& m = config.model;
    // Axes that are not searched take their share of the ranks and of the batch.
    const i64 free = ranks / (rank_count(before) / (before.data * before.pipeline * before.tensor)),
              batch = config.train.global_batch / (batch_ranks(before) / before.data);
    const i64 most_tensor = std::min(free, std::max(m.kv_heads, m.heads / m.kv_heads));
    for (i64 data = 1; data <= std::min(free, batch); ++data) {
        const i64 share = batch / data;
        if (batch % data != 0 || (config.train.micro_batch > 0 && share % config.train.micro_batch != 0))
            continue;
        RunConfig c = config_on(config, most_micro, data, 1, 1);
        for (i64 tensor = 1; tensor <= std::min(most_tensor, free / data); ++tensor) {
            if (tensor % before.tensor != 0 && before.tensor % tensor != 0) // heads would be uneven
                continue;
            c.parallel.tensor = tensor;
            for (i64 pipeline = 1; pipeline <= std::min(m.layers, free / data / tensor); ++pipeline) {
                c.parallel.pipeline = pipeline;
                candidates.push_back({data, pipeline, tensor, most_micro,
                                      pipeline * tensor >= before.pipeline * before.tensor,
                                      score(c, before.tensor, ranks_per_node)});
            }
        }
    }
}

/// Candidates for each of these maximum microbatch sizes, best first.
std::vector<GridCandidate> candidates_for(const RunConfig& config, const std::vector<i64>& micros, i64 ranks,
                                          i64 ranks_per_node)
{
    std::vector<GridCandidate> candidates;
    for (const i64 most_micro : micros)
        add_candidates(config, most_micro, ranks, ranks_per_node, candidates);
    std::ranges::sort(candidates, {}, &GridCandidate::order);
    return candidates;
}

/// How many states the op called `update` keeps of a parameter.
std::size_t count_states(std::string_view update) { return find_op(update)->states.size(); }

/// Lower bounds of the bytes that a rank holds.
class LeastBytes {
public:
    explicit LeastBytes(const RunConfig& config) : config_(config)
    {
        const ParallelConfig& p = config.parallel;
        const ModelConfig& m = config.model;
        const auto master = static_cast<double>(size_of(master_type(config.train.precision))),
                   compute = static_cast<double>(size_of(compute_type(config.train.precision)));
        const auto tensor = static_cast<double>(p.tensor);
        // The search of a schedule chooses the microbatch, too.
        const bool searches = p.schedule == automatic_schedule && config.train.micro_batch == 0;
        const i64 micro = searches ? 1 : micro_batch(config);
        batches_ = static_cast<double>(config.train.global_batch / batch_ranks(p) / micro);
        // Master and the optimizer's states, the parameters in the compute type, and the accumulated
        // gradients.
        const double stages = shard_ranks(p) > 1 ? static_cast<double>(p.zero) : 0;
        const Optimizer& optimizer = optimizer_row(config.train.optimizer);
        const double kept = static_cast<double>(1 + std::min(count_states(optimizer.matrices),
                                                             count_states(optimizer.others))) *
                            master;
        // With offload, only copies of the parameters and the gradients are in the device arena.
        const bool offload = p.offload == Offload::optimizer;
        const double shard =
                         (offload ? stages == 3 ? compute : 0 : kept) / static_cast<double>(shard_ranks(p)),
                     copy = offload || compute < master ? compute : 0;
        value_ = (stages == 3  ? shard
                  : stages > 0 ? shard + compute
                               : (offload ? 0 : kept) + copy + (batches_ > 1 ? master : 0)) /
                 tensor;
        ModelConfig none = m;
        none.layers = 0;
        layer_ = value_ * static_cast<double>(parameter_count(m) - parameter_count(none)) /
                 static_cast<double>(m.layers);
        // Activations that a layer keeps per microbatch: the operands of its products and of attention.
        const double width = 2.0 * static_cast<double>(m.dim) +
                             2.0 * static_cast<double>((m.heads + m.kv_heads) * m.head_dim) +
                             (m.gated ? 3 : 1) * static_cast<double>(m.ffn_dim);
        if (p.recompute == Recompute::none || (p.recompute == Recompute::automatic && p.memory_limit == 0))
            kept_ = static_cast<double>(micro * m.seq) * width * (config.train.fp8 ? 1 : compute) / tensor;
    }

    /// Of the largest stage, for any distribution of the layers: as if all stages were equal.
    double balanced() const
    {
        double layers = 0; // per byte of memory of each stage
        for (i64 stage = 0; stage < config_.parallel.pipeline; ++stage)
            layers += 1 / of_layer(stage);
        return static_cast<double>(config_.model.layers) / layers;
    }

    std::vector<Bytes> of_stages() const
    {
        const ModelConfig& m = config_.model;
        if (config_.parallel.schedule == automatic_schedule) // its stages are not known yet
            return std::vector<Bytes>(static_cast<std::size_t>(config_.parallel.pipeline),
                                      static_cast<Bytes>(balanced()));
        const std::vector<int> stage_of = ranks_of_blocks(config_);
        const double table = value_ * static_cast<double>(m.vocab * m.dim);
        std::vector<Bytes> least;
        for (int stage = 0; stage < config_.parallel.pipeline; ++stage) {
            const auto layers =
                static_cast<double>(std::count(stage_of.begin() + 1, stage_of.end() - 1, stage));
            const bool first = stage_of.front() == stage, last = stage_of.back() == stage;
            const double tables = (first ? table : 0) + (last && !(m.tied_embeddings && first) ? table : 0);
            least.push_back(static_cast<Bytes>(layers * of_layer(stage) + tables));
        }
        return least;
    }

private:
    double of_layer(i64 stage) const
    {
        const auto ranks = static_cast<double>(config_.parallel.pipeline);
        const std::optional<ScheduleKind> kind = schedule_called(config_.parallel.schedule);
        const double in_flight = kind == ScheduleKind::gpipe || kind == ScheduleKind::breadth_first ? batches_
                                 : kind && !is_v_shaped(*kind)
                                     ? std::min(batches_, ranks - static_cast<double>(stage))
                                     : std::min(batches_, ranks / 3); // as in v-min
        return layer_ + in_flight * kept_;
    }

    const RunConfig& config_;
    double batches_ = 1, value_ = 0, layer_ = 0, kept_ = 0;
};

/// Memory need of an arena of this size, as a multiple of a rank's memory or of the config's limit.
double excess(const RunConfig& config, const Machine& machine, Bytes most, double arena)
{
    const auto limit = static_cast<double>(config.parallel.memory_limit);
    const double needed = arena + static_cast<double>(machine.process);
    return std::max(limit > 0 ? arena / limit : 0, most > 0 ? needed / static_cast<double>(most) : 0);
}

/// Whether the lower bound of a grid's arena is within `most` and the config's limit. Avoids compiling, which
/// takes seconds for a large model.
bool may_fit(const RunConfig& config, const Machine& machine, Bytes most)
{
    if (excess(config, machine, most, LeastBytes(config).balanced()) > 1)
        return false;
    const auto largest = static_cast<double>(std::ranges::max(LeastBytes(config).of_stages()));
    return excess(config, machine, most, largest) <= 1;
}

} // namespace

std::vector<Bytes> least_bytes_of_stages(const RunConfig& config) { return LeastBytes(config).of_stages(); }

std::optional<Bytes> bytes_of_largest(const Candidate& given, Estimator& estimator, Bytes most)
{
    try {
        if (!may_fit(given.config, estimator.machine(), most))
            return std::nullopt;
        Candidate candidate = given.order.ranks.empty() ? choose_schedule(given.config, estimator) : given;
        candidate.config = with_memory_policy(candidate.config, candidate.order, estimator);
        const std::vector<Bytes> least = LeastBytes(given.config).of_stages();
        const Bytes bound = std::ranges::max(least);
        const auto may_be_largest = [&](i64 stage) {
            return stage < 2 || stage + 1 == candidate.order.shape.ranks ||
                   least[static_cast<std::size_t>(stage)] > bound * 4 / 5;
        };
        const std::optional<StagesNeed> need =
            estimator.needs(candidate, {given.config.parallel.memory_limit, most, may_be_largest});
        return need ? std::optional(need->bytes) : std::nullopt;
    } catch (const UserError&) { // the model does not fit the grid
        return std::nullopt;
    }
}

namespace {

/// Grids are compared with 1F1B if the order of the config's schedule is for one grid only: a file is, and
/// "auto" searches once the grid is chosen.
bool depends_on_grid(const std::string& schedule)
{
    return is_schedule_file(schedule) || schedule == automatic_schedule;
}

/// The first candidate that compiles within `most`. If many of the best are slightly too large, the smallest
/// come next, so that the search ends soon.
std::optional<RunConfig> first_that_fits(const RunConfig& config, const std::vector<i64>& micros, i64 ranks,
                                         Bytes most, Estimator& estimator, const GridEffort& effort)
{
    const Machine& machine = estimator.machine();
    std::multimap<double, RunConfig> others;
    int compiled = 0;
    const auto fits = [&](const RunConfig& chosen) {
        ++compiled;
        return bytes_of_largest({chosen, {}}, estimator, most).has_value();
    };
    const auto result = [&](RunConfig chosen) {
        if (config.parallel.schedule == automatic_schedule)
            chosen.parallel.schedule = automatic_schedule;
        return chosen;
    };
    for (const GridCandidate& c : candidates_for(config, micros, ranks, machine.ranks_per_node)) {
        RunConfig chosen = config_on(config, c.most_micro, c.data, c.pipeline, c.tensor);
        if (depends_on_grid(config.parallel.schedule)) {
            chosen.parallel.schedule = name_of(ScheduleKind::one_f_one_b);
            chosen.parallel.schedule_rows.clear();
        }
        const double bound = excess(config, machine, most, LeastBytes(chosen).balanced());
        if (bound > 1)
            continue;
        if (compiled >= effort.best)
            others.emplace(bound, std::move(chosen));
        else if (fits(chosen))
            return result(std::move(chosen));
    }
    for (const auto& [bound, chosen] : others) {
        if (most > 0 && compiled >= effort.best + effort.smallest)
            break;
        if (fits(chosen))
            return result(chosen);
    }
    return std::nullopt;
}

} // namespace

std::optional<RunConfig> grid_that_fits(const RunConfig& config, i64 ranks, Bytes memory,
                                        Estimator& estimator, const GridEffort& effort)
{
    return first_that_fits(config, {micro_batch(config)}, ranks, memory, estimator, effort);
}

RunConfig choose_grid(const RunConfig& config, i64 ranks, Bytes memory, Estimator& estimator)
{
    if (rank_count(config.parallel) == ranks)
        return config;
    const std::vector<i64> given{micro_batch(config)};
    std::vector<i64> smaller;
    for (i64 micro = config.train.micro_batch == 0 && memory > 0 ? given.front() / 2 : 0; micro > 0;
         micro /= 2)
        smaller.push_back(micro);
    // Try smaller microbatches if the config does not set their size; if no grid fits, ignore the memory.
    for (const auto& [micros, most] : {std::pair{given, memory}, {smaller, memory}, {given, Bytes{0}}})
        if (const std::optional<RunConfig> chosen =
                first_that_fits(config, micros, ranks, most, estimator, {}))
            return *chosen;
    throw UserError({"parallel.strategy", str("\"auto\" finds no grid for ", counted(ranks, "rank")),
                     str("the config's is ", describe_grid(config.parallel)),
                     "start as many ranks as the config's grid has; `trivium plan` shows what does not fit"});
}

} // namespace trivium
