#include "choose/least_bytes.hpp"

#include "compile/compile.hpp"
#include "config/schedules.hpp"
#include "config/trained_parameters.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <limits>
#include <optional>

namespace trivium {

namespace {

/// How many states the op called `update` keeps of a parameter.
std::size_t count_states(std::string_view update) { return find_op(update)->states.size(); }

/// Of the feed-forward block of a layer, as a token sees it.
i64 least_width(const ModelConfig& m)
{
    const i64 experts = m.expert_capacity > 0 ? 0 : m.expert_slots * m.expert_dim;
    return m.experts == 0        ? m.ffn_dim
           : m.dense_layers == 0 ? experts + m.shared_dim
                                 : std::min(m.ffn_dim, experts + m.shared_dim);
}

/// Lower bounds of the bytes that a rank holds.
class LeastBytes {
public:
    explicit LeastBytes(const RunConfig& config) : config_(config), trained_(trained_parameters(config))
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
        const double kept =
            static_cast<double>(1 + (config.train.ema > 0 ? 1 : 0) +
                                std::min(count_states(optimizer.matrices), count_states(optimizer.others))) *
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
        frozen_ = compute / (stages == 3 ? static_cast<double>(shard_ranks(p)) : 1) / tensor;
        layer_ = least_of_layers();
        // Activations that a layer keeps per microbatch: the operands of its products and of attention.
        const double width = 2.0 * static_cast<double>(m.dim) +
                             static_cast<double>((m.heads + m.kv_heads) * (m.head_dim + value_dim(m))) +
                             (m.gated ? 3 : 1) * static_cast<double>(least_width(m));
        if (p.recompute == Recompute::none || (p.recompute == Recompute::automatic && p.memory_limit == 0))
            kept_ = static_cast<double>(micro * m.seq) * width * (config.train.fp8 ? 1 : compute) /
                    (tensor * static_cast<double>(p.context));
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
        const auto table = [&](const char* name) {
            return as_held(name) * static_cast<double>(m.vocab * m.dim);
        };
        std::vector<Bytes> least;
        for (int stage = 0; stage < config_.parallel.pipeline; ++stage) {
            const auto layers =
                static_cast<double>(std::count(stage_of.begin() + 1, stage_of.end() - 1, stage));
            const bool first = stage_of.front() == stage, last = stage_of.back() == stage;
            const double tables = (first ? table("embed.weight") : 0) +
                                  (last && !(m.tied_embeddings && first)
                                       ? table(m.tied_embeddings ? "embed.weight" : "head.weight")
                                       : 0);
            least.push_back(static_cast<Bytes>(layers * of_layer(stage) + tables));
        }
        return least;
    }

private:
    /// Of the parameters of a layer, but for adapters.
    double least_of_layers() const
    {
        const ModelConfig& m = config_.model;
        const i64 experts = m.experts / config_.parallel.expert; // of a rank
        const bool all = trained_.freeze.empty() && !trained_.has_lora();
        std::vector<i64> layers{0, m.layers - 1};
        for (i64 layer = 1; !all && layer + 1 < m.layers; ++layer)
            layers.push_back(layer);
        double least = std::numeric_limits<double>::infinity();
        for (const i64 layer : layers) {
            double bytes = 0;
            for (const ModelParameter& parameter : layer_parameters(m, layer))
                bytes += as_held(str("layers.", layer, ".", parameter.name)) *
                         static_cast<double>(element_count(m, parameter, experts));
            least = std::min(least, bytes);
        }
        return least;
    }

    /// Bytes per element of a parameter.
    double as_held(const std::string& name) const
    {
        return trained_.is_frozen(name) ? std::min(frozen_, value_) : value_;
    }

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
    const TrainedParameters trained_;
    double batches_ = 1, value_ = 0, frozen_ = 0, layer_ = 0, kept_ = 0;
};

} // namespace

std::vector<Bytes> least_bytes_of_stages(const RunConfig& config)
{
    if (config.model.is_program()) // no closed form
        return std::vector<Bytes>(static_cast<std::size_t>(config.parallel.pipeline), 0);
    return LeastBytes(config).of_stages();
}

Bytes least_bytes_of_largest(const RunConfig& config)
{
    if (config.model.is_program())
        return 0;
    return static_cast<Bytes>(LeastBytes(config).balanced());
}

} // namespace trivium
