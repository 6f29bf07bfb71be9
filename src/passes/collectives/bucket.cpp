#include "passes/collectives/bucket.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/collectives.hpp"
#include "passes/sharding/moves.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

namespace trivium {

namespace {

BucketClass class_of(const Graph& graph, const Op& op)
{
    const Phase phase = op.region == Region::microbatch ? op.phase : Phase::forward;
    const int stage = op.region == Region::microbatch ? stage_of(graph, op) : 0;
    return {op.kind,
            op.region,
            phase,
            stage,
            *op.attrs->axis,
            op.attrs->combine,
            graph[op.operands[0]].type.dtype};
}

/// The classes of the ops that may be merged, without what they wait for; of the others, nothing.
std::vector<std::optional<BucketClass>> classes_of(const Graph& graph)
{
    const std::vector<bool> reduces = gradient_reductions(graph);
    std::vector<std::optional<BucketClass>> classes(graph.ops.size());
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        const bool awaited = op.region == Region::microbatch && !reduces[i] && !gathers_parameters(graph, op);
        if (info(op).bucket && op.operands.size() == 1 && (!awaited || reduces_to_all(op))) {
            classes[i] = class_of(graph, op);
            classes[i]->awaited = awaited;
        }
    }
    return classes;
}

/// By op: BucketMember::due, of a collective. In the prologue and the epilogue what computes is due where its
/// operands are. All ranks must form the same buckets, but contribute different operands: what they
/// contribute to is due no earlier than any op before it, but gathers, which are due at their readers.
std::vector<std::size_t> due_of(const Graph& graph)
{
    std::vector<std::size_t> first_reader(graph.values.size(), graph.ops.size()), due(graph.ops.size());
    for (std::size_t i = graph.ops.size(); i-- > 0;)
        for (const ValueId v : graph.ops[i].operands)
            first_reader[v.index()] = i;
    std::size_t latest = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        const bool gathers =
            info(op).communicates && (op.region == Region::prologue || gathers_parameters(graph, op));
        if (gathers) {
            due[i] = graph.ops.size();
            for (const ValueId v : op.results)
                due[i] = std::min(due[i], first_reader[v.index()]);
        } else if (op.region == Region::epilogue || info(op).communicates)
            for (const ValueId v : op.operands) {
                if (const OpId producer = graph[v].producer)
                    due[i] = std::max(due[i], due[producer.index()]);
            }
        else
            due[i] = i;
        if (info(op).contributes)
            due[i] = std::max(due[i], latest);
        if (!gathers)
            latest = std::max(latest, due[i]);
    }
    return due;
}

/// The members of a class, by the number of collectives of their class for which they wait, in the order of
/// buckets. `classes`: classes_of(graph).
std::map<BucketClass, std::vector<BucketMember>>
members_of(const Graph& graph, BucketClass one, const std::vector<std::optional<BucketClass>>& classes)
{
    std::vector<bool> belongs(classes.size());
    for (std::size_t i = 0; i < classes.size(); ++i)
        belongs[i] = classes[i] == one;
    std::map<BucketClass, std::vector<BucketMember>> members;
    std::vector<int> waits(graph.ops.size(), 0);
    const std::vector<std::size_t> due = due_of(graph);
    int deepest = 0;
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        // What some rank contributes may wait for any op before; all ranks must form the same buckets.
        if (info(graph.ops[i]).contributes)
            waits[i] = deepest;
        for (const ValueId v : graph.ops[i].operands)
            if (const OpId producer = graph[v].producer)
                waits[i] = std::max(waits[i], waits[producer.index()] + (belongs[producer.index()] ? 1 : 0));
        if (belongs[i]) {
            one.waits = waits[i];
            members[one].push_back({OpId(i), due[i]});
        }
        deepest = std::max(deepest, waits[i] + (belongs[i] ? 1 : 0));
    }
    for (auto& [each, list] : members)
        if (graph[list.front().op].region != Region::microbatch) // there they are in their order
            std::stable_sort(list.begin(), list.end(),
                             [](const BucketMember& a, const BucketMember& b) { return a.due < b.due; });
    return members;
}

/// Bytes of a collective's larger side on the first rank, which has the largest shards. All ranks must make
/// the same buckets: ranks with different shards along one axis meet in the collectives of another.
Bytes bytes_on_first_rank(const Graph& graph, const Op& op)
{
    const Shape& whole = graph[op.results[0]].whole;
    const auto bytes = [&](ValueId v) {
        const TensorType& type = graph[v].type;
        const DimAxes axes = dim_axes(graph[v].sharding);
        if (whole.size() != type.shape.size() ||
            axes.size() != whole.size()) // a graph that was not partitioned
            return type.bytes();
        return largest_shard({type.dtype, whole}, axes, graph.mesh);
    };
    return std::max(bytes(op.operands[0]), bytes(op.results[0]));
}

/// The buckets of one class.
class Buckets {
public:
    Buckets(Graph& graph, const BucketConfig& config, const BucketClass& of_class)
        : g_(graph), c_(config), class_(of_class)
    {
    }

    void run()
    {
        for (const auto& [one, list] : members_of(g_, class_, classes_of(g_)))
            if (const auto planned = c_.sizes.find(one); planned != c_.sizes.end())
                fill_planned(list, planned->second);
            else
                fill(list);
        if (!merged_.empty())
            rebuild();
    }

private:
    void fill_planned(const std::vector<BucketMember>& list, const std::vector<int>& sizes)
    {
        std::size_t next = 0;
        for (const int size : sizes) {
            std::vector<std::size_t> bucket;
            for (int i = 0; i < size && next < list.size(); ++i)
                bucket.push_back(list[next++].op.index());
            if (bucket.size() > 1)
                merged_.push_back(std::move(bucket));
        }
        TRV_CHECK(next == list.size(), "a plan of buckets for another graph");
    }

    void fill(const std::vector<BucketMember>& list)
    {
        if (c_.bytes == 0 && !c_.by_block)
            return;
        const bool by_block = class_.awaited || c_.by_block ||
                              (c_.microbatches_by_block && class_.region == Region::microbatch);
        const Bytes most = class_.awaited                        ? c_.awaited.at(class_.axis)
                           : class_.region == Region::microbatch ? c_.most
                                                                 : 0;
        std::vector<std::size_t> open;
        Bytes held = 0;
        const auto close = [&] {
            if (open.size() > 1)
                merged_.push_back(open);
            open.clear();
            held = 0;
        };
        for (const BucketMember& member : list) {
            const Op& op = g_[member.op];
            const Bytes bytes = bytes_on_first_rank(g_, op);
            if (!open.empty() &&
                ((by_block ? op.block != g_.ops[open.back()].block : held + bytes > c_.bytes) ||
                 (most > 0 && held + bytes > most)))
                close();
            open.push_back(member.op.index());
            held += bytes;
        }
        close();
    }

    /// Replaces the members and sorts each region again: by dependence, then by old position.
    void rebuild()
    {
        const Builder b(g_);
        std::vector<std::size_t> merged_into(g_.ops.size()); // by op: the op that replaces it
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            merged_into[i] = i;
        for (std::vector<std::size_t>& list : merged_) {
            std::vector<Op> ops;
            for (const std::size_t i : list)
                ops.push_back(g_.ops[i]);
            // What a gather reads is there; what a reduction reads is there when its last member runs.
            const auto [first, last] = std::minmax_element(list.begin(), list.end());
            const std::size_t place = gathers_parameters(g_, ops.front()) ? *first : *last;
            Op op = b.merged(ops);
            op.block = g_.ops[list.front()].block;
            op.scope = g_.ops[list.front()].scope;
            g_.ops[place] = std::move(op);
            for (const std::size_t i : list)
                merged_into[i] = place;
        }
        std::vector<std::vector<std::size_t>> after(g_.ops.size());
        std::vector<int> waits(g_.ops.size(), 0);
        const auto order = [&](std::size_t first, std::size_t then) {
            if (first != then) {
                after[first].push_back(then);
                ++waits[then];
            }
        };
        std::vector<std::vector<std::size_t>> readers(g_.values.size());
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (merged_into[i] == i)
                for (const ValueId v : g_.ops[i].operands) {
                    readers[v.index()].push_back(i);
                    if (const OpId producer = g_[v].producer)
                        order(merged_into[producer.index()], i);
                }
        for (std::size_t i = 0; i < g_.ops.size(); ++i) // a buffer is read before it is overwritten
            for (std::size_t r = 0; merged_into[i] == i && r < g_.ops[i].results.size(); ++r)
                if (const ValueId into = aliased_operand(g_.ops[i], r))
                    for (const std::size_t reader : readers[into.index()])
                        order(reader, i);
        // What ranks contribute to stays behind all of the epilogue before it, on every rank: see due_of().
        std::vector<std::size_t> before;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].region == Region::epilogue) {
                if (info(g_.ops[i]).contributes)
                    for (const std::size_t j : before)
                        order(j, i);
                before.push_back(merged_into[i]);
            }
        using Item = std::pair<Region, std::size_t>;
        std::priority_queue<Item, std::vector<Item>, std::greater<>> free;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (merged_into[i] == i && waits[i] == 0)
                free.push({g_.ops[i].region, i});
        std::vector<std::size_t> sorted;
        std::size_t gone = 0; // merged into other ops
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            gone += merged_into[i] != i;
        while (!free.empty()) {
            const std::size_t i = free.top().second;
            free.pop();
            for (const std::size_t then : after[i])
                if (--waits[then] == 0)
                    free.push({g_.ops[then].region, then});
            sorted.push_back(i);
        }
        TRV_CHECK(sorted.size() + gone == g_.ops.size(), "buckets wait for each other");
        reorder(g_, sorted);
    }

    Graph& g_;
    const BucketConfig& c_;
    const BucketClass& class_;
    std::vector<std::vector<std::size_t>> merged_;
};

} // namespace

std::map<BucketClass, std::vector<BucketMember>> bucket_members(const Graph& graph)
{
    std::map<BucketClass, std::vector<BucketMember>> all;
    const std::vector<std::optional<BucketClass>> classes = classes_of(graph);
    for (const std::optional<BucketClass>& each : std::set(classes.begin(), classes.end()))
        if (each && !each->awaited)
            all.merge(members_of(graph, *each, classes));
    return all;
}

Graph bucket(Graph graph, const BucketConfig& config)
{
    if (config.bytes == 0 && !config.by_block && config.sizes.empty())
        return graph;
    const std::vector<std::optional<BucketClass>> classes = classes_of(graph);
    // One class after another, so that each class sees for what the buckets of the previous one wait. If all
    // were merged at once, two buckets could each wait for a member of the other.
    for (const std::optional<BucketClass>& each : std::set(classes.begin(), classes.end()))
        if (each && (!each->awaited || config.awaited.contains(each->axis)))
            Buckets(graph, config, *each).run();
    return graph;
}

} // namespace trivium
