#include "schedule/roots.hpp"

#include "ir/general/columns.hpp"

#include <algorithm>

namespace trivium {

namespace {

class RootFinder {
public:
    explicit RootFinder(const Graph& graph)
        : g_(graph), last_use_(graph.values.size(), 0), kept_(graph.values.size(), false),
          decided_(graph.values.size(), false), rows_(graph.values.size(), 0), readers_(graph.values.size())
    {
        made_.of.resize(graph.values.size());
        made_.columns.resize(graph.values.size());
        for (std::size_t i = 0; i < made_.of.size(); ++i)
            made_.of[i] = ValueId(i);
        for (std::size_t i = 0; i < graph.ops.size(); ++i) {
            views_ = views_ || info(graph.ops[i]).view;
            for (std::size_t o = 0; o < graph.ops[i].operands.size(); ++o) {
                last_use_[graph.ops[i].operands[o].index()] = i;
                readers_[graph.ops[i].operands[o].index()].push_back({i, o});
            }
        }
        for (const ValueId v : graph.outputs)
            kept_[v.index()] = true;
    }

    Roots run()
    {
        for (std::size_t i = g_.ops.size(); views_ && i-- > 0;)
            if (g_.ops[i].kind == OpKind::join_columns)
                put_parts(columns_of(g_, g_.ops[i]));
            else
                put_operands(i);
        for (std::size_t i = 0; i < g_.ops.size(); ++i)
            if (g_.ops[i].kind == OpKind::split_columns)
                put_parts(columns_of(g_, g_.ops[i]));
            else
                put_results(i);
        for (ValueId& root : made_.of) // a whole that stands for another may itself be in place
            root = made_.of[root.index()];
        if (!views_)
            made_.columns.clear();
        return std::move(made_);
    }

private:
    /// The parts into the buffer of the whole. The parts of a join that one op computes in the places of the
    /// parts of a split, which nothing reads later, stay there.
    void put_parts(const Columns& c)
    {
        if (g_[g_[c.whole].producer].kind == OpKind::join_columns)
            if (const ValueId whole = replaced(c))
                made_.of[c.whole.index()] = whole;
        for (std::size_t p = 0; p < c.parts.size(); ++p)
            put(c.parts[p], made_.of[c.whole.index()], {c.first[p], c.width}, c.rows);
    }

    void put(ValueId v, ValueId root, ColumnsIn columns, i64 rows)
    {
        made_.of[v.index()] = root;
        made_.columns[v.index()] = columns;
        rows_[v.index()] = rows;
        decided_[v.index()] = true;
    }

    /// The whole of the split in whose parts the joined parts may be computed, or an invalid id.
    ValueId replaced(const Columns& joined) const
    {
        const OpId by = g_[joined.parts[0]].producer;
        const Op& op = g_[by];
        ValueId whole;
        for (std::size_t p = 0; p < joined.parts.size(); ++p) {
            const auto result = std::ranges::find(op.results, joined.parts[p]);
            if (result == op.results.end())
                return {};
            bool found = false;
            for (const Alias& alias : aliases_of(op)) {
                const ValueId v = op.operands[static_cast<std::size_t>(alias.operand)];
                const OpId source = g_[v].producer;
                if (alias.result != result - op.results.begin() || !source ||
                    g_[source].kind != OpKind::split_columns || !dies(by.index(), v, joined.parts[p]))
                    continue;
                const Columns divided = columns_of(g_, g_[source]);
                const auto part = std::ranges::find(divided.parts, v) - divided.parts.begin();
                found = divided.parts.size() == joined.parts.size() && divided.width == joined.width &&
                        divided.first[static_cast<std::size_t>(part)] == joined.first[p] &&
                        (p == 0 || divided.whole == whole);
                whole = divided.whole;
            }
            if (!found)
                return {};
        }
        return whole;
    }

    /// Whether op `i` is the last use of `v`, whose buffer `result` may have.
    bool dies(std::size_t i, ValueId v, ValueId result) const
    {
        return g_[v].role == Role::computed && g_[v].lifetime == g_[result].lifetime &&
               last_use_[v.index()] == i && !kept_[v.index()] && g_[v].type == g_[result].type;
    }

    /// Whether the producer and all readers of `v` accept it as columns of `rows` rows.
    bool accept_columns(ValueId v, i64 rows) const
    {
        const Op& op = g_[g_[v].producer];
        const auto at = std::ranges::find(op.results, v) - op.results.begin();
        return writes_columns(g_, op, static_cast<std::size_t>(at), rows) &&
               std::ranges::all_of(readers_[v.index()], [&](const Read& read) {
                   return reads_columns(g_, g_.ops[read.op], read.operand, rows);
               });
    }

    /// Of op `i` whose results are columns: operands that it may update in place are computed there.
    void put_operands(std::size_t i)
    {
        const Op& op = g_.ops[i];
        for (const Alias& alias : aliases_of(op)) {
            const ValueId result = op.results[static_cast<std::size_t>(alias.result)],
                          v = op.operands[static_cast<std::size_t>(alias.operand)];
            const i64 rows = rows_[result.index()];
            if (decided_[result.index()] && rows > 0 && !decided_[v.index()] && dies(i, v, result) &&
                !info(g_[g_[v].producer]).view && accept_columns(v, rows))
                put(v, made_.of[result.index()], made_.columns[result.index()], rows);
        }
    }

    void put_results(std::size_t i)
    {
        const Op& op = g_.ops[i];
        std::vector<bool> taken(op.operands.size(), false);
        for (std::size_t r = 0; r < op.results.size(); ++r) {
            const ValueId result = op.results[r];
            if (const ValueId into = aliased_operand(op, r)) {
                made_.of[result.index()] = made_.of[into.index()];
                continue;
            }
            for (const Alias& alias : aliases_of(op)) {
                const auto at = static_cast<std::size_t>(alias.operand);
                if (static_cast<std::size_t>(alias.result) != r || taken[at])
                    continue;
                const ValueId v = op.operands[at];
                const i64 rows = rows_[v.index()];
                if (!dies(i, v, result) || made_.of[result.index()] != result || decided_[result.index()] ||
                    (rows > 0 && !accept_columns(result, rows)))
                    continue;
                made_.of[result.index()] = made_.of[v.index()];
                made_.columns[result.index()] = made_.columns[v.index()];
                rows_[result.index()] = rows;
                for (std::size_t same = 0; same < taken.size(); ++same) // the op may read one value twice
                    taken[same] = taken[same] || op.operands[same] == v;
            }
        }
    }

    struct Read {
        std::size_t op, operand;
    };

    const Graph& g_;
    std::vector<std::size_t> last_use_;
    std::vector<bool> kept_, decided_; ///< decided: by a view
    std::vector<i64> rows_;            ///< of columns; 0: dense
    std::vector<std::vector<Read>> readers_;
    bool views_ = false;
    Roots made_;
};

} // namespace

Roots find_roots(const Graph& graph) { return RootFinder(graph).run(); }

} // namespace trivium
