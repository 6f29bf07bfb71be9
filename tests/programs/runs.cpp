#include "runs.hpp"

#include "ir/text.hpp"
#include "mpi/comm.hpp"
#include "plan/graph_file.hpp"
#include "programs/compare.hpp"
#include "runtime/device.hpp"

namespace trivium::runs {

void start_runtime() { static const Computing computing(1); }

double difference_on_threads(const std::string& text, std::uint64_t seed)
{
    const Graph sharded = sharded_graph(read_graph(text, "program"));
    const TensorSource source = drawn_source(sharded, seed);
    double found = 0;
    run_on_threads(static_cast<int>(sharded.mesh.ranks()), [&](Comm& comm) {
        CompareConfig config;
        config.run.scratch = {Bytes{1} << 18, Bytes{1} << 18, Bytes{1} << 16, Bytes{1} << 16};
        const Comparison comparison = compare_with_one_rank(sharded, comm, source, config);
        if (comm.rank() == 0)
            found = comparison.difference.value();
    });
    return found;
}

} // namespace trivium::runs
