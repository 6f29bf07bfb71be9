// Random programs with random shardings, partitioned over a mesh and run on all its ranks with plain arrays:
// every value is a shard of the one-rank result.
#include "base/check.hpp"
#include "base/rng.hpp"
#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "naive.hpp"
#include "passes/sharding/partition.hpp"
#include "passes/sharding/propagate.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <sstream>

using namespace trivium;
using namespace trivium::naive;

namespace {

/// A cell of an input: smaller than `words` for indices.
double given(const Value& v, i64 cell)
{
    const RandomStream stream(5, v.name);
    if (v.type.dtype == DType::i32)
        return static_cast<double>(stream.bits_at(static_cast<u64>(cell)) % 7);
    return stream.normal_at(static_cast<u64>(cell));
}

Array given_part(const Graph& g, ValueId id)
{
    const Box box = box_of(g, g[id]);
    Array array{box.shape, std::vector<double>(static_cast<std::size_t>(element_count(box.shape)), 0)};
    if (g[id].role != Role::carry)
        for_each_run(whole_shape(g[id]), box, [&](i64 global, i64 local, i64 count) {
            for (i64 i = 0; i < count; ++i)
                array.cells[static_cast<std::size_t>(local + i)] = given(g[id], global + i);
        });
    return array;
}

/// Calls visit(point) for each point of the factors' box.
void each_point(const FactorRule& rule, const std::function<void(const Shape&)>& visit)
{
    Shape point(rule.factors.size(), 0);
    for (;;) {
        visit(point);
        std::size_t f = 0;
        while (f < point.size() && ++point[f] == rule.factors[f].size)
            point[f++] = 0;
        if (f == point.size())
            return;
    }
}

std::size_t cell_at(const Shape& shape, const FactorList& dims, const Shape& point)
{
    i64 cell = 0;
    for (std::size_t d = 0; d < dims.size(); ++d)
        cell = cell * shape[d] + point[static_cast<std::size_t>(dims[d])];
    return static_cast<std::size_t>(cell);
}

/// Evaluates an op on the arrays in `held` (by value), directly from its definition.
void compute(const Graph& g, const Op& op, std::vector<Array>& held)
{
    const std::string name = info(op).name;
    const FactorRule rule = rule_of(g, op);
    std::vector<Array> made;
    for (const ValueId v : op.results)
        made.push_back(
            {g[v].type.shape, std::vector<double>(static_cast<std::size_t>(g[v].type.elements()), 0)});
    const auto in = [&](std::size_t i, const Shape& point) {
        const Array& x = held[op.operands[i].index()];
        return x.cells[cell_at(x.shape, rule.operands[i], point)];
    };
    const auto out = [&](std::size_t i, const Shape& point) -> double& {
        return made[i].cells[cell_at(made[i].shape, rule.results[i], point)];
    };
    const i64 first = op.attrs->offset_of("v"); // token of this rank's shard
    const auto v = static_cast<std::size_t>(std::max(rule.find("v"), 0));
    if (name == "matmul") {
        each_point(rule, [&](const Shape& p) { out(0, p) += in(0, p) * in(1, p); });
    } else if (name == "add") {
        each_point(rule, [&](const Shape& p) { out(0, p) = in(0, p) + in(1, p); });
    } else if (name == "gelu") {
        each_point(rule,
                   [&](const Shape& p) { out(0, p) = std::tanh(in(0, p)) + 1; }); // any function of one cell
    } else if (name == "reshard") {
        each_point(rule, [&](const Shape& p) { out(0, p) = in(0, p); });
    } else if (name == "sum") {
        each_point(rule, [&](const Shape& p) { out(0, p) += in(0, p); });
    } else if (name == "stack") { // this rank's contributions, at their positions
        for (std::size_t i = 0; i < op.operands.size(); ++i)
            made[0].cells.at(static_cast<std::size_t>(op.attrs->at->at(i))) +=
                held[op.operands[i].index()].cells[0];
    } else if (name == "rms_norm") {
        Array squares = made[1];
        each_point(rule, [&](const Shape& p) {
            squares.cells[cell_at(squares.shape, rule.results[1], p)] += in(0, p) * in(0, p);
        });
        each_point(rule, [&](const Shape& p) {
            out(1, p) = 1 / std::sqrt(1 + squares.cells[cell_at(squares.shape, rule.results[1], p)]);
            out(0, p) = in(0, p) * out(1, p) * in(1, p);
        });
    } else if (name == "embedding") {
        each_point(rule, [&](const Shape& p) {
            if (static_cast<i64>(in(1, p)) == first + p[v])
                out(0, p) = in(0, p);
        });
    } else if (name == "embedding_grad") {
        each_point(rule, [&](const Shape& p) {
            if (static_cast<i64>(in(1, p)) == first + p[v])
                out(0, p) += in(0, p);
        });
    } else if (name == "xent_stats") {
        each_point(rule, [&](const Shape& p) {
            out(0, p) += std::exp(in(0, p));
            if (static_cast<i64>(in(1, p)) == first + p[v])
                out(1, p) = in(0, p);
        });
        for (double& cell : made[0].cells)
            cell = std::log(cell);
    } else {
        FAIL("no naive form of " << name);
    }
    for (std::size_t i = 0; i < made.size(); ++i) {
        if (i == 0 && op.accumulate)
            for (std::size_t c = 0; c < made[0].cells.size(); ++c)
                made[0].cells[c] += held[op.operands.back().index()].cells[c];
        held[op.results[i].index()] = std::move(made[i]);
    }
}

/// Runs the graphs of all ranks, op by op. Returns each rank's array of each value.
std::vector<std::vector<Array>> run(const std::vector<Graph>& graphs)
{
    std::vector<std::vector<Array>> held;
    for (const Graph& g : graphs) {
        REQUIRE(g.ops.size() == graphs[0].ops.size());
        held.emplace_back(g.values.size());
        for (std::size_t i = 0; i < g.values.size(); ++i)
            if (!g.values[i].producer)
                held.back()[i] = given_part(g, ValueId(i));
    }
    for (std::size_t n = 0; n < graphs[0].ops.size(); ++n) {
        const Op& op = graphs[0].ops[n];
        if (!info(op).communicates && std::string_view(info(op).name) != "slice") {
            for (std::size_t rank = 0; rank < graphs.size(); ++rank)
                compute(graphs[rank], graphs[rank].ops[n], held[rank]);
            continue;
        }
        std::vector<Array> before;
        for (std::size_t rank = 0; rank < graphs.size(); ++rank)
            before.push_back(held[rank][graphs[rank].ops[n].operands[0].index()]);
        const std::vector<Array> after = communicate(graphs, n, before);
        for (std::size_t rank = 0; rank < graphs.size(); ++rank)
            held[rank][graphs[rank].ops[n].results[0].index()] = after[rank];
    }
    return held;
}

class RandomProgram {
public:
    explicit RandomProgram(u64 seed) : draw_(seed), b_(graph_)
    {
        graph_.name = "random";
        graph_.mesh.axes = {{"data", 2}, {"tensor", seed % 3 == 0 ? 2 : 3}};
        ids_ = b_.value("ids", {DType::i32, {batch, tokens}}, Role::input);
        const ValueId table = weight({words, width});
        b_.where = {Region::microbatch, Phase::forward, 0, ""};
        xs_ = {b_.op1(OpKind::embedding, {table, ids_}),
               b_.value("x", {DType::f64, {batch, tokens, width}}, Role::input)};
        for (std::size_t n = 4 + below(10); n > 0; --n)
            step();
        b_.where.phase = Phase::backward;
        for (std::size_t n = 2 + below(4); n > 0; --n)
            gradient(n);
        b_.where = {Region::epilogue, Phase::update, 0, ""};
        scalars_.push_back(scalars_[0]);
        graph_.outputs.push_back(b_.stack_of(scalars_, "totals"));
        annotate();
        verify(graph_, Level::global);
    }

    Graph take() { return std::move(graph_); }

private:
    static constexpr i64 batch = 4, tokens = 5, width = 6, words = 7;
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(draw_() % n); }
    ValueId any() { return xs_[below(xs_.size())]; }
    ValueId weight(Shape shape)
    {
        return b_.value(str("w", graph_.values.size()), {DType::f64, std::move(shape)}, Role::parameter);
    }

    ValueId product(ValueId x, ValueId y, const Rule& rule)
    {
        return b_.op1(OpKind::matmul, {x, y}, {.rule = rule});
    }

    /// Another value [batch, tokens, width].
    void step()
    {
        switch (below(8)) {
        case 0: xs_.push_back(b_.op1(OpKind::gelu, {any()})); break;
        case 1: xs_.push_back(b_.op(OpKind::rms_norm, {any(), weight({width})}, {.eps = 1e-5})[0]); break;
        case 2: xs_.push_back(b_.reshard_to(any(), random_sharding({batch, tokens, width}))); break;
        case 3:
            xs_.push_back(product(product(any(), weight({width, 9}), "b s d, d f -> b s f"),
                                  weight({9, width}), "b s f, f d -> b s d"));
            break;
        case 4:
            xs_.push_back(
                product(any(), product(any(), any(), "b s d, b s e -> b d e"), "b s d, b d e -> b s e"));
            break;
        case 5: { // two products that are added before they are combined
            const ValueId x = any();
            xs_.push_back(b_.sum_of(product(x, weight({width, width}), "b s d, d e -> b s e"),
                                    product(x, weight({width, width}), "b s d, d e -> b s e")));
            break;
        }
        case 6: {
            const std::vector<ValueId> made = b_.op(
                OpKind::xent_stats, {product(any(), weight({words, width}), "b s d, v d -> b s v"), ids_});
            stats_.insert(stats_.end(), made.begin(), made.end());
            break;
        }
        default: xs_.push_back(b_.sum_of(any(), any()));
        }
    }

    /// Another accumulator that is an output.
    void gradient(std::size_t n)
    {
        ValueId made;
        switch (n == 1 ? 2 : below(4)) {
        case 0: made = product(any(), any(), "b s d, b s e -> d e"); break;
        case 3: made = b_.op1(OpKind::sum, {stats_.empty() ? any() : stats_[below(stats_.size())]}); break;
        case 1: made = b_.op1(OpKind::embedding_grad, {any(), ids_}, {.sizes = {{"v", words}}}); break;
        default: made = b_.op1(OpKind::sum, {any()});
        }
        const ValueId before = b_.value(str("before", n), graph_[made].type, Role::carry);
        const ValueId sum = b_.add_into(before, made);
        graph_.carries.push_back({before, sum});
        graph_.outputs.push_back(sum);
        if (graph_[sum].type.shape.empty())
            scalars_.push_back(sum);
    }

    Sharding random_sharding(const Shape& shape)
    {
        Sharding sharding;
        std::vector<MeshAxis> left = graph_.mesh.axes;
        std::shuffle(left.begin(), left.end(), draw_);
        for (const i64 extent : shape) {
            DimSharding dim;
            dim.open = below(3) > 0;
            i64 parts = 1;
            while (!left.empty() && below(5) < 2) {
                if (parts * left.back().size <= extent) {
                    dim.axes.push_back(left.back().name);
                    parts *= left.back().size;
                }
                left.pop_back();
            }
            sharding.dims.push_back(dim);
        }
        return sharding;
    }

    void annotate()
    {
        for (Value& v : graph_.values)
            if (v.sharding->dims.empty() && below(2))
                v.sharding = random_sharding(v.type.shape);
        for (const Op& op : graph_.ops) // a value in an accumulator is sharded like it
            if (op.accumulate)
                graph_[op.results[0]].sharding = graph_[op.operands.back()].sharding;
    }

    std::mt19937_64 draw_;
    Graph graph_;
    Builder b_;
    ValueId ids_;
    std::vector<ValueId> xs_;      ///< [batch, tokens, width]
    std::vector<ValueId> stats_;   ///< [batch, tokens]
    std::vector<ValueId> scalars_; ///< accumulated
};

/// Compares a rank's array with its box of the whole.
void compare(const Array& got, const Array& whole, const Box& box)
{
    REQUIRE(got.shape == box.shape);
    for_each_run(whole.shape, box, [&](i64 global, i64 local, i64 count) {
        for (i64 i = 0; i < count; ++i)
            REQUIRE(got.cells[static_cast<std::size_t>(local + i)] ==
                    Approx(whole.cells[static_cast<std::size_t>(global + i)]).epsilon(1e-9).margin(1e-9));
    });
}

} // namespace

TEST_CASE("partitioned programs compute the one-rank result, whatever the shardings")
{
    std::map<std::string, int> used;
    int compared = 0;
    const u64 first = soak::seed() * 1000000;
    soak::Budget budget;
    for (u64 seed = first; seed < first + 100 || budget.left(); ++seed) {
        INFO("seed " << seed);
        const Graph sharded = propagate(RandomProgram(seed).take());
        verify(sharded, Level::sharded);
        const std::vector<Array> whole = run({sharded})[0];
        std::vector<Graph> graphs;
        for (i64 rank = 0; rank < sharded.mesh.ranks(); ++rank) {
            graphs.push_back(partition(sharded, {sharded.mesh.coordinates(rank)}));
            verify(graphs.back(), Level::local);
        }
        for (const Op& op : graphs[0].ops)
            ++used[info(op).name];
        const std::vector<std::vector<Array>> held = run(graphs);
        for (std::size_t rank = 0; rank < graphs.size(); ++rank) {
            const Graph& g = graphs[rank];
            REQUIRE(g.outputs.size() == sharded.outputs.size());
            for (std::size_t o = 0; o < g.outputs.size(); ++o) { // complete sums, sharded as requested
                const Value &local = g[g.outputs[o]], &global = sharded[sharded.outputs[o]];
                INFO("output %" << global.name);
                REQUIRE(local.sharding->partial.empty());
                REQUIRE(local.sharding->dims == global.sharding->dims);
            }
            for (std::size_t i = 0; i < g.values.size(); ++i) {
                const ValueId id = sharded.find(g.values[i].name);
                if (!id || !g.values[i].sharding->partial.empty() || g.values[i].role == Role::carry)
                    continue;
                INFO("rank " << rank << " %" << g.values[i].name);
                compare(held[rank][i], whole[id.index()],
                        box_of(sharded[id].type.shape, g.values[i].sharding, sharded.mesh, g.at));
                ++compared;
            }
        }
    }
    for (const char* op : {"all_gather", "reduce_scatter", "all_reduce", "slice"})
        CHECK(used[op] > 40);
    CHECK(compared > 8000);
}
