#include "programs/unroll_manual.hpp"

#include "base/check.hpp"
#include "ir/general/manual.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace trivium {

namespace {

using Axes = std::vector<std::string>;
using Index = std::map<std::string, i64>; ///< along each axis of a region

class Unroll {
public:
    Unroll(const Graph& graph, std::vector<Axes> regions)
        : in_(graph), regions_(std::move(regions)), out_(graph.without_ops()), copies_(graph.values.size())
    {
        for (const Value& v : graph.values)
            names_.insert(v.name);
        for (std::size_t i = 0; i < copies_.size(); ++i)
            copies_[i] = {ValueId(i)};
    }

    Graph run()
    {
        for (const Op& op : in_.ops) {
            const Axes region = op.results.empty() ? Axes() : regions_[op.results[0].index()];
            const std::vector<Index> all = indices(region);
            for (const ValueId v : op.results)
                while (copies_[v.index()].size() < all.size())
                    copies_[v.index()].push_back(add_value(in_[v], v));
            for (const Index& at : all)
                if (!info(op).manual)
                    copy(op, at);
                else if (info(op).enters)
                    slice(op, at);
                else
                    join(op, at);
        }
        return std::move(out_);
    }

private:
    /// All indices along `axes`, the last axis fastest.
    std::vector<Index> indices(const Axes& axes) const
    {
        std::vector<Index> all{{}};
        for (const std::string& axis : axes) {
            std::vector<Index> longer;
            for (const Index& one : all)
                for (i64 i = 0; i < *in_.mesh.size_of(axis); ++i) {
                    longer.push_back(one);
                    longer.back()[axis] = i;
                }
            all = std::move(longer);
        }
        return all;
    }

    i64 position(const Axes& axes, const Index& at) const
    {
        i64 position = 0;
        for (const std::string& axis : axes)
            position = position * *in_.mesh.size_of(axis) + at.at(axis);
        return position;
    }

    /// The copy of `v` that the ranks at `at` have.
    ValueId copy_of(ValueId v, const Index& at) const
    {
        const Axes& region = regions_[v.index()];
        return copies_[v.index()][static_cast<std::size_t>(position(region, at))];
    }

    /// Another value, called like `v` with a number.
    ValueId add_value(Value made, ValueId v)
    {
        made.name = in_[v].name;
        for (int i = 1; !names_.insert(made.name).second; ++i)
            made.name = str(in_[v].name, ".", i);
        out_.values.push_back(std::move(made));
        return ValueId(out_.values.size() - 1);
    }

    void add(Op op, std::vector<ValueId> operands, std::vector<ValueId> results)
    {
        op.operands = std::move(operands);
        op.results = std::move(results);
        for (const ValueId v : op.results)
            out_[v].producer = OpId(out_.ops.size());
        out_.ops.push_back(std::move(op));
    }

    void copy(const Op& op, const Index& at)
    {
        std::vector<ValueId> operands, results;
        for (const ValueId v : op.operands)
            operands.push_back(copy_of(v, at));
        for (const ValueId v : op.results)
            results.push_back(copy_of(v, at));
        add(op, std::move(operands), std::move(results));
    }

    void slice(const Op& op, const Index& at)
    {
        const Sharding manual = manual_sharding(in_, op);
        const Shape& part = in_[op.results[0]].type.shape;
        std::vector<i64> start, limit;
        for (std::size_t d = 0; d < part.size(); ++d) {
            start.push_back(position(manual.dims[d].axes, at) * part[d]);
            limit.push_back(start.back() + part[d]);
        }
        Op made = op;
        made.kind = OpKind::slice;
        made.attrs = Attributes{.lists = {{Attr::start, start}, {Attr::limit, limit}}};
        add(made, {copy_of(op.operands[0], at)}, {copy_of(op.results[0], at)});
    }

    void join(const Op& op, const Index& at)
    {
        const Sharding manual = manual_sharding(in_, op);
        Op made = op;
        made.kind = OpKind::concatenate;
        /// The operand's copies joined along dimension d and those after it.
        const auto joined = [&](const auto& again, std::size_t d, const Index& index) -> ValueId {
            if (d == manual.dims.size())
                return copy_of(op.operands[0], index);
            if (manual.dims[d].axes.empty())
                return again(again, d + 1, index);
            std::vector<ValueId> parts;
            for (const Index& along : indices(manual.dims[d].axes)) {
                Index next = index;
                for (const auto& [axis, i] : along)
                    next[axis] = i;
                parts.push_back(again(again, d + 1, next));
            }
            Value value = out_[parts[0]];
            value.type.shape[d] *= static_cast<i64>(parts.size());
            const ValueId whole = add_value(std::move(value), op.results[0]);
            made.attrs = Attributes{.lists = {{Attr::dims, {static_cast<i64>(d)}}}};
            add(made, std::move(parts), {whole});
            return whole;
        };
        const ValueId whole = joined(joined, 0, at);
        made.kind = OpKind::slice; // all of it: the result keeps its name
        const Shape& shape = in_[op.results[0]].type.shape;
        made.attrs =
            Attributes{.lists = {{Attr::start, std::vector<i64>(shape.size(), 0)}, {Attr::limit, shape}}};
        add(made, {whole}, {copy_of(op.results[0], at)});
    }

    const Graph& in_;
    std::vector<Axes> regions_;
    Graph out_;
    std::vector<std::vector<ValueId>> copies_; ///< by value, for each index along its region
    std::set<std::string> names_;
};

} // namespace

Graph unroll_manual(const Graph& graph)
{
    std::vector<Axes> regions = manual_axes(graph);
    return regions.empty() ? graph : Unroll(graph, std::move(regions)).run();
}

} // namespace trivium
