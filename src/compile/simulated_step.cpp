#include "compile/simulated_step.hpp"

#include "base/check.hpp"
#include "compile/threads.hpp"
#include "plan/check_steps.hpp"
#include "plan/cost.hpp"

#include <algorithm>

namespace trivium {

Seconds SimulatedStep::length() const
{
    Seconds length = 0;
    for (const SimulatedRank& rank : ranks)
        length = std::max(length, rank.timeline.length());
    return length;
}

int planned_threads(const ParallelConfig& config, const Machine& machine, int limit)
{
    return thread_count(config, limit, static_cast<int>(machine.ranks_of_a_node(rank_count(config))));
}

void simulate(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads, bool overlap)
{
    std::vector<StageProgram> programs;
    for (const SimulatedRank& rank : ranks)
        programs.push_back({&rank.program.graph, &rank.program.schedule});
    if (const std::optional<StepFault> fault = find_fault(programs, overlap))
        TRV_CHECK(false, fault->problem);
    for (std::size_t s = 0; Timeline & timeline : simulate(programs, machine, threads))
        ranks[s++].timeline = std::move(timeline);
}

SimulatedStep simulate_step(const RunConfig& config, const CompileConfig& options, std::size_t program,
                            int thread_limit)
{
    SimulatedStep made;
    made.threads = planned_threads(config.parallel, options.machine, thread_limit);
    compile_ranks(
        config, options, [](const Mesh& mesh, i64 rank) { return is_first_of_stage(mesh, rank); },
        [&](i64 rank, Compiled& compiled) {
            made.ranks.push_back({rank, std::move(compiled.programs[program]), compiled.memory, {}});
            made.parallel = compiled.parallel;
            made.chunks = compiled.order.shape.chunks;
        });
    const ParallelConfig& links = config.parallel;
    simulate(made.ranks, with_delay(options.machine, links.delay_latency, links.delay_bandwidth),
             made.threads, links.overlap);
    return made;
}

} // namespace trivium
