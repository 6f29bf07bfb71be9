// Exchanges of boxes and collectives along joint axes as ops of each rank's graph, run by the executor, on
// ranks that are threads. Some ranks' tensors are empty.
#include "base/check.hpp"
#include "catch.hpp"
#include "deferred_streams.hpp"
#include "ir/collectives.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "plan/check_steps.hpp"
#include "small_graph.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <random>

using namespace trivium;
using namespace trivium::runs;

namespace {

using Vector = reference::Vector;
/// By name: what a rank is fed, or what it computes.
using Tensors = std::map<std::string, Vector>;

struct RankResult {
    Tensors outputs;
    Graph graph;
    Schedule schedule;
};

/// Runs two steps of a rank's graph, which goes through its text first. Assertions of Catch belong to the
/// main thread.
RankResult run_rank(Comm& world, const Graph& made, const Tensors& inputs, u64 seed)
{
    RankResult result;
    const std::string text = to_text(made);
    result.graph = parse_graph(text, "rank.graph");
    const Graph& graph = result.graph;
    TRV_CHECK(to_text(graph) == text, "another text");
    verify(graph, Level::local);
    result.schedule = build_schedule(graph, {.microbatches = 2, .scratch = small_machine().machine.scratch});
    MemoryConfig memory;
    memory.red_zone = contracts_on ? 256 : 0;
    const MemoryPlan plan = plan_memory({&result.schedule}, memory);
    const Arenas arenas(plan.arena);
    const Grid grid(world, graph.mesh, "node", {}, joint_axes(graph));
    ExecutorConfig config;
    config.red_zone = memory.red_zone;
    config.overlap = seed % 3 != 0;
    Executor executor(graph, result.schedule, arenas, config, &grid,
                      seed % 2 ? deferred_streams(seed) : StreamsMaker{});
    for (int step = 0; step < 2; ++step) {
        executor.run_until_decision([&](const Value& value, i64, void* to) {
            with_type(value.type.dtype, [&](auto t) {
                using T = decltype(t);
                const Vector& from = inputs.at(value.name);
                TRV_CHECK(static_cast<i64>(from.size()) == value.type.elements(), value.name);
                for (std::size_t i = 0; i < from.size(); ++i)
                    static_cast<T*>(to)[i] = T(static_cast<kernels::Acc<T>>(from[i]));
            });
        });
        executor.run_after_decision();
    }
    for (const ValueId id : graph.outputs)
        for (i64 i = 0; i < graph[id].type.elements(); ++i)
            result.outputs[graph[id].name].push_back(executor.fetched(graph[id].name, i));
    settle_deferred();
    return result;
}

/// The row-major numbers of a box's cells in the whole tensor.
std::vector<std::size_t> cells_of(const Box& box, const Shape& whole)
{
    std::vector<std::size_t> cells;
    for (i64 n = 0; n < element_count(box.shape); ++n) {
        i64 rest = n, cell = 0, stride = 1;
        for (std::size_t d = whole.size(); d-- > 0;) {
            cell += (box.offset[d] + rest % box.shape[d]) * stride;
            rest /= box.shape[d];
            stride *= whole[d];
        }
        cells.push_back(static_cast<std::size_t>(cell));
    }
    return cells;
}

Vector part(const Vector& whole, const Box& box, const Shape& shape)
{
    Vector values;
    for (const std::size_t cell : cells_of(box, shape))
        values.push_back(whole[cell]);
    return values;
}

std::vector<i64> numbers(const std::vector<Box>& boxes)
{
    std::vector<i64> list;
    for (const Box& box : boxes) {
        list.insert(list.end(), box.offset.begin(), box.offset.end());
        list.insert(list.end(), box.shape.begin(), box.shape.end());
    }
    return list;
}

/// Random exchanges along random axes, each between element-wise ops. Every group has a tensor of its own,
/// with the same content.
class Exchanges {
public:
    Exchanges(u64 seed, int count) : draw_(seed), mesh_{{{"x", 2}, {"y", 3}}}
    {
        const DType types[] = {DType::f64, DType::f32, DType::bf16};
        type_ = types[below(3)];
        for (std::size_t d = 1 + static_cast<std::size_t>(below(3)); d > 0; --d)
            whole_.push_back(1 + below(6));
        const char* axes[] = {"x", "y", "x+y", "y+x", "world"};
        for (int i = 0; i < count; ++i) {
            Link link;
            link.axis = axes[below(5)];
            link.kind = static_cast<OpKind>(static_cast<int>(OpKind::all_to_all) + below(3));
            link.ranks = mesh_.ranks_along(link.axis);
            links_.push_back(link);
        }
        for (Link& link : links_) {
            link.owned = shards(link.ranks);
            link.needed = link.owned;
            for (Box& box : link.needed)
                box = random_box();
        }
    }

    i64 ranks() const { return mesh_.ranks(); }

    Graph graph(i64 rank) const
    {
        Graph g;
        g.name = "exchanges";
        g.mesh = mesh_;
        g.at = mesh_.coordinates(rank);
        Builder b(g);
        for (std::size_t i = 0; i < links_.size(); ++i) {
            const Link& link = links_[i];
            const std::size_t own = member(link, rank);
            const ValueId x = b.value(str("in", i), {type_, link.owned[own].shape}, Role::input),
                          twice = b.sum_of(x, x);
            const ValueId moved = b.op1(link.kind, {twice},
                                        {.axis = link.axis,
                                         .lists = {{Attr::shape, link.needed[own].shape},
                                                   {Attr::owned, numbers(link.owned)},
                                                   {Attr::needed, numbers(link.needed)}}});
            add_output(b, moved, str("out", i));
        }
        return g;
    }

    Tensors inputs(i64 rank) const
    {
        Tensors all;
        for (std::size_t i = 0; i < links_.size(); ++i)
            all[str("in", i)] = part(content(i), links_[i].owned[member(links_[i], rank)], whole_);
        return all;
    }

    Tensors expected(i64 rank) const
    {
        Tensors all;
        for (std::size_t i = 0; i < links_.size(); ++i) {
            Vector& out = all[str("out", i)] =
                part(content(i), links_[i].needed[member(links_[i], rank)], whole_);
            for (double& value : out)
                value *= 4;
            if (out.empty())
                all.erase(str("out", i));
        }
        return all;
    }

private:
    struct Link {
        OpKind kind{};
        std::string axis;
        i64 ranks = 1;
        std::vector<Box> owned, needed;
    };

    i64 below(i64 n) { return static_cast<i64>(draw_() % static_cast<u64>(n)); }

    /// Small integers, which all types have.
    Vector content(std::size_t link) const
    {
        Vector values(static_cast<std::size_t>(element_count(whole_)));
        for (std::size_t i = 0; i < values.size(); ++i)
            values[i] = static_cast<double>((i * 7 + link * 3) % 61);
        return values;
    }

    /// The number of a rank in its group along the axis, counted naively.
    std::size_t member(const Link& link, i64 rank) const
    {
        const Coordinates at = mesh_.coordinates(rank);
        std::size_t before = 0;
        for (i64 other = 0; other < rank; ++other) {
            const Coordinates there = mesh_.coordinates(other);
            bool same_group = true;
            for (std::size_t i = 0; i < at.size(); ++i)
                same_group = same_group && (at[i] == there[i] || link.axis == "world" ||
                                            link.axis.find(mesh_.axes[i].name) != std::string::npos);
            before += same_group;
        }
        return before;
    }

    /// The whole tensor in that many parts along random dimensions; some are empty.
    std::vector<Box> shards(i64 parts)
    {
        std::vector<Box> boxes{{Shape(whole_.size(), 0), whole_}};
        while (static_cast<i64>(boxes.size()) < parts) {
            const auto at = boxes.begin() + below(static_cast<i64>(boxes.size()));
            const auto d = static_cast<std::size_t>(below(static_cast<i64>(whole_.size())));
            const i64 cut = below(at->shape[d] + 1);
            Box rest = *at;
            at->shape[d] = cut;
            rest.offset[d] += cut;
            rest.shape[d] -= cut;
            boxes.push_back(rest);
        }
        std::shuffle(boxes.begin(), boxes.end(), draw_);
        return boxes;
    }

    Box random_box()
    {
        Box box;
        for (const i64 extent : whole_) {
            box.offset.push_back(below(extent + 1));
            box.shape.push_back(below(extent - box.offset.back() + 1));
        }
        return box;
    }

    std::mt19937_64 draw_;
    Mesh mesh_;
    DType type_{};
    Shape whole_;
    std::vector<Link> links_;
};

} // namespace

TEST_CASE("exchanges of random boxes along axes and joint axes bring each rank what it needs")
{
    start_runtime();
    for (u64 seed = 0; seed < 24; ++seed) {
        INFO("seed " << seed);
        const Exchanges exchanges(seed, 6);
        std::vector<RankResult> results(static_cast<std::size_t>(exchanges.ranks()));
        run_on_threads(static_cast<int>(exchanges.ranks()), [&](Comm& comm) {
            results[static_cast<std::size_t>(comm.rank())] =
                run_rank(comm, exchanges.graph(comm.rank()), exchanges.inputs(comm.rank()), seed);
        });
        std::vector<StageProgram> programs;
        for (i64 rank = 0; rank < exchanges.ranks(); ++rank) {
            const RankResult& result = results[static_cast<std::size_t>(rank)];
            INFO("rank " << rank);
            CHECK(result.outputs == exchanges.expected(rank));
            programs.push_back({&result.graph, &result.schedule});
            // A queue per name of an axis; the scratch is what the op needs, and no more.
            for (const Step& step : result.schedule.steps) {
                if (step.kind != StepKind::op || !info(result.graph[step.op]).exchanges)
                    continue;
                const Op& op = result.graph[step.op];
                CHECK(result.schedule.queues[static_cast<std::size_t>(step.queue)] == *op.attrs->axis);
                Bytes most = 0;
                for (const Op& other : result.graph.ops)
                    if (info(other).exchanges && other.attrs->axis == op.attrs->axis)
                        most = std::max(most, least_scratch_of(result.graph, other));
                CHECK((step.scratch ? result.schedule[step.scratch].bytes : 0) == most);
            }
        }
        CHECK(!find_fault(programs, true));
    }
}

TEST_CASE("collectives along joint axes, with more ranks than rows, and an exchange between them")
{
    start_runtime();
    // Rows 0, 1, 2 of a [3, 2] tensor on ranks 0, 1, 2 of four; rank 3 has none.
    const Mesh mesh{{{"x", 2}, {"y", 2}}};
    const auto make = [&](i64 rank, Combine combine) {
        Graph g;
        g.name = "joint";
        g.mesh = mesh;
        g.at = mesh.coordinates(rank);
        Builder b(g);
        const i64 rows = rank < 3 ? 1 : 0;
        const ValueId x = b.value("x", {DType::f32, {rows, 2}}, Role::input),
                      w = b.value("w", {DType::f32, {2, 4}}, Role::input),
                      all = b.value("all", {DType::f32, {3, 2}}, Role::input);
        const ValueId gathered = b.all_gather(b.sum_of(x, x), "x+y", 0, 3),
                      scattered = b.reduce_scatter(all, "y+x", 0, rows, combine),
                      reduced = b.all_reduce(all, "x+y", combine);
        const ValueId product = b.product_of(x, w, Rule("r k, k n -> r n")), // empty on rank 3
            inner = b.product_of(x, x, Rule("r k, r n -> k n")),             // over rows: 0 on rank 3
            columns = b.op1(OpKind::reduce_sum, {x}, {.rule = Rule("r k -> k")});
        const ValueId sum = b.all_reduce(inner, "y+x", Combine::sum);
        // All rows to rank 3.
        std::vector<Box> owned, needed;
        for (i64 r = 0; r < 4; ++r) {
            owned.push_back({{std::min<i64>(r, 3), 0}, {r < 3 ? 1 : 0, 4}});
            needed.push_back({{0, 0}, {r < 3 ? 0 : 3, 4}});
        }
        const ValueId moved = b.op1(OpKind::permute, {product},
                                    {.axis = "x+y",
                                     .lists = {{Attr::shape, needed[static_cast<std::size_t>(rank)].shape},
                                               {Attr::owned, numbers(owned)},
                                               {Attr::needed, numbers(needed)}}});
        int n = 0;
        for (const ValueId v : {gathered, scattered, reduced, moved, sum, columns, x}) {
            add_output(b, v, str("out", n++));
        }
        return g;
    };
    const Vector w{1, 2, 3, 4, 5, 6, 7, 8};
    const auto x_of = [](i64 rank) {
        return rank < 3 ? Vector{1.0 + static_cast<double>(rank), 4.0 - static_cast<double>(rank)} : Vector{};
    };
    const auto all_of = [](i64 rank) {
        Vector all;
        for (int i = 0; i < 6; ++i)
            all.push_back(static_cast<double>((i * 5 + rank * 7) % 11 - 3));
        return all;
    };
    for (u64 seed = 0; seed < 6; ++seed)
        for (const Combine combine : {Combine::sum, Combine::max, Combine::min, Combine::product}) {
            INFO("seed " << seed << ", " << std::string(name_of(combine)));
            std::vector<RankResult> results(4);
            run_on_threads(4, [&](Comm& comm) {
                results[static_cast<std::size_t>(comm.rank())] =
                    run_rank(comm, make(comm.rank(), combine),
                             {{"x", x_of(comm.rank())}, {"w", w}, {"all", all_of(comm.rank())}}, seed);
            });
            Vector combined = all_of(0), rows, inner(4, 0), product;
            for (i64 rank = 0; rank < 4; ++rank) {
                const Vector x = x_of(rank), all = all_of(rank);
                for (std::size_t i = 0; rank > 0 && i < 6; ++i)
                    combined[i] = combine == Combine::sum   ? combined[i] + all[i]
                                  : combine == Combine::max ? std::max(combined[i], all[i])
                                  : combine == Combine::min ? std::min(combined[i], all[i])
                                                            : combined[i] * all[i];
                for (std::size_t i = 0; i < x.size(); ++i) {
                    rows.push_back(4 * x[i]);
                    for (std::size_t j = 0; j < x.size(); ++j)
                        inner[2 * i + j] += 2 * x[i] * x[j];
                }
                for (std::size_t n = 0; n < 4 && rank < 3; ++n)
                    product.push_back(2 * (x[0] * w[n] + x[1] * w[4 + n]));
            }
            for (double& value : combined)
                value *= 2;
            for (i64 rank = 0; rank < 4; ++rank) {
                INFO("rank " << rank);
                const auto row = combined.begin() + 2 * rank;
                Tensors expected{{"out0", rows}, {"out2", combined}, {"out4", inner}, {"out5", {0, 0}}};
                if (rank < 3) {
                    expected["out1"] = {row[0], row[1]};
                    expected["out5"] = {2 * x_of(rank)[0], 2 * x_of(rank)[1]};
                    expected["out6"] = expected["out5"];
                } else {
                    expected["out3"] = product;
                }
                CHECK(results[static_cast<std::size_t>(rank)].outputs == expected);
            }
        }
}
