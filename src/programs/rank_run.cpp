#include "programs/rank_run.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "ir/collectives.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/verify.hpp"
#include "plan/graph_file.hpp"
#include "programs/unroll_manual.hpp"
#include "runtime/communication.hpp"
#include "runtime/device.hpp"
#include "runtime/executor.hpp"
#include "schedule/lay_out.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

namespace trivium {

namespace {

/// The value of run lifetime in whose buffer v is, if an op has written it there.
ValueId updated_in_place(const Graph& graph, ValueId v)
{
    bool computed = false;
    while (const OpId producer = graph[v].producer) {
        const Op& op = graph[producer];
        const auto result = static_cast<std::size_t>(std::ranges::find(op.results, v) - op.results.begin());
        v = aliased_operand(op, result);
        computed = true;
        if (!v)
            return v;
    }
    return computed && graph[v].lifetime == Lifetime::run ? v : ValueId();
}

/// Whether the op writes a parameter or a state.
bool updates(const Graph& graph, const Op& op)
{
    return std::ranges::any_of(op.results, [&](ValueId v) { return updated_in_place(graph, v).valid(); });
}

/// Executors fetch outputs once, before the first update.
void require_fetchable(const Graph& graph, ValueId output)
{
    const OpId producer = graph[output].producer;
    if (!graph[output].sharding->partial.empty())
        throw UserError(
            {str(source_place(graph, graph[output].line), "%", graph[output].name),
             str("is an output, and partial over '", graph[output].sharding->partial[0].axis, "'"),
             "no rank has its elements", "remove the annotation, or output the result of a `reshard` of it"});
    if (!producer)
        return;
    const auto refuse = [&](const char* problem, const char* remedy) {
        throw UserError({place_of(graph, graph[producer]),
                         str("%", graph[output].name, ", an output, is computed ", problem), "", remedy});
    };
    if (graph[producer].region == Region::prologue)
        refuse("in the prologue", "compute it in the microbatch or in the epilogue");
    for (std::size_t i = 0; i < producer.index(); ++i)
        if (graph.ops[i].region == Region::epilogue && updates(graph, graph.ops[i]))
            refuse("after an update", "compute it before the first update of a parameter or a state");
}

/// Where an output's content is after the run: if no op computes it, where it came from.
struct Found {
    ValueId value; ///< invalid: it is another stage's
    ValueId kept;  ///< the run-lifetime value in whose buffer it is; invalid: the executor fetches it
};

const Buffer* kept_buffer_of(const Schedule& schedule, const std::string& name)
{
    for (const Buffer& buffer : schedule.buffers)
        if (buffer.lifetime == Lifetime::run && buffer.name == name)
            return &buffer;
    return nullptr; // nothing reads the value
}

class RankRun {
public:
    RankRun(const RankProgram& program, Comm& comm, const TensorSource& source)
        : global_(program.global), program_{program.local}, comm_(comm), source_(source)
    {
        if (comm.size() > 1)
            at_ = graph_.mesh.coordinates(comm.rank());
        for (const Value& value : global_.values)
            if (!value.producer)
                given_[value.name] = &value;
    }

    std::vector<TensorShard> run(const RankRunConfig& config)
    {
        const std::vector<Found> found = outputs();
        const ArenaPlans plans = lay_out({&program_, 1}, {config.scratch});
        const Schedule& schedule = program_.schedule;
        std::optional<Arenas> arenas;
        succeed_together(comm_, [&] { arenas.emplace(plans.device.arena, plans.host.arena); });
        const Mesh mesh = comm_.size() > 1 ? graph_.mesh : Mesh{};
        Grid grid(comm_, mesh, node_name(), config.delay, joint_axes(graph_));
        if (comm_.size() > 1)
            open_devices(grid);
        Executor executor(graph_, schedule, *arenas,
                          {.threads = config.threads, .red_zone = plans.device.red_zone}, &grid);
        fill_kept(schedule, *arenas);
        std::map<std::string, TensorBytes> fed; // repeated runs are fed without the work of the source
        const Feed feed = [&](const Value& value, i64, void* to) {
            if (config.repeats == 0)
                return read(value, static_cast<std::byte*>(to));
            const auto [at, first] = fed.try_emplace(value.name);
            if (first) {
                at->second.resize(static_cast<std::size_t>(value.type.bytes()));
                read(value, at->second.data());
            }
            std::memcpy(to, at->second.data(), at->second.size());
        };
        executor.run_until_decision(feed);
        executor.run_after_decision(feed);
        std::vector<TensorShard> shards;
        for (std::size_t i = 0; i < found.size(); ++i) {
            if (!found[i].value) {
                shards.push_back(absent(global_[global_.outputs[i]]));
                continue;
            }
            TensorShard shard = shard_of(found[i].value, global_[global_.outputs[i]].name);
            const auto bytes = shard.data.size();
            const Value& value = graph_[found[i].value];
            if (bytes > 0 && !value.producer) {
                read(value, shard.data.data());
            } else if (bytes > 0 && !found[i].kept) {
                std::memcpy(shard.data.data(), executor.fetched_data(value.name), bytes);
            } else if (bytes > 0) {
                const Buffer* buffer = kept_buffer_of(schedule, graph_[found[i].kept].name);
                TRV_CHECK(buffer, "no buffer of ", value.name);
                HostWindow window(arenas->of(buffer->space), buffer->offset, buffer->bytes);
                window.pull();
                std::memcpy(shard.data.data(), window.data(), bytes);
            }
            shards.push_back(std::move(shard));
        }
        for (int run = 0; run < config.repeats; ++run) {
            agree(comm_, 0); // start together
            const Seconds begin = now();
            executor.run_until_decision(feed);
            executor.run_after_decision(feed);
            agree(comm_, 0);
            if (config.times)
                config.times->push_back(now() - begin);
        }
        return shards;
    }

private:
    /// Finds the outputs, and makes those that the executor must fetch the outputs of the graph.
    std::vector<Found> outputs()
    {
        const std::vector<ValueId> own = std::exchange(graph_.outputs, {});
        std::vector<Found> found;
        std::size_t next = 0;
        for (const ValueId whole : global_.outputs) {
            if (is_elsewhere(whole)) {
                found.push_back({});
                continue;
            }
            TRV_CHECK(next < own.size(), "a rank's graph lacks the output ", global_[whole].name);
            const ValueId v = own[next++];
            found.push_back({v, updated_in_place(graph_, v)});
            if (found.back().kept || !graph_[v].producer)
                continue;
            require_fetchable(graph_, v);
            if (std::ranges::find(graph_.outputs, v) == graph_.outputs.end())
                graph_.outputs.push_back(v);
        }
        return found;
    }

    /// What a microbatch computes is an output of the stage that computes it.
    bool is_elsewhere(ValueId whole) const
    {
        const Value& value = global_[whole];
        const int axis = graph_.mesh.find(pipeline_axis);
        if (comm_.size() == 1 || axis < 0 || graph_.stage_of_block.empty() || !value.producer ||
            value.lifetime != Lifetime::microbatch)
            return false;
        return graph_.stage_of_block[static_cast<std::size_t>(global_[value.producer].block)] !=
               at_[static_cast<std::size_t>(axis)];
    }

    static TensorShard absent(const Value& whole)
    {
        const std::size_t dims = whole.type.shape.size();
        return {whole.name, whole.type, whole.sharding, {Shape(dims, 0), Shape(dims, 0)}, {}};
    }

    void fill_kept(const Schedule& schedule, const Arenas& arenas)
    {
        for (const Value& value : graph_.values)
            if (const Buffer* buffer = !value.producer && value.lifetime == Lifetime::run
                                           ? kept_buffer_of(schedule, value.name)
                                           : nullptr;
                buffer && buffer->bytes > 0) {
                HostWindow window(arenas.of(buffer->space), buffer->offset, buffer->bytes);
                read(value, window.data());
                window.push();
            }
    }

    /// This rank's content of a value that no op computes.
    void read(const Value& local, std::byte* to)
    {
        auto found = given_.find(local.name);
        if (found == given_.end() && local.name.ends_with(".part")) // an output that is reduced first
            found = given_.find(local.name.substr(0, local.name.size() - 5));
        TRV_CHECK(found != given_.end(), "the whole graph has no value ", local.name);
        const Value& whole = *found->second;
        if (comm_.size() > 1 && contributes_nothing(whole, graph_.mesh, at_, to, local.type.bytes()))
            return;
        const Box box = box_in(whole, local.sharding);
        TRV_CHECK(box.shape == local.type.shape, local.name, " is ", local.type);
        source_(whole, box, to);
    }

    Box box_in(const Value& whole, const Sharding& sharding) const
    {
        return comm_.size() > 1 ? box_of(whole.type.shape, sharding, graph_.mesh, at_)
                                : Box{Shape(whole.type.shape.size(), 0), whole.type.shape};
    }

    TensorShard shard_of(ValueId id, const std::string& name) const
    {
        const Value& local = graph_[id];
        const ValueId global = global_.find(name);
        TensorShard shard{name, local.type, local.sharding, {}, {}};
        if (global) {
            shard.type = global_[global].type;
            shard.box = box_in(global_[global], local.sharding);
            if (comm_.size() == 1) // the graph without partitioning has no shardings
                shard.sharding = global_[global].sharding;
        } else {
            shard.box = {Shape(local.type.shape.size(), 0), local.type.shape};
        }
        TRV_CHECK(shard.box.shape == local.type.shape, name, " is ", local.type);
        shard.data.resize(static_cast<std::size_t>(local.type.bytes()));
        return shard;
    }

    const Graph& global_;
    Program program_;
    Graph& graph_ = program_.graph;
    Comm& comm_;
    const TensorSource& source_;
    Coordinates at_;
    std::map<std::string, const Value*> given_;
};

} // namespace

std::vector<TensorShard> run_rank(const RankProgram& program, Comm& comm, const TensorSource& source,
                                  const RankRunConfig& config)
{
    return RankRun(program, comm, source).run(config);
}

Graph unpartitioned(const Graph& partitioned)
{
    Graph graph = unroll_manual(partitioned);
    graph.mesh = {};
    graph.stage_of_block.clear();
    std::vector<ValueId> to(graph.values.size());
    std::vector<bool> ops(graph.ops.size(), true), values(graph.values.size(), true);
    for (std::size_t i = 0; i < to.size(); ++i) {
        to[i] = ValueId(i);
        graph.values[i].sharding = {};
    }
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        Op& op = graph.ops[i];
        for (ValueId& v : op.operands)
            v = to[v.index()];
        if (!info(op).placement || is_floating(graph[op.operands[0]].type.dtype))
            continue;
        const ValueId from = op.operands[0], result = op.results[0];
        to[result.index()] = from;
        ops[i] = values[result.index()] = false;
    }
    for (ValueId& v : graph.outputs)
        v = to[v.index()];
    for (Carry& carry : graph.carries)
        carry.out = to[carry.out.index()];
    keep_only(graph, ops, values);
    verify(graph, Level::global);
    return graph;
}

RankProgram program_of_rank(const Graph& sharded, i64 rank, const Graph* decided, const WorkPrices& work)
{
    if (sharded.mesh.ranks() == 1)
        return {sharded, rank_graph(unpartitioned(sharded), 0, work)};
    return {sharded, decided ? rank_graph(*decided, rank, work) : local_graph(sharded, rank, work)};
}

} // namespace trivium
