#include "passes/bucket.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "ir/collectives.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <set>
#include <tuple>

namespace trivium {

namespace {

/// The properties that all members of a bucket share.
using Class = std::tuple<OpKind, Region, Phase, std::string, std::optional<Combine>, DType>;

Class class_of(const Graph& graph, const Op& op)
{
    const Phase phase = op.region == Region::microbatch ? op.phase : Phase::forward;
    return {op.kind, op.region, phase, *op.attrs.axis, op.attrs.combine, graph[op.operands[0]].type.dtype};
}

/// The classes of the ops that may be merged; of the others, nothing.
std::vector<std::optional<Class>> classes_of(const Graph& graph)
{
    const std::vector<bool> reduces = gradient_reductions(graph);
    std::vector<std::optional<Class>> classes(graph.ops.size());
    for (std::size_t i = 0; i < graph.ops.size(); ++i) {
        const Op& op = graph.ops[i];
        if (info(op).bucket && op.operands.size() == 1 &&
            (op.region != Region::microbatch || reduces[i] || gathers_parameters(graph, op)))
            classes[i] = class_of(graph, op);
    }
    return classes;
}

/// For each value, the position of the collective that computes it in the order of its bucket: that of the
/// first op that reads it, or of the last op for which it waits.
class Positions {
public:
    explicit Positions(const Graph& graph)
        : g_(graph), of_op_(graph.ops.size(), 0), of_(graph.values.size(), 0)
    {
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            of_op_[i] = ready(g_.ops[i], i);
            for (const ValueId v : g_.ops[i].results)
                of_[v.index()] = of_op_[i];
        }
    }
    std::vector<std::size_t> result() { return std::move(of_); }

private:
    std::size_t ready(const Op& op, std::size_t index) const
    {
        if (op.region == Region::microbatch || !info(op).communicates)
            return index;
        if (op.region == Region::prologue) {
            for (std::size_t i = index + 1; i < g_.ops.size(); ++i)
                for (const ValueId v : g_.ops[i].operands)
                    if (std::find(op.results.begin(), op.results.end(), v) != op.results.end())
                        return i;
            return g_.ops.size();
        }
        std::size_t last = 0;
        for (const ValueId v : op.operands)
            if (const OpId producer = g_[v].producer)
                last = std::max(last, of_op_[producer.index()]);
        return last;
    }

    const Graph& g_;
    std::vector<std::size_t> of_op_, of_;
};

/// The buckets of one class.
class Buckets {
public:
    Buckets(Graph& graph, const BucketConfig& config, const Class& of_class,
            const std::vector<std::size_t>& positions)
        : g_(graph), c_(config), class_(of_class), positions_(positions), belongs_(graph.ops.size())
    {
        const std::vector<std::optional<Class>> classes = classes_of(g_);
        for (std::size_t i = 0; i < classes.size(); ++i)
            belongs_[i] = classes[i] == class_;
    }

    void run()
    {
        std::map<int, std::vector<std::size_t>>
            members; // by the number of collectives of their class for which they wait
        std::vector<int> depth(g_.ops.size(), 0);
        int deepest = 0;
        for (std::size_t i = 0; i < g_.ops.size(); ++i) {
            // What some rank contributes may wait for any op before; all ranks must form the same buckets.
            if (info(g_.ops[i]).contributes)
                depth[i] = deepest;
            for (const ValueId v : g_.ops[i].operands)
                if (const OpId producer = g_[v].producer)
                    depth[i] =
                        std::max(depth[i], depth[producer.index()] + (belongs_[producer.index()] ? 1 : 0));
            if (belongs_[i])
                members[depth[i]].push_back(i);
            deepest = std::max(deepest, depth[i] + (belongs_[i] ? 1 : 0));
        }
        for (auto& [waits, list] : members)
            fill(list);
        if (!merged_.empty())
            rebuild();
    }

private:
    void fill(std::vector<std::size_t>& list)
    {
        const auto position = [&](std::size_t i) { return positions_[g_.ops[i].results[0].index()]; };
        std::stable_sort(list.begin(), list.end(),
                         [&](std::size_t a, std::size_t b) { return position(a) < position(b); });
        const bool by_block =
            c_.by_block || (c_.microbatches_by_block && std::get<Region>(class_) == Region::microbatch);
        std::vector<std::size_t> open;
        Bytes held = 0;
        const auto close = [&] {
            if (open.size() > 1)
                merged_.push_back(open);
            open.clear();
            held = 0;
        };
        for (const std::size_t i : list) {
            const Bytes bytes =
                std::max(g_[g_.ops[i].operands[0]].type.bytes(), g_[g_.ops[i].results[0]].type.bytes());
            if (!open.empty() &&
                (by_block ? g_.ops[i].block != g_.ops[open.back()].block : held + bytes > c_.bytes))
                close();
            open.push_back(i);
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
        using Item = std::pair<Region, std::size_t>;
        std::priority_queue<Item, std::vector<Item>, std::greater<>> free;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (merged_into[i] == i && waits[i] == 0)
                free.push({g_.ops[i].region, i});
        std::vector<Op> sorted;
        std::size_t gone = 0; // merged into other ops
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            gone += merged_into[i] != i;
        while (!free.empty()) {
            const std::size_t i = free.top().second;
            free.pop();
            for (const std::size_t then : after[i])
                if (--waits[then] == 0)
                    free.push({g_.ops[then].region, then});
            for (const ValueId v : g_.ops[i].results)
                g_[v].producer = OpId(sorted.size());
            sorted.push_back(std::move(g_.ops[i]));
        }
        TRV_CHECK(sorted.size() + gone == g_.ops.size(), "buckets wait for each other");
        g_.ops = std::move(sorted);
    }

    Graph& g_;
    const BucketConfig& c_;
    const Class& class_;
    const std::vector<std::size_t>& positions_; ///< by value
    std::vector<bool> belongs_;                 ///< by op: to the class
    std::vector<std::vector<std::size_t>> merged_;
};

} // namespace

Graph bucket(Graph graph, const BucketConfig& config)
{
    if (config.bytes == 0 && !config.by_block)
        return graph;
    std::set<Class> classes;
    for (const std::optional<Class>& each : classes_of(graph))
        if (each)
            classes.insert(*each);
    // One class after another, so that each class sees for what the buckets of the previous one wait. If all
    // were merged at once, two buckets could each wait for a member of the other. Positions are those before,
    // because shards and so buckets of one axis differ between the ranks of another.
    const std::vector<std::size_t> positions = Positions(graph).result();
    for (const Class& each : classes)
        Buckets(graph, config, each, positions).run();
    return graph;
}

} // namespace trivium
