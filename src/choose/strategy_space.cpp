#include "choose/strategy_space.hpp"

#include "base/check.hpp"
#include "choose/memory_policy.hpp"
#include "compile/describe.hpp"
#include "compile/pipeline.hpp"
#include "config/schedules.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>

namespace trivium {

std::vector<i64> divisors_of(i64 number)
{
    std::vector<i64> all;
    for (i64 d = 1; d * d <= number; ++d)
        if (number % d == 0) {
            all.push_back(d);
            if (d * d != number)
                all.push_back(number / d);
        }
    std::ranges::sort(all);
    return all;
}

std::vector<i64> tensor_degrees_of(ParallelConfig grid)
{
    grid.data = grid.pipeline = 1;
    return degrees_of(grid);
}

namespace {

bool is_given(const RunConfig& config, const std::string& key) { return config.given.contains(key); }

/// Tensor degrees: those over which heads and feed-forward columns divide evenly; on few ranks, all.
std::vector<i64> tensor_degrees(const ModelConfig& m, i64 ranks)
{
    std::vector<i64> all;
    const i64 queries = m.heads / m.kv_heads,
              width = m.experts == 0        ? m.ffn_dim
                      : m.dense_layers == 0 ? m.expert_dim
                                            : std::gcd(m.ffn_dim, m.expert_dim),
              most = std::min({std::max(m.kv_heads, queries), width, ranks});
    for (i64 t = 1; t <= most; ++t) {
        const bool even = (t <= m.kv_heads ? m.kv_heads % t == 0 : queries % t == 0) && width % t == 0;
        if (even)
            all.push_back(t);
    }
    return all;
}

/// The axes of the program, as those of `p` that shard tensors, with the degrees that are worth a look: those
/// that divide `ranks`, and powers of two.
std::vector<ParallelConfig> program_degrees(const RunConfig& config, i64 ranks)
{
    std::vector<ParallelConfig> all{config.parallel};
    const auto extend = [&](auto&& degree_of) {
        std::vector<ParallelConfig> longer;
        for (ParallelConfig p : all)
            for (i64 degree = 1; degree <= ranks; ++degree)
                if (ranks % degree == 0 || std::has_single_bit(static_cast<u64>(degree))) {
                    degree_of(p) = degree;
                    if (tensor_ranks(p) <= ranks)
                        longer.push_back(p);
                }
        all = std::move(longer);
    };
    for (ParallelConfig& p : all) {
        p.tensor = 1;
        for (ProgramAxes::Axis& axis : p.axes.list)
            axis.degree = 1;
    }
    if (std::ranges::count(config.model.program.axes, "tensor") > 0)
        extend([](ParallelConfig& p) -> i64& { return p.tensor; });
    for (std::size_t a = 0; a < config.parallel.axes.list.size(); ++a)
        extend([a](ParallelConfig& p) -> i64& { return p.axes.list[a].degree; });
    return all;
}

/// The grid with each ContextForm that it may have.
std::vector<ParallelConfig> with_each_form(const ParallelConfig& grid)
{
    if (grid.context_form != ContextForm::automatic)
        return {grid};
    std::vector<ParallelConfig> all(block_ranks(grid) > 1 ? 2 : 1, grid);
    all.front().context_form = ContextForm::gather;
    if (all.size() > 1)
        all.back().context_form = ContextForm::ring;
    return all;
}

/// Grids with context ranks, those among which attention exchanges heads, and forms that are worth a look on
/// `grid`'s tensor ranks: those of the config if it sets them, as many as `ranks` allow; otherwise more than
/// one where each has enough tokens to pay for keys and values of others.
std::vector<ParallelConfig> contexts_of(const RunConfig& config, ParallelConfig grid, i64 ranks, bool keep)
{
    const ParallelConfig& p = config.parallel;
    const ModelConfig& m = config.model;
    std::vector<ParallelConfig> all;
    const auto add = [&](i64 context, i64 heads) {
        grid.context = context;
        grid.context_heads = heads;
        for (ParallelConfig& each : with_each_form(grid))
            all.push_back(std::move(each));
    };
    if (is_given(config, "parallel.context")) {
        const i64 context = keep ? p.context : std::gcd(p.context, ranks);
        add(context, p.context_heads > 0 ? std::gcd(p.context_heads, context) : 0);
        return all;
    }
    constexpr i64 least_tokens = 8192;
    const i64 heads = kv_heads_of_rank(m, grid.tensor);
    add(1, 0);
    for (i64 context = 2; context * grid.tensor <= ranks && m.seq / context >= least_tokens; context *= 2) {
        add(context, 0);
        if (const i64 shared = std::gcd(context, static_cast<i64>(std::bit_floor(static_cast<u64>(heads))));
            shared > 1)
            add(context, shared);
    }
    return all;
}

/// How many of the data and context ranks may share experts: powers of two, or as the config says, as far as
/// there are ranks.
std::vector<i64> experts_of(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    const i64 most = c.model.experts > 0 ? std::gcd(group_ranks(p) * p.context, c.model.experts) : 1;
    if (is_given(c, "parallel.expert"))
        return {std::gcd(p.expert, most)};
    std::vector<i64> all;
    for (i64 experts = 1; most % experts == 0; experts *= 2)
        if (experts % p.context == 0 || p.context % experts == 0) // parts of one axis
            all.push_back(experts);
    return all;
}

/// Degrees of the axes that shard tensors; those of the config with `keep`, where it sets them.
std::vector<ParallelConfig> tensor_grids(const RunConfig& config, i64 ranks, bool keep)
{
    const bool program = config.model.is_program();
    const bool given = keep && is_given(config, "parallel.tensor");
    if (program)
        return given || (keep && is_given(config, "parallel.axes")) ? std::vector{config.parallel}
                                                                    : program_degrees(config, ranks);
    std::vector<ParallelConfig> all;
    for (const i64 tensor :
         given ? std::vector{config.parallel.tensor} : tensor_degrees(config.model, ranks)) {
        ParallelConfig grid = config.parallel;
        grid.tensor = tensor;
        for (ParallelConfig& each : contexts_of(config, grid, ranks, keep))
            all.push_back(std::move(each));
    }
    return all;
}

/// Microbatches of a data rank's sequences that are worth a look: powers of two, and all of them.
std::vector<i64> microbatches_of(const RunConfig& c, bool open)
{
    if (!open)
        return {micro_batch(c)};
    const i64 share = common_batch(c.train) / batch_ranks(c.parallel);
    std::vector<i64> all;
    for (i64 micro = 1; micro <= share && micro <= 64; micro *= 2)
        if (share % micro == 0)
            all.push_back(micro);
    if (share <= 16 && std::ranges::find(all, share) == all.end())
        all.push_back(share);
    return all;
}

std::vector<std::pair<std::string, i64>> schedules_for(const RunConfig& c, const OpenSettings& open)
{
    const ParallelConfig& p = c.parallel;
    const std::string usual(name_of(ScheduleKind::one_f_one_b));
    const auto fits = [&] { // the order of a file is for one grid
        try {
            training_order(c);
            return true;
        } catch (const UserError&) {
            return false;
        }
    };
    if (!open.schedule && (!is_schedule_file(p.schedule) || fits()))
        return {{p.schedule, p.chunks}};
    if (p.pipeline == 1)
        return {{usual, 0}};
    std::vector<std::pair<std::string, i64>> all;
    const i64 blocks = c.model.blocks(), count = microbatch_count(c);
    for (std::size_t k = 0; k < names_of_enum<ScheduleKind>.size(); ++k) {
        const auto kind = static_cast<ScheduleKind>(k);
        const ChunkRange range = chunks_of(kind);
        if (kind == ScheduleKind::gpipe) // 1F1B takes as long and keeps less
            continue;
        const i64 most = std::min<i64>({range.most, blocks / p.pipeline, 8});
        for (i64 chunks = std::max<i64>(range.least, kind == ScheduleKind::breadth_first ? 2 : 1);
             chunks <= most; ++chunks)
            if ((open.chunks || p.chunks == 0 || p.chunks == chunks) &&
                (kind != ScheduleKind::interleaved || count >= p.pipeline))
                all.emplace_back(name_of(kind), range.least == range.most ? 0 : chunks);
    }
    return all;
}

} // namespace

OpenSettings open_settings(const RunConfig& c)
{
    const auto open = [&](const char* key) { return !is_given(c, str("parallel.", key)); };
    OpenSettings all;
    all.micro_batch = c.train.micro_batch == 0;
    all.zero = open("zero");
    all.shard = open("shard");
    all.schedule = open("schedule") || c.parallel.schedule == automatic_schedule;
    all.chunks = open("chunks");
    all.sequence = open("sequence");
    all.recompute = open("recompute") || c.parallel.recompute == Recompute::automatic;
    all.recompute_layers = open("recompute_layers");
    all.update = open("update") || c.parallel.update == UpdateMode::automatic;
    all.order = open("order");
    return all;
}

std::vector<ParallelConfig> grids_for(const RunConfig& config, i64 ranks)
{
    const ParallelConfig& p = config.parallel;
    if (rank_count(p) == ranks)
        return with_each_form(p);
    const ModelConfig& m = config.model;
    i64 fixed = 1;
    for (const GridAxis& axis : grid_axes)
        if (axis.shards != AxisShards::batch && is_given(config, str("parallel.", axis.name)))
            fixed *= p.*axis.degree;
    for (const ProgramAxes::Axis& axis : p.axes.list)
        fixed *= is_given(config, "parallel.axes") ? axis.degree : 1;
    const bool keep = ranks % fixed == 0;
    const auto allowed = [&](const char* key, i64 degree, i64 given) {
        return !keep || !is_given(config, key) || degree == given;
    };
    const i64 batch = common_batch(config.train);
    std::vector<ParallelConfig> grids;
    for (ParallelConfig grid : tensor_grids(config, ranks, keep))
        for (const i64 data : divisors_of(batch)) {
            grid.data = data;
            grid.pipeline = 1;
            const i64 others = rank_count(grid), replicas = batch_ranks(grid);
            if (others > ranks)
                break;
            if (batch % replicas != 0 ||
                (config.train.micro_batch > 0 && batch / replicas % config.train.micro_batch != 0))
                continue;
            grid.shard = p.shard > 0 && data % p.shard != 0 ? 0 : p.shard;
            const i64 most = std::min(ranks / others, m.blocks());
            for (i64 pipeline = most; pipeline >= 1 && 2 * pipeline * others > ranks; --pipeline)
                if (allowed("parallel.pipeline", pipeline, p.pipeline) &&
                    (pipeline == most || pipeline * others == ranks || m.repeated() % pipeline == 0 ||
                     m.blocks() % pipeline == 0)) {
                    grid.pipeline = pipeline;
                    grids.push_back(grid);
                }
        }
    return grids;
}

void for_each_strategy(const RunConfig& config, const OpenSettings& open, const ParallelConfig& grid,
                       const Machine& machine, const std::function<void(const RunConfig&)>& visit)
{
    RunConfig c = config;
    c.parallel = grid;
    ParallelConfig& p = c.parallel;
    if (common_batch(c.train) % batch_ranks(p) != 0)
        return;
    // Groups of ZeRO: all data ranks, or those of a node; for others see with_other_groups().
    std::set<i64> shards{p.shard};
    const i64 near = machine.ranks_per_node > 0 ? machine.ranks_per_node / tensor_ranks(p) : 0;
    if (open.shard && near > 1 && near < p.data && p.data % near == 0)
        shards.insert(near);
    std::vector<i64> stages{p.zero};
    if (open.zero)
        stages = zero_ranks(p) > 1 ? std::vector<i64>{0, 1, 2, 3} : std::vector<i64>{0};
    if (p.update == UpdateMode::automatic)
        p.update = UpdateMode::synchronous;
    for (const i64 micro : microbatches_of(c, open.micro_batch)) {
        c.train.micro_batch = micro;
        for (const auto& [schedule, chunks] : schedules_for(c, open)) {
            p.schedule = schedule;
            p.chunks = chunks;
            const std::optional<ScheduleKind> kind = schedule_called(schedule);
            const i64 count = p.pipeline * (kind ? stages_per_rank(*kind, chunks) : std::max<i64>(chunks, 1));
            p.stage_layers =
                static_cast<i64>(grid.stage_layers.size()) == count ? grid.stage_layers : std::vector<i64>();
            for (const i64 zero : stages)
                for (const i64 shard : zero == 0 && open.shard ? std::set<i64>{0} : shards) {
                    p.zero = zero;
                    p.shard = shard;
                    for (const i64 experts : experts_of(c)) {
                        p.expert = experts;
                        visit(c);
                    }
                    p.expert = grid.expert;
                }
        }
    }
}

std::vector<RunConfig> memory_settings(const RunConfig& config, const OpenSettings& open)
{
    const ParallelConfig& p = config.parallel;
    std::vector<Recompute> levels{p.recompute};
    if (open.recompute)
        levels = {Recompute::none, Recompute::selective, Recompute::full};
    const auto transfers = transfers_of(p);
    std::vector<RunConfig> all;
    all.reserve(levels.size() * transfers.size());
    for (const Recompute level : levels)
        for (const auto& [gather, reduce] : transfers) {
            const bool gathers_once = p.gather_every == GatherEvery::automatic && gather == GatherEvery::step,
                       reduces_once = p.reduce_every == ReduceEvery::automatic && reduce == ReduceEvery::step;
            if (open.zero && (gathers_once || (p.zero == 2 && reduces_once)))
                continue; // a lower stage does the same
            RunConfig& one = all.emplace_back(config);
            one.parallel.recompute = level;
            if (open.recompute && open.recompute_layers)
                one.parallel.recompute_layers = 0;
            one.parallel.gather_every = gather;
            one.parallel.reduce_every = reduce;
        }
    return all;
}

i64 ranks_on_node(const ParallelConfig& grid, std::string_view axis, i64 degree, const Machine& machine)
{
    const i64 stride = stride_along(grid, axis);
    return machine.ranks_per_node == 0 ? degree
                                       : std::min(degree, (machine.ranks_per_node + stride - 1) / stride);
}

std::optional<RunConfig> in_other_order(RunConfig config, const OpenSettings& open, const Machine& machine)
{
    if (!open.order)
        return std::nullopt;
    const ParallelConfig before = config.parallel;
    std::vector<std::string>& order = config.parallel.order;
    const bool is_default = order.empty();
    order = {};
    if (is_default) {
        order = axes_in_order(config);
        std::iter_swap(std::ranges::find(order, "data"), std::ranges::find(order, "pipeline"));
    }
    const bool matters = std::ranges::any_of(named_degrees(before), [&](const auto& axis) {
        return ranks_on_node(before, axis.name, axis.degree, machine) !=
               ranks_on_node(config.parallel, axis.name, axis.degree, machine);
    });
    return matters ? std::optional(std::move(config)) : std::nullopt;
}

std::vector<RunConfig> with_other_groups(const RunConfig& config, const OpenSettings& open)
{
    std::vector<RunConfig> all;
    const ParallelConfig& p = config.parallel;
    for (i64 ranks = 1; open.shard && p.zero > 0 && ranks < p.data && p.data % ranks == 0; ranks *= 2) {
        const i64 shard = ranks == 1 ? 0 : ranks;
        if (shard != p.shard && (shard == 0 || shard * p.context % p.expert == 0)) // each expert has a rank
            all.emplace_back(config).parallel.shard = shard;
    }
    return all;
}

std::string rule_of(const RunConfig& config, const Machine& machine)
{
    const ParallelConfig& p = config.parallel;
    const bool node = ranks_on_node(p, "tensor", p.tensor, machine) == p.tensor;
    if (p.pipeline == 1 && tensor_ranks(p) == 1)
        return p.zero < 3 ? "data parallel" : shards_in_groups(p) ? "hybrid FSDP" : "FSDP";
    if (p.tensor > 1 && node && p.zero <= 1 && !config.model.is_program())
        return p.pipeline == 1 ? "tensor in a node" : "Megatron";
    return "";
}

std::string kind_key(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    return str(describe_degrees(p), " ", p.context_heads, " ", name_of(p.context_form), " ", p.expert, " ",
               p.zero, " ", p.shard, " ", c.train.micro_batch, " ", name_of(p.gather_every), " ", p.schedule,
               " ", name_of(p.update), " ", p.sequence, " ", name_of(p.reduce_every));
}

std::string key_of(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    return str(describe_degrees(p), " ", p.context_heads, " ", name_of(p.context_form), " ", p.expert, " ",
               p.zero, " ", p.shard, " ", c.train.micro_batch, " ", p.schedule, " ", p.chunks, " ",
               p.sequence, " ", name_of(p.recompute), " ", p.recompute_layers, " ", name_of(p.gather_every),
               " ", name_of(p.reduce_every), " ", name_of(p.update), " ", name_of(p.offload));
}

i64 recomputation_of(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    if (p.recompute == Recompute::none)
        return 0;
    const i64 layers = c.model.repeated(), below = p.recompute == Recompute::full ? layers : 0;
    return below + (p.recompute_layers == 0 ? layers : std::min(p.recompute_layers, layers));
}

RunConfig with_recomputation(RunConfig c, i64 steps)
{
    ParallelConfig& p = c.parallel;
    const i64 layers = c.model.repeated();
    p.recompute = steps == 0 ? Recompute::none : steps <= layers ? Recompute::selective : Recompute::full;
    p.recompute_layers = steps % layers; // 0: all
    return c;
}

std::vector<RunConfig> neighbours(const RunConfig& c, const RunConfig& config, const OpenSettings& open,
                                  const Machine& machine)
{
    std::vector<RunConfig> all;
    const auto add = [&](const std::function<void(RunConfig&)>& change) {
        RunConfig made = c;
        change(made);
        if (key_of(made) != key_of(c))
            all.push_back(std::move(made));
    };
    const ParallelConfig& p = c.parallel;
    for (RunConfig& other : with_other_groups(c, open))
        if (const i64 a = shard_ranks(p), b = shard_ranks(other.parallel); a == 2 * b || b == 2 * a)
            all.push_back(std::move(other));
    if (open.update && may_post_validate(c))
        add([](RunConfig& n) { n.parallel.update = UpdateMode::post_validated; });
    if (open.sequence && p.tensor > 1 && !c.model.is_program())
        add([](RunConfig& n) { n.parallel.sequence = !n.parallel.sequence; });
    if (auto other = in_other_order(c, open, machine))
        all.push_back(std::move(*other));
    // Everything that the space has on this grid, one setting apart; with all that memory_settings() has.
    ParallelConfig grid = p;
    grid.gather_every = config.parallel.gather_every;
    grid.reduce_every = config.parallel.reduce_every;
    for_each_strategy(config, open, grid, machine, [&](RunConfig other) {
        ParallelConfig& q = other.parallel;
        const int changed = (other.train.micro_batch != c.train.micro_batch) +
                            (q.schedule != p.schedule || q.chunks != p.chunks) + (q.zero != p.zero) +
                            (q.zero > 0 && p.zero > 0 && q.shard != p.shard);
        if (changed > 1)
            return;
        if (open.recompute) {
            q.recompute = p.recompute;
            q.recompute_layers = p.recompute_layers;
        }
        q.update = p.update;
        q.sequence = p.sequence;
        for (const RunConfig& each : memory_settings(other, open))
            if (each.parallel.recompute == q.recompute)
                add([&](RunConfig& n) {
                    n = each;
                    n.parallel.recompute_layers = q.recompute_layers;
                });
    });
    return all;
}

} // namespace trivium
