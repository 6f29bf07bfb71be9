#include "passes/sharding/overlap_halos.hpp"

#include "ir/builder.hpp"
#include "ir/exchange.hpp"
#include "passes/simplify.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace trivium {

namespace {

/// How an op that reads a halo is divided.
struct Division {
    std::size_t op = 0, operand = 0; ///< the op, and its operand that is the result of the halo
    FactorRule rule;
    ValueId own;            ///< the rank's box
    std::vector<i64> shift; ///< from an index of the halo's result to that of `own`, by dimension
    struct Cut {
        int factor = 0;
        IndexRange interior; ///< its indices whose windows are in the rank's box
    };
    std::vector<Cut> cuts;
};

/// The most indices of `window`'s factor, which has `size`, that together read nothing outside `own` of
/// `extent`.
IndexRange interior_of(const Window& window, i64 size, const IndexRange& own, i64 extent)
{
    IndexRange made{0, size};
    while (made.size > 0) {
        const IndexRange read = window_of(window, made, extent);
        const bool before = read.begin < own.begin;
        if (read.size == 0 || (!before && read.begin + read.size <= own.begin + own.size))
            break;
        made.begin += before ? 1 : 0;
        --made.size;
    }
    return made;
}

bool is_halo_of(const Graph& g, const Op& reader, ValueId v)
{
    const OpId producer = g[v].producer;
    return producer && info(g[producer]).exchanges && g[producer].region == reader.region &&
           g[producer].phase == reader.phase && stage_of(g, g[producer]) == stage_of(g, reader);
}

/// How op `i` may be divided by its operand `operand`, the result of a halo.
std::optional<Division> division_of(const Graph& g, std::size_t i, std::size_t operand)
{
    const Op& op = g.ops[i];
    const ValueId h = op.operands[operand];
    const auto of_part = [&](const NumberLists::Entry& list) { return info(op).of_part.has(list.attr); };
    if (!info(op).localize || op.results.size() != 1 || op.accumulate ||
        std::ranges::count(op.operands, h) > 1 || std::ranges::any_of(op.attrs->lists.entries(), of_part))
        return {};
    const Op& halo = g[g[h].producer];
    const BoxExchangeShape boxes = exchange_of(g, halo);
    const auto rank = static_cast<std::size_t>(exchange_rank(g, halo));
    const Box &have = boxes.owned[rank], &need = boxes.needed[rank];
    const std::optional<Box> both = common_part(have, need);
    if (!both)
        return {};
    Division made{i, operand, rule_of(g, op), halo.operands[0], {}, {}};
    for (std::size_t d = 0; d < need.shape.size(); ++d) {
        made.shift.push_back(need.offset[d] - have.offset[d]);
        const IndexRange own{both->offset[d] - need.offset[d], both->shape[d]};
        if (own.size == need.shape[d])
            continue;
        const Factor& read = made.rule[made.rule.operands[operand][d]];
        if (!read.window || read.window->stride < 1)
            return {};
        const Factor& factor = made.rule[read.window->of];
        const IndexRange interior = interior_of(*read.window, factor.size, own, need.shape[d]);
        if (factor.kind != FactorKind::parallel || interior.size == 0)
            return {};
        const i64 after = interior.begin + interior.size;
        for (const IndexRange& part :
             {IndexRange{0, interior.begin}, interior, IndexRange{after, factor.size - after}})
            if (part.size > 0 && window_of(*read.window, part, need.shape[d]).size == 0)
                return {};
        made.cuts.push_back({read.window->of, interior});
    }
    for (const std::vector<FactorList>* tensors : {&made.rule.operands, &made.rule.results})
        for (const FactorList& dims : *tensors)
            for (const int dim : dims)
                for (const int part : made.rule[dim].parts)
                    if (std::ranges::any_of(made.cuts, [&](const auto& cut) { return cut.factor == part; }))
                        return {};
    return made;
}

class Divider {
public:
    Divider(const Graph& graph, const std::map<std::size_t, Division>& divisions)
        : from_(graph), divisions_(divisions), g_(graph.without_ops()), b_(g_),
          made_(graph.values.size(), true)
    {
        for (const Op& op : graph.ops)
            for (const ValueId v : op.results)
                made_[v.index()] = false;
        for (const auto& [i, division] : divisions)
            of_halo_[halo_of(division)].push_back(i);
    }

    /// What the parts of a divided op became.
    struct Parts {
        std::vector<std::size_t> interior, rest; ///< ops
    };

    void run()
    {
        for (std::size_t i = 0; i < from_.ops.size(); ++i) {
            for (const ValueId v : from_.ops[i].operands)
                if (const auto readers = of_halo_.find(v); readers != of_halo_.end())
                    for (const std::size_t reader : readers->second)
                        begin(reader);
            if (divisions_.contains(i))
                end(i);
            else
                push(from_.ops[i]);
        }
    }
    /// \pre run()
    const Graph& graph() const { return g_; }
    Graph take() { return std::move(g_); }
    const Parts& parts(std::size_t op) const { return parts_.at(op); }

private:
    ValueId halo_of(const Division& division) const
    {
        return from_.ops[division.op].operands[division.operand];
    }

    void push(const Op& op)
    {
        for (const ValueId v : op.results) {
            g_[v].producer = OpId(g_.ops.size());
            made_[v.index()] = true;
        }
        g_.ops.push_back(op);
    }

    /// Appends the interior, if all that it reads has been made.
    void begin(std::size_t i)
    {
        const Division& d = divisions_.at(i);
        const Op& op = from_.ops[i];
        if (interior_.contains(i) ||
            !std::ranges::all_of(op.operands, [&](ValueId v) { return made_[v.index()]; }))
            return;
        std::vector<IndexRange> ranges = all_of(d);
        for (const Division::Cut& cut : d.cuts)
            ranges[static_cast<std::size_t>(cut.factor)] = cut.interior;
        const std::size_t first = g_.ops.size();
        interior_[i] = piece(d, ranges, true);
        note(parts_[i].interior, first);
    }

    /// Appends the other parts, and the whole.
    void end(std::size_t i)
    {
        begin(i);
        const Division& d = divisions_.at(i);
        const std::size_t first = g_.ops.size();
        const ValueId whole = rest(d, 0, all_of(d));
        note(parts_[i].rest, first);
        Op& last = g_.ops[g_[whole].producer.index()];
        last.results = from_.ops[i].results;
        g_[last.results[0]].producer = g_[whole].producer;
        made_[last.results[0].index()] = true;
    }

    void note(std::vector<std::size_t>& ops, std::size_t first) const
    {
        for (std::size_t i = first; i < g_.ops.size(); ++i)
            ops.push_back(i);
    }

    static std::vector<IndexRange> all_of(const Division& d)
    {
        std::vector<IndexRange> ranges;
        for (const Factor& factor : d.rule.factors)
            ranges.push_back({0, factor.size});
        return ranges;
    }

    /// The op's result for these ranges, of which the first `cut` factors are cut already.
    ValueId rest(const Division& d, std::size_t cut, std::vector<IndexRange> ranges)
    {
        if (cut == d.cuts.size())
            return interior_.at(d.op);
        const auto& [factor, interior] = d.cuts[cut];
        IndexRange& range = ranges[static_cast<std::size_t>(factor)];
        const i64 end = range.size, after = interior.begin + interior.size;
        std::vector<ValueId> parts;
        if (interior.begin > 0) {
            range = {0, interior.begin};
            parts.push_back(piece(d, ranges, false));
        }
        range = interior;
        parts.push_back(rest(d, cut + 1, ranges));
        if (after < end) {
            range = {after, end - after};
            parts.push_back(piece(d, ranges, false));
        }
        b_.where = Builder::where_of(from_.ops[d.op]);
        const FactorList& result = d.rule.results[0];
        const auto dim = static_cast<std::size_t>(std::ranges::find(result, factor) - result.begin());
        return parts.size() > 1 ? b_.joined(parts, dim) : parts[0];
    }

    /// The op for ranges of its factors. The interior reads the rank's own box in place of the halo.
    ValueId piece(const Division& d, const std::vector<IndexRange>& ranges, bool interior)
    {
        const Op& op = from_.ops[d.op];
        b_.where = Builder::where_of(op);
        LocalPart part{from_, op, d.rule, ranges, {}, {}, {}};
        part.first.assign(ranges.size(), true);
        const auto box = [&](const FactorList& dims, const Shape& whole) {
            Box made;
            for (std::size_t k = 0; k < dims.size(); ++k) {
                const IndexRange range = range_of(d, dims[k], whole[k], ranges);
                made.offset.push_back(range.begin);
                made.shape.push_back(range.size);
            }
            return made;
        };
        for (std::size_t i = 0; i < op.operands.size(); ++i)
            part.operands.push_back(box(d.rule.operands[i], from_[op.operands[i]].type.shape));
        part.results.push_back(box(d.rule.results[0], from_[op.results[0]].type.shape));
        Attributes attrs = op.attrs;
        info(op).localize(attrs, part);
        std::vector<ValueId> operands;
        for (std::size_t i = 0; i < op.operands.size(); ++i) {
            ValueId v = op.operands[i];
            Box read = part.operands[i];
            if (interior && i == d.operand) {
                v = d.own;
                for (std::size_t k = 0; k < read.offset.size(); ++k)
                    read.offset[k] += d.shift[k];
            }
            operands.push_back(read.shape == g_[v].type.shape ? v : b_.part_at(v, read));
        }
        return b_.op1(op.kind, std::move(operands), std::move(attrs),
                      from_[op.results[0]].name + (interior ? ".interior" : ".side"));
    }

    static IndexRange range_of(const Division& d, int dim, i64 extent, const std::vector<IndexRange>& ranges)
    {
        const Factor& factor = d.rule[dim];
        if (!factor.window)
            return factor.parts.empty() ? ranges[static_cast<std::size_t>(dim)] : IndexRange{0, extent};
        const int of = factor.window->of;
        return std::ranges::any_of(d.cuts, [&](const Division::Cut& cut) { return cut.factor == of; })
                   ? window_of(*factor.window, ranges[static_cast<std::size_t>(of)], extent)
                   : IndexRange{0, extent};
    }

    const Graph& from_;
    const std::map<std::size_t, Division>& divisions_;
    Graph g_;
    Builder b_;
    std::vector<bool> made_; ///< by value of `from_`
    std::map<ValueId, std::vector<std::size_t>> of_halo_;
    std::map<std::size_t, ValueId> interior_; ///< by divided op
    std::map<std::size_t, Parts> parts_;
};

/// Keeps the divisions by which the readers of a halo end earlier. `all`: with all of them.
void keep_useful(const Graph& g, const Divider& all, std::map<std::size_t, Division>& divisions,
                 const OverlapSeconds& seconds)
{
    const std::vector<Seconds> before = seconds(g), after = seconds(all.graph());
    const auto sum = [&](const std::vector<std::size_t>& ops) {
        Seconds total = 0;
        for (const std::size_t i : ops)
            total += after[i];
        return total;
    };
    std::map<OpId, Seconds> left; // by halo: how long nothing runs meanwhile
    for (auto at = divisions.begin(); at != divisions.end();) {
        const auto& [i, division] = *at;
        const OpId halo = g[g.ops[i].operands[division.operand]].producer;
        const auto [rest, first] = left.try_emplace(halo, before[halo.index()]);
        const OpId source = g[division.own].producer;
        for (std::size_t k = source ? source.index() + 1 : i; first && k < i; ++k)
            if (!info(g.ops[k]).communicates && g.ops[k].phase == g.ops[i].phase)
                rest->second -= before[k];
        const Seconds interior = sum(all.parts(i).interior);
        const Seconds extra = interior + sum(all.parts(i).rest) - before[i];
        const bool useful = std::min(rest->second, interior) > extra;
        if (useful)
            rest->second -= interior;
        at = useful ? std::next(at) : divisions.erase(at);
    }
}

} // namespace

Graph overlap_halos(Graph graph, const OverlapSeconds& seconds)
{
    std::map<std::size_t, Division> divisions; // by op
    for (std::size_t i = 0; i < graph.ops.size(); ++i)
        for (std::size_t o = 0; o < graph.ops[i].operands.size() && !divisions.contains(i); ++o)
            if (is_halo_of(graph, graph.ops[i], graph.ops[i].operands[o]))
                if (std::optional<Division> division = division_of(graph, i, o))
                    divisions.emplace(i, *std::move(division));
    if (divisions.empty())
        return graph;
    std::map<std::size_t, Division> useful = divisions;
    Divider all(graph, divisions);
    all.run();
    if (seconds)
        keep_useful(graph, all, useful, seconds);
    if (useful.empty())
        return graph;
    if (useful.size() == divisions.size())
        return simplify(all.take());
    Divider divider(graph, useful);
    divider.run();
    return simplify(divider.take());
}

} // namespace trivium
