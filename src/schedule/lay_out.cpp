#include "schedule/lay_out.hpp"

#include "base/check.hpp"

namespace trivium {

void build_steps(Program& program, const LayOutConfig& config)
{
    ScheduleConfig schedule;
    schedule.tasks = program.tasks;
    schedule.order = program.order.get();
    schedule.head = program.head;
    schedule.microbatches = program.microbatches;
    schedule.place = config.place;
    schedule.receive_early = config.receive_early;
    schedule.scratch = config.scratch;
    program.schedule = build_schedule(program.graph, schedule);
}

ArenaPlans lay_out(std::span<Program> programs, const LayOutConfig& config)
{
    std::vector<Schedule*> schedules;
    for (Program& program : programs) {
        build_steps(program, config);
        schedules.push_back(&program.schedule);
    }
    MemoryConfig memory;
    memory.place = config.offsets;
    memory.red_zone = contracts_on ? 256 : 0;
    ArenaPlans plans;
    plans.device = plan_memory(schedules, memory);
    plans.device.process = config.process;
    memory.space = Space::host;
    plans.host = plan_memory(schedules, memory);
    plans.device.host_arena = plans.host.arena;
    return plans;
}

} // namespace trivium
