#include "passes/bucket.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"

#include <algorithm>
#include <map>
#include <queue>
#include <tuple>

namespace trivium {

namespace {

using Class = std::tuple<OpKind, Region, std::string, std::string, DType>; ///< what a bucket's members share

class Buckets {
public:
    Buckets(Graph& graph, const BucketConfig& config) : g_(graph), c_(config)
    {
        rank_.assign(g_.ops.size(), 0);
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            rank_[i] = ready(g_.ops[i], i);
    }

    void run()
    {
        std::map<std::pair<Class, int>, std::vector<std::size_t>> members; // with how many of their class they wait for
        std::map<Class, std::vector<int>> depth;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (mergeable(g_.ops[i]))
                depth.try_emplace(class_of(g_.ops[i]));
        for (auto& [key, levels] : depth) {
            levels.assign(g_.ops.size(), 0);
            for (std::size_t i = 0; i < g_.ops.size(); ++i) {
                for (const ValueId v : g_.ops[i].operands)
                    if (const OpId producer = g_[v].producer) {
                        const bool one = mergeable(g_[producer]) && class_of(g_[producer]) == key;
                        levels[i] = std::max(levels[i], levels[producer.index()] + (one ? 1 : 0));
                    }
                if (mergeable(g_.ops[i]) && class_of(g_.ops[i]) == key)
                    members[{key, levels[i]}].push_back(i);
            }
        }
        for (auto& [key, list] : members)
            fill(list);
        if (!merged_.empty())
            rebuild();
    }

private:
    static std::string axis_of(const Op& op) { return text_attr(op.attrs, "axis"); }

    bool mergeable(const Op& op) const
    {
        return info(op).communicates && op.operands.size() == 1 && op.results.size() == 1 && op.region != Region::microbatch;
    }

    Class class_of(const Op& op) const
    {
        return {op.kind, op.region, axis_of(op), has_attr(op.attrs, "combine") ? text_attr(op.attrs, "combine") : "",
                g_[op.operands[0]].type.dtype};
    }

    /// When the collective's turn comes: the position of the first op that reads it, or of the last that it waits for.
    std::size_t ready(const Op& op, std::size_t index)
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
                last = std::max(last, rank_[producer.index()]);
        return last;
    }

    void fill(std::vector<std::size_t>& list)
    {
        std::stable_sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) { return rank_[a] < rank_[b]; });
        std::vector<std::size_t> open;
        Bytes held = 0;
        const auto close = [&] {
            if (open.size() > 1)
                merged_.push_back(open);
            open.clear();
            held = 0;
        };
        for (const std::size_t i : list) {
            const Bytes bytes = std::max(g_[g_.ops[i].operands[0]].type.bytes(), g_[g_.ops[i].results[0]].type.bytes());
            if (!open.empty() && (c_.by_block ? g_.ops[i].block != g_.ops[open.back()].block : held + bytes > c_.bytes))
                close();
            open.push_back(i);
            held += bytes;
        }
        close();
    }

    /// Replaces the members and sorts each region anew: by what an op needs, then by where it stood.
    void rebuild()
    {
        const Builder b(g_);
        std::vector<std::size_t> stands_for(g_.ops.size()); // the op in which op i goes on
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            stands_for[i] = i;
        for (std::vector<std::size_t>& list : merged_) {
            std::vector<Op> ops;
            for (const std::size_t i : list)
                ops.push_back(g_.ops[i]);
            const std::size_t last = *std::max_element(list.begin(), list.end());
            Op op = b.merged(ops);
            op.block = g_.ops[list.front()].block;
            op.scope = g_.ops[list.front()].scope;
            g_.ops[last] = std::move(op);
            for (const std::size_t i : list)
                stands_for[i] = last;
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
            if (stands_for[i] == i)
                for (const ValueId v : g_.ops[i].operands) {
                    readers[v.index()].push_back(i);
                    if (const OpId producer = g_[v].producer)
                        order(stands_for[producer.index()], i);
                }
        for (std::size_t i = 0; i < g_.ops.size(); ++i) // what is overwritten is read before
            for (std::size_t r = 0; stands_for[i] == i && r < g_.ops[i].results.size(); ++r)
                if (const ValueId into = aliased_operand(g_.ops[i], r))
                    for (const std::size_t reader : readers[into.index()])
                        order(reader, i);
        using Item = std::pair<Region, std::size_t>;
        std::priority_queue<Item, std::vector<Item>, std::greater<>> free;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (stands_for[i] == i && waits[i] == 0)
                free.push({g_.ops[i].region, i});
        std::vector<Op> sorted;
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
        g_.ops = std::move(sorted);
    }

    Graph& g_;
    const BucketConfig& c_;
    std::vector<std::size_t> rank_;
    std::vector<std::vector<std::size_t>> merged_;
};

} // namespace

Graph bucket(Graph graph, const BucketConfig& config)
{
    if (config.bytes > 0 || config.by_block)
        Buckets(graph, config).run();
    return graph;
}

} // namespace trivium
