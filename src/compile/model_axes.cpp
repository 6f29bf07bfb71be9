#include "compile/model_axes.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"

#include <algorithm>
#include <numeric>

namespace trivium {

namespace {

/// `axis`: that of the expert ranks, if there are several.
void share_experts(ModelAxes& axes, const RunConfig& config, const std::vector<std::string>& axis)
{
    const ParallelConfig& p = config.parallel;
    const ModelConfig& m = config.model;
    const auto require = [](bool holds, const char* place, const std::string& problem,
                            const std::string& reason, const std::string& remedy) {
        if (!holds)
            throw UserError({place, problem, reason, remedy});
    };
    require(m.experts > 0 || p.expert == 1, "parallel.expert",
            str("is ", p.expert, ", but the model has no experts"), "model.experts is 0",
            "set one of the two keys");
    if (m.experts == 0)
        return;
    axes.token_groups = {batch_ranks(p), p.context};
    require(m.seq % p.context == 0, "parallel.context",
            str(counted(p.context, "context rank"), " cannot share ", m.seq, " tokens equally"),
            "with model.experts each of them has as many", str("make model.seq a multiple of ", p.context));
    require(m.expert_capacity == 0 || p.context == 1, "model.expert_capacity",
            "limits the tokens of a sequence, which several ranks share",
            str("parallel.context = ", p.context), "set expert_capacity to 0, or parallel.context to 1");
    const i64 ranks = group_ranks(p) * p.context;
    i64 most = std::min(p.expert, std::gcd(ranks, m.experts));
    while (ranks % most != 0 || m.experts % most != 0)
        --most;
    const std::string remedy = str("set it to ", most, ", or to another divisor of both");
    const auto nests = [&](i64 part) { return part % p.expert == 0 || p.expert % part == 0; };
    require(nests(p.context) && nests(std::max<i64>(p.context_heads, 1)), "parallel.expert",
            str("is ", p.expert, ", neither a divisor nor a multiple of ", counted(p.context, "context rank"),
                p.context_heads > 1 ? str(" and of ", p.context_heads, " by heads") : ""),
            "both are the fastest part of data x context", "choose such a number");
    require(m.experts % p.expert == 0, "parallel.expert",
            str(counted(p.expert, "rank"), " cannot share ", counted(m.experts, "expert")),
            str("model.experts = ", m.experts, " is not a multiple"), remedy);
    require(
        ranks % p.expert == 0, "parallel.expert",
        str("is ", p.expert, ", which does not divide the ", counted(ranks, "rank"), " of data x context"),
        shards_in_groups(p) ? "expert ranks are in one group of parallel.shard" : "", remedy);
    if (p.expert == 1)
        return;
    axes.expert_ranks = p.expert;
    axes.experts = axis.at(0);
    axes.expert_buffer = p.expert_buffer;
    axes.drops_overflow = p.expert_buffer > 0 && p.expert_overflow == ExpertOverflow::drop;
}

} // namespace

ModelAxes model_axes(const RunConfig& config)
{
    const ParallelConfig& p = config.parallel;
    const ModelConfig& m = config.model;
    ModelAxes axes;
    const i64 data = group_ranks(p), heads = std::max<i64>(p.context_heads, 1);
    const auto part = [&](i64 major, i64 size) -> std::vector<std::string> {
        if (size > 1 && size == data * p.context)
            return {data_axis};
        return size > 1 ? std::vector{str(data_axis, ":(", major, ")", size)} : std::vector<std::string>{};
    };
    axes.batch = p.context > 1 ? part(1, data) : std::vector<std::string>{data_axis};
    if (shards_in_groups(p))
        axes.batch.insert(axes.batch.begin(), replica_axis);
    if (m.is_program())
        return axes;
    axes.context = part(data, p.context / heads);
    axes.context_heads = part(data * p.context / heads, heads);
    axes.context_ranks = p.context / heads;
    share_experts(axes, config, part(data * p.context / std::gcd(p.expert, data * p.context), p.expert));
    const auto require = [&](bool holds, const char* key, i64 extent, const char* what) {
        if (!holds)
            throw UserError({"parallel.tensor",
                             str(p.tensor, " tensor ranks cannot share ", extent, " ", what),
                             str(key, " = ", extent), str("set parallel.tensor to ", extent, " or less")});
    };
    if (const i64 least = p.context * (p.sequence ? p.tensor : 1); p.context > 1 && m.seq < 2 * least)
        throw UserError({"parallel.context", str(p.context, " context ranks cannot share ", m.seq, " tokens"),
                         str("each of them", p.sequence && p.tensor > 1 ? ", and tensor rank," : "",
                             " has at least 2 of model.seq"),
                         str("set model.seq to ", 2 * least, " or more, or a smaller parallel.context")});
    if (const i64 shared = kv_heads_of_rank(m, p.tensor); shared < heads)
        throw UserError({"parallel.context_heads",
                         str(heads, " context ranks cannot share ", counted(shared, "key-value head")),
                         str("model.kv_heads = ", m.kv_heads,
                             p.tensor > 1 ? str(", shared by ", counted(p.tensor, "tensor rank")) : ""),
                         str("set it to ", shared, " or less")});
    const i64 queries = m.heads / m.kv_heads;
    require(std::max(m.kv_heads, queries) >= p.tensor,
            queries > m.kv_heads ? "model.heads / model.kv_heads" : "model.kv_heads",
            std::max(m.kv_heads, queries),
            queries > m.kv_heads ? "query heads of a key-value head" : "key-value heads");
    require(m.ffn_dim >= p.tensor, "model.ffn_dim", m.ffn_dim, "columns of the feed-forward layer");
    if (m.experts > 0)
        require(m.expert_dim >= p.tensor, "model.expert_dim", m.expert_dim, "columns of an expert");
    if (m.shared_dim > 0)
        require(m.shared_dim >= p.tensor, "model.shared_dim", m.shared_dim, "columns of the shared experts");
    require(m.vocab >= p.tensor, "model.vocab", m.vocab, "tokens of the vocabulary");
    axes.tensor = tensor_axis;
    axes.sequence = p.sequence && p.tensor > 1;
    axes.split_queries = m.kv_heads < p.tensor;
    if (axes.sequence)
        require(m.seq >= p.tensor, "model.seq", m.seq, "tokens of a sequence");
    return axes;
}

Mesh mesh_of(const ParallelConfig& p)
{
    const i64 data = group_ranks(p);
    Mesh mesh;
    if (data < p.data)
        mesh.axes.push_back({replica_axis, p.data / data});
    for (const GridAxis& axis : grid_axes)
        if (axis.shards != AxisShards::tokens) // part of `data`
            mesh.axes.push_back(
                {axis.name, axis.name == std::string_view(data_axis) ? data * p.context : p.*axis.degree});
    for (const ProgramAxes::Axis& axis : p.axes.list)
        mesh.axes.push_back({axis.name, axis.degree});
    std::ranges::stable_sort(mesh.axes, {},
                             [&](const MeshAxis& axis) { return position_in_order(p, axis.name); });
    return mesh;
}

i64 stage_of(const Mesh& mesh, i64 rank)
{
    return mesh.coordinates(rank)[static_cast<std::size_t>(mesh.find(pipeline_axis))];
}

Coordinates first_of_stage(const Mesh& mesh, i64 stage)
{
    Coordinates first(mesh.axes.size(), 0);
    first[static_cast<std::size_t>(mesh.find(pipeline_axis))] = stage;
    return first;
}

bool is_first_of_stage(const Mesh& mesh, i64 rank)
{
    return mesh.rank(first_of_stage(mesh, stage_of(mesh, rank))) == rank;
}

} // namespace trivium
