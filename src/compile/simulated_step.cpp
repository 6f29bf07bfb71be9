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

namespace {

std::vector<StageProgram> programs_of(const std::vector<SimulatedRank>& ranks)
{
    std::vector<StageProgram> programs;
    for (const SimulatedRank& rank : ranks)
        programs.push_back({&rank.program.graph, &rank.program.schedule});
    return programs;
}

/// The timelines of a step, and the time from step to step.
std::pair<std::vector<Timeline>, Seconds> step_of(const std::vector<StageProgram>& programs,
                                                  const Machine& machine, int threads)
{
    std::vector<Seconds> begins(programs.size(), 0);
    std::vector<Timeline> timelines;
    Seconds seconds = 0;
    // Steps that follow each other directly soon take the same time.
    const int rounds = programs.front().schedule->decides_early ? 4 : 1;
    for (int round = 0; round < rounds; ++round) {
        const Seconds before = *std::ranges::max_element(begins), first = *std::ranges::min_element(begins);
        for (Seconds& begin : begins)
            begin -= first;
        timelines = simulate(programs, machine, threads, begins);
        for (std::size_t s = 0; s < programs.size(); ++s)
            begins[s] = timelines[s].length();
        seconds = *std::ranges::max_element(begins) - (before - first);
    }
    return {std::move(timelines), seconds};
}

} // namespace

void require_runnable(const std::vector<StageProgram>& stages, const RunConfig& config)
{
    const std::optional<StepFault> fault = find_fault(stages, config.parallel.overlap);
    TRV_CHECK(!fault || config.model.is_program(), fault->problem);
    if (fault)
        throw UserError({"parallel.pipeline",
                         str("the stages of the program cannot run together with schedule \"",
                             config.parallel.schedule, "\""),
                         fault->problem,
                         "use another parallel.schedule, such as \"1f1b\" or \"gpipe\", fewer stages, or "
                         "other blocks"});
}

Seconds simulate(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads,
                 const RunConfig& config)
{
    require_runnable(programs_of(ranks), config);
    return simulate_unchecked(ranks, machine, threads);
}

Seconds simulate_unchecked(std::vector<SimulatedRank>& ranks, const Machine& machine, int threads)
{
    const std::vector<StageProgram> programs = programs_of(ranks);
    auto [timelines, seconds] = step_of(programs, machine, threads);
    for (std::size_t s = 0; s < ranks.size(); ++s)
        ranks[s].timeline = std::move(timelines[s]);
    return seconds;
}

Seconds step_seconds(const std::vector<SimulatedRank>& ranks, const Machine& machine, int threads)
{
    return step_of(programs_of(ranks), machine, threads).second;
}

StepParts busiest_parts(const std::vector<SimulatedRank>& ranks, Seconds length)
{
    StepParts busiest;
    for (const SimulatedRank& rank : ranks) {
        StepParts parts = parts_of_step(rank.program.graph, rank.program.schedule, rank.timeline, length);
        if (parts.computed > busiest.computed)
            busiest = std::move(parts);
    }
    return busiest;
}

SimulatedStep simulate_step(const Choices& choices, const CompileConfig& options, std::size_t program,
                            int thread_limit)
{
    const ParallelConfig& parallel = choices.config.parallel;
    SimulatedStep made;
    made.threads = planned_threads(parallel, options.machine, thread_limit);
    made.chunks = choices.order.shape.chunks;
    compile_ranks(choices, options, is_first_of_stage, [&](i64 rank, Compiled& compiled) {
        made.ranks.push_back({rank, std::move(compiled.programs[program]), compiled.memory, {}});
        made.parallel = compiled.parallel;
        return true;
    });
    made.seconds =
        simulate(made.ranks, with_delay(options.machine, parallel.delay_latency, parallel.delay_bandwidth),
                 made.threads, choices.config);
    return made;
}

} // namespace trivium
