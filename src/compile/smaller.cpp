#include "compile/smaller.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "config/schedules.hpp"

namespace trivium {

std::vector<SmallerSetting> smaller_settings(const RunConfig& config, const Machine& machine)
{
    std::vector<SmallerSetting> all;
    RunConfig last = config;
    std::string together;
    const auto add = [&](const std::string& overrides, const RunConfig& changed) {
        all.push_back({overrides, changed});
    };
    const auto combine = [&](const std::string& overrides) {
        together += (together.empty() ? "" : " ") + overrides;
    };
    RunConfig changed = config;
    while (config.parallel.data > 1 && changed.parallel.zero < 3) {
        ++changed.parallel.zero;
        add(str("parallel.zero=", changed.parallel.zero), changed);
    }
    if (changed.parallel.zero != config.parallel.zero)
        combine("parallel.zero=3");
    last.parallel.zero = changed.parallel.zero;
    changed = config;
    for (const Recompute more : {Recompute::selective, Recompute::full})
        if (static_cast<int>(config.parallel.recompute) < static_cast<int>(more)) {
            changed.parallel.recompute = more;
            add(str("parallel.recompute=", name_of(more)), changed);
        }
    if (changed.parallel.recompute != config.parallel.recompute)
        combine("parallel.recompute=full");
    last.parallel.recompute = changed.parallel.recompute;
    // Schedules with fewer activations.
    for (const ScheduleKind kind : {ScheduleKind::one_f_one_b, ScheduleKind::v_half, ScheduleKind::v_min}) {
        changed = config;
        changed.parallel.schedule = name_of(kind);
        changed.parallel.schedule_rows.clear();
        changed.parallel.schedule_near.clear();
        changed.parallel.chunks = 0;
        if (config.parallel.pipeline > 1 && changed.parallel.schedule != config.parallel.schedule &&
            config.parallel.pipeline * chunks_of(kind).usual <= config.model.layers + 2)
            add(str("parallel.schedule=", name_of(kind),
                    config.parallel.chunks > 0 ? " parallel.chunks=0" : ""),
                changed);
    }
    changed = config;
    const i64 micro = micro_batch(config);
    changed.parallel.schedule_rows.clear(); // orders as many microbatches as there are now
    const bool fixed = is_schedule_file(config.parallel.schedule);
    for (i64 part = fixed ? 0 : micro / 2; part >= 1; part /= 2)
        if (micro % part == 0) {
            changed.train.micro_batch = part;
            add(str("train.micro_batch=", part), changed);
        }
    changed = config;
    changed.parallel.offload = Offload::optimizer;
    if (config.parallel.offload != Offload::optimizer && !machine.is_device)
        add("parallel.offload=optimizer", changed);
    const std::string without_micro = together;
    const RunConfig less = last;
    if (micro > 1 && !fixed) {
        combine("train.micro_batch=1");
        last.train.micro_batch = 1;
        last.parallel.schedule_rows.clear();
    }
    const auto is_new = [&](const std::string& overrides) {
        return overrides.find(' ') != std::string::npos;
    };
    if (is_new(without_micro) && without_micro != together)
        add(without_micro, less);
    if (is_new(together))
        add(together, last);
    return all;
}

std::vector<std::string> settings_within(const RunConfig& config, const CompileConfig& options, Bytes limit,
                                         std::size_t count)
{
    std::vector<std::string> found;
    for (const SmallerSetting& each : smaller_settings(config, options.machine))
        if (found.size() < count && is_within(each.config, options, limit))
            found.push_back(each.overrides);
    return found;
}

bool is_within(const RunConfig& config, const CompileConfig& options, Bytes limit)
{
    struct TooLarge {};
    RunConfig free = config;
    free.parallel.memory_limit = 0;
    CompileConfig quietly;
    quietly.machine = options.machine;
    quietly.runner.verify = false;
    Activity::of_process().advance(); // takes seconds for a large model
    try {
        compile_ranks(free, quietly, is_first_of_stage, [&](i64, const Compiled& compiled) {
            if (compiled.memory.arena > limit)
                throw TooLarge{};
        });
        return true;
    } catch (const TooLarge&) {
        return false;
    }
}

} // namespace trivium
