#include "cli/graph/run_graph.hpp"

#include "base/address_space.hpp"
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/median.hpp"
#include "cli/config_arguments.hpp"
#include "compile/threads.hpp"
#include "io/files/files.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "mpi/session.hpp"
#include "plan/cost.hpp"
#include "plan/graph_file.hpp"
#include "plan/machine.hpp"
#include "programs/compare.hpp"
#include "programs/tensor_file.hpp"
#include "runtime/device.hpp"
#include "train/node_resources.hpp"
#include "train/this_machine.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

constexpr i64 max_threads_as_ranks = 64;

/// The graph, which all ranks of the mesh run.
Graph graph_to_run(const std::string& file)
{
    Graph graph = read_graph(read_file(file, "graph file", static_cast<Bytes>(max_text_bytes)), file);
    if (!graph.at.empty())
        throw UserError({file, "cannot be run",
                         "it has a line `at`, so it is the graph of one of several ranks",
                         "run the graph of all ranks, from which it was made"});
    if (graph.outputs.empty())
        throw UserError({file, "has no output", "nothing would be computed and compared",
                         "name a result: `output %NAME`"});
    return graph;
}

void require_ranks(int started, i64 ranks, const std::string& file)
{
    const std::string start = str("start it with mpirun -n ", ranks, " (or srun -n ", ranks, ")");
    if (started > 1 && started != ranks)
        throw UserError({file,
                         str("has a mesh of ", counted(static_cast<std::size_t>(ranks), "rank"), ", but ",
                             started, " ranks were started"),
                         "", start + (ranks == 1 ? ", or without a launcher" : "")});
    if (started > 1 || ranks == 1)
        return;
    const bool on_device = computes_on_device();
    if (on_device || ranks > max_threads_as_ranks)
        throw UserError({file, str("has a mesh of ", ranks, " ranks, but one was started"),
                         on_device
                             ? "in a build for devices, ranks cannot be threads of one process"
                             : str("at most ", max_threads_as_ranks, " ranks can be threads of one process"),
                         start});
}

std::string sharding_text(const Sharding& sharding)
{
    const std::string text = to_text(sharding);
    return text.empty() ? "-" : text;
}

/// JSON has no infinity.
nlohmann::ordered_json json_of(double difference)
{
    return std::isfinite(difference) ? nlohmann::ordered_json(difference)
                                     : nlohmann::ordered_json("infinite");
}

void print(const Comparison& result, bool json)
{
    if (json) {
        nlohmann::ordered_json outputs = nlohmann::json::array();
        for (const ComparedOutput& o : result.outputs)
            outputs.push_back({{"name", o.name},
                               {"shape", o.type.shape},
                               {"dtype", name_of(o.type.dtype)},
                               {"sharding", to_text(o.sharding)},
                               {"difference", json_of(o.difference)}});
        nlohmann::ordered_json all{{"outputs", outputs}, {"difference", json_of(result.difference)}};
        if (!result.times.empty())
            all["seconds"] = median(result.times);
        fmt::print("{}\n", all.dump(2));
        return;
    }
    std::size_t name = 0, type = 0, sharding = 0;
    for (const ComparedOutput& o : result.outputs) {
        name = std::max(name, o.name.size() + 1);
        type = std::max(type, to_string(o.type).size());
        sharding = std::max(sharding, sharding_text(o.sharding).size());
    }
    fmt::print("# outputs: type, sharding, largest relative difference from the unpartitioned program\n");
    for (const ComparedOutput& o : result.outputs)
        fmt::print("{:<{}}  {:<{}}  {:<{}}  {:.3g}\n", "%" + o.name, name, to_string(o.type), type,
                   sharding_text(o.sharding), sharding, o.difference);
    fmt::print("largest difference: {:.3g}\n", result.difference);
    if (!result.times.empty())
        fmt::print("time: {} per run, the median of {}\n", format_seconds(median(result.times)),
                   counted(result.times.size(), "run"));
}

void write_outputs(const std::string& path, const Comparison& result)
{
    std::vector<NamedTensor> tensors;
    for (const ComparedOutput& o : result.outputs)
        if (std::ranges::none_of(tensors, [&](const NamedTensor& t) { return t.name == o.name; }))
            tensors.push_back({o.name, o.type, o.whole});
    write_tensors(path, tensors);
    log_info("wrote " + path);
}

int run(Session& session, const GraphRunArguments& arguments)
{
    Comm& world = session.world();
    if (session.rank() > 0)
        set_log_level(LogLevel::quiet);
    Graph graph;
    TensorSource source;
    succeed_together(world, [&] {
        graph = graph_to_run(arguments.file);
        require_ranks(world.size(), graph.mesh.ranks(), arguments.file);
        source = arguments.inputs.empty() ? drawn_source(graph, arguments.seed)
                                          : file_source(graph, arguments.inputs);
        graph = sharded_graph(std::move(graph));
    });
    Grid grid(world, {{{data_axis, world.size()}}}, node_name());
    const int threads = thread_count({}, thread_limit(), ranks_on_same_cores(grid));
    const bool as_threads = world.size() == 1 && graph.mesh.ranks() > 1;
    const Computing computing(as_threads ? 1 : threads, &grid);
    CompareConfig config;
    config.work = work_prices(arguments.machine, graph.mesh.ranks());
    config.run = {.scratch = machine_of(computing).scratch,
                  .threads = as_threads ? 1 : threads,
                  .delay = {arguments.delay_latency, arguments.delay_bandwidth},
                  .repeats = static_cast<int>(arguments.repeats)};
    config.gather = !arguments.outputs.empty();
    Comparison result;
    if (as_threads) {
        const Graph decided = decided_graph(graph, config.work);
        config.decided = &decided;
        run_on_threads(static_cast<int>(graph.mesh.ranks()), [&](Comm& comm) {
            Comparison own = compare_with_one_rank(graph, comm, source, config);
            if (comm.rank() == 0)
                result = std::move(own);
        });
    } else {
        result = compare_with_one_rank(graph, world, source, config);
    }
    succeed_together(world, [&] {
        if (session.rank() > 0)
            return;
        if (config.gather)
            write_outputs(arguments.outputs, result);
        print(result, arguments.json);
    });
    return session.end_together(0);
}

} // namespace

int run_graph(const GraphRunArguments& arguments)
{
    require_address_space(room_for_libraries, "libraries");
    return run_session([&](Session& session) { return run(session, arguments); });
}

void write_contents(const std::string& file, const std::vector<HloContents>& contents)
{
    std::vector<NamedTensor> tensors;
    for (const HloContents& constant : contents)
        tensors.push_back({constant.name, constant.type, constant.bytes});
    write_tensors(file, tensors);
    log_info("wrote " + file);
}

} // namespace trivium
