#include "passes/fuse.hpp"

#include "ir/ops/fusions.hpp"
#include "passes/simplify.hpp"

#include <algorithm>

namespace trivium {

namespace {

class Fuser {
public:
    explicit Fuser(Graph graph) : g_(std::move(graph)), uses_(uses_of(g_)) {}

    Graph run()
    {
        std::vector<Op> ops;
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (ops.empty() || fuses_with_next(i) || !join(ops.back(), g_.ops[i]))
                ops.push_back(std::move(g_.ops[i]));
        g_.ops = std::move(ops);
        drop_unproduced(g_);
        return std::move(g_);
    }

private:
    /// Replaces `first` by one op that does both, if a fusion fits.
    bool join(Op& first, const Op& second)
    {
        const Fusion* fusion = fitting(first, second);
        if (fusion)
            first = fused_op(g_, first, second, *fusion);
        return fusion != nullptr;
    }

    /// A recomputed sum must be fused as in the forward phase, with its norm.
    bool fuses_with_next(std::size_t i) const
    {
        return i + 1 < g_.ops.size() && fitting(g_.ops[i], g_.ops[i + 1]);
    }

    /// The fusion that fits, or null.
    const Fusion* fitting(const Op& first, const Op& second) const
    {
        if (first.region != second.region || first.phase != second.phase ||
            stage_of(g_, first) != stage_of(g_, second))
            return nullptr;
        const Fusion* fusion = find_fusion(g_, first, second);
        if (!fusion)
            return nullptr;
        const bool read_by_others = uses_[first.results[0].index()] > 1;
        if (keeps_middle(*fusion) ? !read_by_others && !in_place(fusion->fused) : read_by_others)
            return nullptr;
        return fusion;
    }

    /// Whether the last result may use an operand's buffer, so that it needs no memory.
    static bool in_place(OpKind kind)
    {
        const OpInfo& row = info(kind);
        const int last = static_cast<int>(row.results.size()) - 1;
        return std::any_of(row.in_place.begin(), row.in_place.end(),
                           [&](const Alias& alias) { return alias.result == last; });
    }

    Graph g_;
    const std::vector<int> uses_;
};

} // namespace

Graph fuse(Graph graph) { return Fuser(std::move(graph)).run(); }

} // namespace trivium
