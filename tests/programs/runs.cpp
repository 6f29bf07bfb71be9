#include "runs.hpp"

#include "ir/text/text.hpp"
#include "mpi/comm.hpp"
#include "plan/graph_file.hpp"
#include "runtime/device.hpp"

#include <algorithm>

namespace trivium::runs {

namespace {

RankRunConfig small_scratch()
{
    RankRunConfig config;
    config.scratch = {Bytes{1} << 18, Bytes{1} << 18, Bytes{1} << 16, Bytes{1} << 16};
    return config;
}

Comparison compared(const Graph& sharded, const TensorSource& source, bool gather, bool divide = false)
{
    const Graph decided = decided_graph(sharded);
    Comparison found;
    run_on_threads(static_cast<int>(sharded.mesh.ranks()), [&](Comm& comm) {
        Comparison comparison =
            compare_with_one_rank(sharded, comm, source, {small_scratch(), gather, &decided, {}, divide});
        if (comm.rank() == 0)
            found = std::move(comparison);
    });
    return found;
}

} // namespace

void start_runtime() { static const Computing computing(1); }

Comparison comparison_on_threads(const Graph& sharded, std::uint64_t seed, bool gather)
{
    return compared(sharded, drawn_source(sharded, seed), gather, seed % 2 == 0);
}

Comparison comparison_on_threads(const Graph& sharded, const TensorSource& source)
{
    return compared(sharded, source, true);
}

std::vector<double> differences_on_threads(const std::string& text, std::uint64_t seed)
{
    std::vector<double> found;
    for (const ComparedOutput& output :
         comparison_on_threads(sharded_graph(read_graph(text, "program")), seed).outputs)
        found.push_back(output.difference);
    return found;
}

double difference_on_threads(const std::string& text, std::uint64_t seed)
{
    const std::vector<double> all = differences_on_threads(text, seed);
    return all.empty() ? 0 : *std::max_element(all.begin(), all.end());
}

} // namespace trivium::runs
