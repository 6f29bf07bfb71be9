#include "choose/decide.hpp"

#include "base/check.hpp"
#include "choose/choose_schedule.hpp"
#include "choose/memory_policy.hpp"
#include "choose/smaller.hpp"
#include "config/schedules.hpp"

namespace trivium {

namespace {

void require_limit(const Candidate& chosen, const StagesNeed& need, Estimator& estimator)
{
    const Bytes limit = chosen.config.parallel.memory_limit;
    if (need.largest.arena <= limit)
        return;
    std::string remedy;
    for (const std::string& overrides : settings_within(chosen, estimator, limit, 3))
        remedy += (remedy.empty() ? "" : ", or ") + overrides;
    require_within(
        need.largest, limit,
        str("rank ", need.rank, chosen.config.parallel.pipeline > 1 ? str(" of stage ", need.stage) : ""),
        remedy.empty() ? "" : "within the limit: " + remedy);
}

} // namespace

ContextForm context_form_of(RunConfig config, Estimator& estimator)
{
    ParallelConfig& p = config.parallel;
    if (p.context_form != ContextForm::automatic)
        return p.context_form;
    if (block_ranks(p) == 1 || estimator.machine().is_device) // rings have not run on devices yet
        return ContextForm::gather;
    const Machine clock = deciding_machine(p, estimator.machine().is_device);
    config.train.micro_batch = micro_batch(config);
    if (p.schedule == automatic_schedule) {
        p.schedule = name_of(p.pipeline > 1 ? ScheduleKind::zb_h1 : ScheduleKind::one_f_one_b);
        p.chunks = 0;
    }
    if (p.update == UpdateMode::automatic)
        p.update = UpdateMode::synchronous;
    config = with_usual_policy(std::move(config));
    const auto step = [&](ContextForm form) {
        p.context_form = form;
        return estimator.rough_score({config, training_order(config)}, clock, {}).step;
    };
    const Seconds gather = step(ContextForm::gather);
    return step(ContextForm::ring) < gather ? ContextForm::ring : ContextForm::gather;
}

Choices decide(const RunConfig& config, Estimator& estimator, ContextForm known)
{
    Choices choices;
    const auto choose = [&](ContextForm form) {
        RunConfig given = config;
        given.parallel.context_form = form;
        Candidate made = choose_schedule(given, estimator);
        choices.recorded = made.config;
        choices.recorded.parallel.context_form = config.parallel.context_form;
        made.config.train.micro_batch = micro_batch(made.config);
        made.config = with_memory_policy(made.config, made.order, estimator);
        return made;
    };
    const ContextForm form = known == ContextForm::automatic ? context_form_of(config, estimator) : known;
    Candidate chosen = choose(form);
    ChosenBuckets buckets;
    if (const Bytes limit = config.parallel.memory_limit; limit == 0) {
        buckets = estimator.buckets(chosen);
    } else {
        StagesNeed need = *estimator.needs(chosen, {});
        if (need.largest.arena > limit && config.parallel.context_form == ContextForm::automatic &&
            block_ranks(config.parallel) > 1) { // the slower form may need less
            Candidate other = choose(form == ContextForm::ring ? ContextForm::gather : ContextForm::ring);
            if (std::optional<StagesNeed> fitting = estimator.needs(other, {.arena = limit})) {
                chosen = std::move(other);
                need = std::move(*fitting);
            }
        }
        require_limit(chosen, need, estimator);
        buckets = std::move(need.buckets);
        if (Candidate faster = chosen; faster.config.parallel.bucket == "auto") {
            faster.config.parallel.bucket = estimator.buckets(chosen).mode;
            if (faster.config.parallel.bucket != buckets.mode)
                if (std::optional<StagesNeed> fitting = estimator.needs(faster, {.arena = limit}))
                    buckets = std::move(fitting->buckets);
        }
    }
    choices.sharded = std::move(buckets.sharded);
    choices.config = std::move(chosen.config);
    choices.config.parallel.bucket = std::move(buckets.mode);
    choices.order = std::move(chosen.order);
    return choices;
}

Choices decide(const RunConfig& config, const Machine& machine)
{
    Compiling estimator(machine);
    return decide(config, estimator);
}

Compiled compile_training(const RunConfig& config, const CompileConfig& options)
{
    return compile_training(decide(config, options.machine), options);
}

} // namespace trivium
