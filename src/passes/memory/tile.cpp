#include "passes/memory/tile.hpp"

#include "base/check.hpp"
#include "ir/builder.hpp"
#include "passes/memory/zero.hpp"
#include "passes/sharding/moves.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

namespace trivium {

namespace {

/// An op that reads a weight as operand `operand`.
struct Reader {
    std::size_t op = 0, operand = 0;
};

class Tiler {
public:
    Tiler(Graph graph, const TileConfig& config)
        : g_(std::move(graph)), c_(config), b_(g_), count_(g_.ops.size()), further_(g_, config.axis)
    {
    }

    Graph run()
    {
        for (std::size_t i = 0; i < count_; ++i)
            if (g_.ops[i].region == Region::prologue && info(g_.ops[i]).placement)
                consider(i);
        move_before(g_, count_, places_);
        return std::move(g_);
    }

private:
    /// Tiles the weight that op `i` places for its readers.
    void consider(std::size_t i)
    {
        const Op placing = g_.ops[i]; // a copy, because the vector grows
        const ValueId whole = placing.results[0];
        const std::optional<std::vector<Reader>> readers = separable_readers(whole);
        const Bytes bytes = largest_shard(g_[whole].type, dim_axes(g_[whole].sharding), g_.mesh);
        if (!readers || bytes <= c_.bytes)
            return;
        const ValueId parameter = parameter_of(whole);
        const std::optional<std::size_t> dim = dim_to_divide(parameter, whole);
        if (!dim)
            return;
        g_[parameter].sharding.edit().dims[*dim].open = false;
        const i64 extent = g_[whole].type.shape[*dim], count = std::min(extent, ceil_div(bytes, c_.bytes));
        std::vector<i64> extents;
        for (i64 part = 0; part < count; ++part)
            extents.push_back(part_of(extent, count, part).size);
        b_.where = Builder::where_of(placing);
        std::vector<ValueId> parts = b_.divided(placing.operands[0], *dim, extents);
        for (ValueId& part : parts)
            part = b_.reshard_to(part, g_[whole].sharding, g_[part].name + ".used");
        place_before(i);
        for (const Reader& reader : *readers)
            divide(reader, parts, *dim, extents);
    }

    /// The ops that read `v`; none if some op is not separable, or there is none.
    std::optional<std::vector<Reader>> separable_readers(ValueId v) const
    {
        std::vector<Reader> readers;
        for (std::size_t i = 0; i < count_; ++i) {
            const std::vector<ValueId>& operands = g_.ops[i].operands;
            const auto times = std::ranges::count(operands, v);
            if (times > 1 || (times == 1 && !info(g_.ops[i]).separable))
                return {};
            if (times == 1)
                readers.push_back(
                    {i, static_cast<std::size_t>(std::ranges::find(operands, v) - operands.begin())});
        }
        if (readers.empty())
            return {};
        return readers;
    }

    ValueId parameter_of(ValueId v) const
    {
        while (g_[v].producer)
            v = g_[g_[v].producer].operands[0];
        return v;
    }

    std::optional<std::size_t> dim_to_divide(ValueId parameter, ValueId whole) const
    {
        const Value& p = g_[parameter];
        std::optional<std::size_t> best;
        for (std::size_t d = 0; d < p.type.shape.size(); ++d) {
            if (!g_[whole].sharding->dims[d].axes.empty() || !p.sharding->dims[d].axes.empty() ||
                (best && p.type.shape[d] <= p.type.shape[*best]))
                continue;
            Sharding rest = p.sharding;
            rest.dims[d].open = false;
            if (!shards(rest, c_.axis))
                rest = further_(rest, p.type.shape);
            if (!is_shared(rest, g_.mesh, c_.axis))
                best = d;
        }
        return best;
    }

    /// Replaces an op by one for each part of its operand `reader.operand`, which is divided along `dim`.
    void divide(const Reader& reader, const std::vector<ValueId>& parts, std::size_t dim,
                const std::vector<i64>& extents)
    {
        const Op whole = g_.ops[reader.op]; // a copy, because the vector grows
        const ValueId old = whole.results[0];
        const FactorRule rule = rule_of(g_, whole);
        const int factor = rule.operands[reader.operand][dim];
        const auto dim_of = [&](const FactorList& dims) -> std::optional<std::size_t> {
            const auto at = std::ranges::find(dims, factor);
            if (at == dims.end())
                return {};
            return static_cast<std::size_t>(at - dims.begin());
        };
        b_.where = Builder::where_of(whole);
        std::vector<std::vector<ValueId>> operands(parts.size(), whole.operands);
        for (std::size_t o = 0; o < whole.operands.size(); ++o)
            if (const auto at = dim_of(rule.operands[o])) {
                const std::vector<ValueId> divided =
                    o == reader.operand ? parts : divided_before(reader.op, whole.operands[o], *at, extents);
                for (std::size_t part = 0; part < parts.size(); ++part)
                    operands[part][o] = divided[part];
            }
        const auto joint = dim_of(rule.results[0]);
        Attributes attributes = whole.attrs;
        const DType type = g_[old].type.dtype, wide = accumulator_of(type);
        if (!joint && wide != type)
            attributes.dtype = wide;
        std::vector<ValueId> made;
        ValueId sum;
        for (std::size_t part = 0; part < parts.size(); ++part) {
            made.push_back(b_.op1(whole.kind, operands[part], attributes, str(g_[old].name, ".part", part)));
            if (joint)
                continue;
            g_[made.back()].sharding = g_[old].sharding; // that of the buffer in which all are added
            sum = sum ? b_.add_into(sum, made.back(), true) : made.back();
        }
        const ValueId result = joint ? b_.joined(made, *joint) : b_.cast_to(sum, type);
        g_[result].sharding = g_[old].sharding;
        std::swap(g_[result].name, g_[old].name);
        for (Op& op : g_.ops)
            std::ranges::replace(op.operands, old, result);
        std::ranges::replace(g_.outputs, old, result);
        place_before(reader.op);
    }

    /// The parts of an operand of op `i`, which other ops may have read already.
    const std::vector<ValueId>& divided_before(std::size_t i, ValueId v, std::size_t dim,
                                               const std::vector<i64>& extents)
    {
        Division& known = divisions_[{v, dim, extents}];
        if (known.parts.empty() || known.before > i)
            known = {b_.divided(v, dim, extents), i};
        return known.parts;
    }

    /// All ops since the last call belong before op `i`.
    void place_before(std::size_t i) { places_.resize(g_.ops.size() - count_, i); }

    Graph g_;
    const TileConfig& c_;
    Builder b_;
    const std::size_t count_; ///< of ops that are not parts
    std::vector<std::size_t> places_;
    const FurtherSharding further_;
    struct Division {
        std::vector<ValueId> parts;
        std::size_t before = 0; ///< this op
    };
    std::map<std::tuple<ValueId, std::size_t, std::vector<i64>>, Division> divisions_;
};

} // namespace

Graph tile(Graph graph, const TileConfig& config) { return Tiler(std::move(graph), config).run(); }

} // namespace trivium
