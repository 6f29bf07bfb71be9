// The bytes that small random programs move, as `explain` lists them, against the least that an exhaustive
// search finds. The search knows nothing of the lookahead: it annotates every value that nobody annotated
// with each possible closed sharding, and runs all passes on each combination. A failing case prints its
// seed and its text.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "passes/sharding/axis_parts.hpp"
#include "passes/sharding/lookahead.hpp"
#include "passes/sharding/partition.hpp"
#include "plan/collective_list.hpp"
#include "plan/graph_file.hpp"
#include "random_program.hpp"
#include "reshardings.hpp"
#include "shardings.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <cstdio>

using namespace trivium;

namespace {

const std::vector<Mesh> small_meshes{
    {{{"x", 2}}}, {{{"x", 2}, {"y", 2}}}, {{{"x", 4}}}, {{{"x", 2}, {"y", 4}}}};

/// What a user sees: the bytes that the collectives of rank 0 move.
double bytes_moved(const Graph& graph)
{
    Bytes bytes = 0;
    for (const CollectiveEntry& entry : collectives_of(local_graph(sharded_graph(graph), 0)))
        bytes += entry.bytes;
    return static_cast<double>(bytes);
}

struct SmallConfig {
    std::uint64_t seed = 0;
    bool backward = false;
    double most_combinations = 0; ///< of the exhaustive search
};

/// A program of at most 6 ops with an annotation on most inputs and outputs and on some other values; no ops
/// if that seed has none, or one with too many combinations.
Graph small_program(const SmallConfig& config)
{
    RandomConfig random;
    random.mesh = small_meshes[config.seed % small_meshes.size()];
    random.least_ops = 2;
    random.most_ops = config.backward ? 2 : 6;
    random.annotated = 1'000'000'000;
    random.backward = random.loss = config.backward;
    random.least_extent = 8;
    random.most_extent = 24;
    random.most_elements = 1 << 16;
    Graph graph = random_program(config.seed, random);
    std::vector<bool> used(graph.values.size(), false), output(graph.values.size(), false);
    for (const Op& op : graph.ops)
        for (const ValueId v : op.operands)
            used[v.index()] = true;
    for (const ValueId v : graph.outputs)
        output[v.index()] = true;
    Draw draw(config.seed ^ 0x9e3779b97f4a7c15U);
    const AxisPieces pieces = drawn_pieces(draw, graph.mesh, false);
    double combinations = 1;
    for (std::size_t i = 0; i < graph.values.size(); ++i) {
        Value& v = graph.values[i];
        const bool boundary = !v.producer || output[i];
        if (v.sharding->dims.empty() && !v.type.shape.empty() && (used[i] || output[i]) &&
            draw() % 100 < (boundary ? 80U : 15U))
            v.sharding = drawn_sharding(draw, v.type, graph.mesh, pieces, {});
        if (!boundary && v.sharding->dims.empty())
            combinations *= static_cast<double>(all_closed_shardings(v.type.shape, graph.mesh).size());
    }
    if (graph.ops.size() > (config.backward ? 16 : 6) || combinations > config.most_combinations)
        graph.ops.clear();
    return graph;
}

/// The least bytes with any sharding of the values that nobody annotated, but for inputs and outputs: these
/// stay as propagation shards the program itself.
class Exhaustive {
public:
    explicit Exhaustive(const Graph& graph) : graph_(graph)
    {
        const Graph sharded = sharded_graph(graph);
        for (std::size_t i = 0; i < graph.values.size(); ++i)
            if (!graph.values[i].producer ||
                std::find(graph.outputs.begin(), graph.outputs.end(), ValueId(i)) != graph.outputs.end())
                graph_.values[i].sharding.edit().dims = sharded.values[i].sharding->dims;
        for (std::size_t i = 0; i < graph.values.size(); ++i) {
            const Value& v = graph.values[i];
            if (v.producer && v.sharding->dims.empty() &&
                std::find(graph.outputs.begin(), graph.outputs.end(), ValueId(i)) == graph.outputs.end()) {
                free_.push_back(i);
                choices_.push_back(all_closed_shardings(v.type.shape, graph.mesh));
            }
        }
    }

    double least(Graph* best)
    {
        double least = -1;
        std::vector<std::size_t> choice(free_.size(), 0);
        for (bool more = true; more;) {
            for (std::size_t i = 0; i < free_.size(); ++i)
                graph_.values[free_[i]].sharding = choices_[i][choice[i]];
            if (const double bytes = bytes_moved(graph_); least < 0 || bytes < least) {
                least = bytes;
                *best = graph_;
            }
            more = false;
            for (std::size_t i = 0; i < free_.size() && !more; ++i) {
                more = ++choice[i] < choices_[i].size();
                if (!more)
                    choice[i] = 0;
            }
        }
        return least;
    }

private:
    Graph graph_;
    std::vector<std::size_t> free_;
    std::vector<std::vector<Sharding>> choices_;
};

/// Without a byte to move, what is moved counts as many times the optimum.
double ratio_of(double bytes, double optimum)
{
    constexpr double none = 10;
    return bytes <= optimum ? 1 : optimum == 0 ? none : std::min(none, bytes / optimum);
}

} // namespace

TEST_CASE("small programs move at most 1.1 of the bytes of the exhaustive optimum on average")
{
    soak::Budget budget;
    const u64 first = soak::seed() * 1'000'000;
    const double most = soak::number("TRIVIUM_SOAK_SECONDS", 0) ? 4000 : 400;
    const char* only = std::getenv("TRIVIUM_SEED"); // and prints this one
    double sum = 0, worst = 0;
    int graphs = 0, optimal = 0;
    std::string report;
    for (u64 seed = only ? std::strtoull(only, nullptr, 10) : first; graphs < 60 || budget.left(); ++seed) {
        const Graph graph = small_program({seed, seed % 8 == 7, most});
        if (graph.ops.empty() && !only)
            continue;
        Graph best = graph;
        const double bytes = bytes_moved(graph), optimum = Exhaustive(graph).least(&best),
                     ratio = ratio_of(bytes, optimum);
        if (bytes > 0 || optimum > 0) { // the others would only flatter the mean
            sum += ratio;
            ++graphs;
            optimal += ratio == 1;
        }
        if (only || ratio > worst) {
            worst = ratio;
            report = str("seed ", seed, ": ", bytes, " bytes, optimum ", optimum, "\n", to_text(graph),
                         "\nrank 0:\n", to_text(local_graph(sharded_graph(graph), 0)), "\nthe optimum:\n",
                         to_text(local_graph(sharded_graph(best), 0)));
        }
        if (only)
            break;
    }
    if (only)
        std::printf("%s", report.c_str());
    INFO("the worst: " << report);
    WARN(graphs << " graphs that move data: mean " << sum / graphs << ", worst " << worst
                << ", at the optimum " << optimal);
    CHECK(graphs > 0);
    CHECK(sum <= 1.1 * graphs);
}

TEST_CASE("the lookahead changes no annotation, no input and no output")
{
    int changed = 0;
    for (u64 seed = 0; seed < 100; ++seed) {
        RandomConfig config;
        config.mesh = small_meshes[seed % small_meshes.size()];
        config.backward = seed % 2 == 0;
        const Graph given = random_program(seed, config), sharded = sharded_graph(given);
        INFO("seed " << seed << "\n" << to_text(given));
        const Graph chosen =
            look_ahead(sharded, {Coordinates(given.mesh.axes.size(), 0), pipeline_axis, true});
        const AxisParts parts(given, true); // neighbouring parts have one name
        for (std::size_t i = 0; i < given.values.size(); ++i) {
            const std::vector<DimSharding>&annotated = given.values[i].sharding->dims,
                  &before = sharded.values[i].sharding->dims, &after = chosen.values[i].sharding->dims;
            INFO("%" << given.values[i].name);
            for (std::size_t d = 0; d < annotated.size(); ++d) {
                const PartList axes = parts.parts_of(annotated[d].axes),
                               chosen_axes = parts.parts_of(after[d].axes);
                CHECK((chosen_axes.size() >= axes.size() &&
                       std::equal(axes.begin(), axes.end(), chosen_axes.begin())));
                if (!annotated[d].open)
                    CHECK(chosen_axes == axes);
            }
            if (!given.values[i].producer ||
                std::find(given.outputs.begin(), given.outputs.end(), ValueId(i)) != given.outputs.end())
                CHECK(after == before);
            changed += after != before;
        }
    }
    CHECK(changed > 100); // it changes others
}

TEST_CASE("fewer than 5 % of the reshardings of random programs are full gathers")
{
    const std::vector<Mesh> meshes{{{{"x", 2}}}, {{{"x", 2}, {"y", 2}}}, {{{"x", 3}, {"y", 2}}},
                                   {{{"x", 4}}}, {{{"x", 2}, {"y", 4}}}, {{{"x", 2}, {"y", 2}, {"z", 2}}}};
    Reshardings reshardings;
    const u64 first = soak::seed() * 1'000'000; // as in random_programs_test
    for (u64 seed = first; seed < first + 60; ++seed) {
        RandomConfig config;
        config.mesh = meshes[seed % meshes.size()];
        config.backward = seed % 4 != 0;
        const Graph sharded = sharded_graph(random_program(seed, config));
        const PartitionConfig rank{Coordinates(sharded.mesh.axes.size(), 0), pipeline_axis, true};
        count_reshardings(partition(look_ahead(sharded, rank), rank), reshardings);
    }
    WARN(reshardings.full_gathers << " of " << reshardings.all << " reshardings are full gathers");
    CHECK(reshardings.all > 300);
    CHECK(reshardings.full_gathers * 20 < reshardings.all);
}
