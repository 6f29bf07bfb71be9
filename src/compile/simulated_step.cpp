#include "compile/simulated_step.hpp"

#include "base/check.hpp"
#include "compile/threads.hpp"
#include "config/schedules.hpp"
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
    const std::vector<StageProgram> programs = programs_of(ranks);
    if (config.model.is_program())
        require_runnable(programs, config);
    auto [timelines, seconds] = step_of(programs, machine, threads);
    for (std::size_t s = 0; s < ranks.size(); ++s)
        ranks[s].timeline = std::move(timelines[s]);
    return seconds;
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

double EvenMicrobatches::extended(double of_few, double of_more) const
{
    const double times = static_cast<double>(all - few) / static_cast<double>(more - few);
    return std::max(0.0, of_few + times * (of_more - of_few));
}

StepParts EvenMicrobatches::extended(StepParts of_few, const StepParts& of_more) const
{
    of_few.computed = extended(of_few.computed, of_more.computed);
    for (const auto& [axis, seconds] : of_more.exposed) {
        Seconds& exposed = of_few.exposed[axis];
        exposed = extended(exposed, seconds);
    }
    return of_few;
}

std::optional<EvenMicrobatches> even_microbatches(const RunConfig& config, const PipelineOrder& order)
{
    const i64 stages = config.parallel.pipeline;
    // A multiple of the stages, for schedules that run microbatches in groups.
    const EvenMicrobatches made{2 * stages, 3 * stages, order.shape.microbatches};
    const auto kind = schedule_called(config.parallel.schedule);
    const bool keeps_all = kind == ScheduleKind::gpipe || kind == ScheduleKind::breadth_first;
    if (made.all <= made.more || !kind || (stages > 1 && keeps_all))
        return {};
    return made;
}

std::pair<RunConfig, PipelineOrder> with_microbatches(const RunConfig& config, i64 microbatches)
{
    RunConfig made = config;
    made.train.batch_ramp = {};
    made.train.micro_batch = micro_batch(config);
    made.train.global_batch = microbatches * made.train.micro_batch * batch_ranks(config.parallel);
    PipelineOrder order = training_order(made);
    return {std::move(made), std::move(order)};
}

void set_steps(Program& program, const std::shared_ptr<const PipelineOrder>& order, std::size_t rank,
               const LayOutConfig& config)
{
    program.microbatches = order->shape.microbatches;
    program.tasks = order->ranks[rank];
    program.order = order;
    if (program.head > 0)
        program.head = head_tasks(*order)[rank];
    build_steps(program, config);
}

PlayedStep::PlayedStep(const RunConfig& config, const PipelineOrder& order, const Machine& machine,
                       std::size_t most)
    : config_(config), lay_out_(lay_out_config(config, machine)), most_(most),
      even_(even_microbatches(config, order))
{
}

void PlayedStep::add(i64 rank, Program program, const MemoryPlan& memory)
{
    const std::size_t stage = ranks_.size();
    if (stage == 0 && even_ &&
        program.schedule.steps.size() * static_cast<std::size_t>(config_.parallel.pipeline) > most_)
        for (const auto& [microbatches, order] :
             {std::pair(even_->few, &few_), std::pair(even_->more, &more_)})
            *order = std::make_shared<PipelineOrder>(with_microbatches(config_, microbatches).second);
    if (more_) {
        set_steps(program, few_, stage, lay_out_);
        fewer_.push_back({rank, program, memory, {}});
        set_steps(program, more_, stage, lay_out_);
    }
    ranks_.push_back({rank, std::move(program), memory, {}});
}

Seconds PlayedStep::simulate(const Machine& machine, int threads)
{
    if (!fewer_.empty())
        fewer_seconds_ = trivium::simulate(fewer_, machine, threads, config_);
    seconds_ = trivium::simulate(ranks_, machine, threads, config_);
    return extended(fewer_seconds_, seconds_);
}

Seconds PlayedStep::seconds(const Machine& machine, int threads) const
{
    const Seconds all = step_of(programs_of(ranks_), machine, threads).second;
    return fewer_.empty() ? all : extended(step_of(programs_of(fewer_), machine, threads).second, all);
}

StepParts PlayedStep::parts() const
{
    StepParts all = busiest_parts(ranks_, seconds_);
    return fewer_.empty() ? all : even_->extended(busiest_parts(fewer_, fewer_seconds_), all);
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
