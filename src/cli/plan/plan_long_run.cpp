#include "cli/plan/plan_long_run.hpp"

#include "base/counted.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace trivium {

std::optional<LongRunPlan> long_run_of(const PlanReport& r, const LongRunOptions& options)
{
    constexpr double published = 6300; // 2,048 nodes x 54 days / 419 failures
    const Machine& machine = r.machine;
    LongRunPlan plan;
    plan.node_hours = options.node_failure_hours >= 0 ? options.node_failure_hours
                      : machine.is_device             ? published
                                                      : 0;
    if (plan.node_hours == 0)
        return std::nullopt;
    const i64 ranks = r.rank_total();
    plan.nodes = ceil_div(ranks, machine.ranks_of_a_node(ranks));
    const double of_step = static_cast<double>(r.config.train.global_batch * r.config.model.seq);
    const TrainConfig& train = r.config.train;
    plan.tokens = options.tokens > 0
                      ? options.tokens
                      : static_cast<double>(samples_in(train, train.steps) * r.config.model.seq);
    plan.work = plan.tokens / of_step * r.own().score.step;
    const double rate = options.write_bytes_per_second > 0 ? options.write_bytes_per_second
                                                           : 1e9 * static_cast<double>(plan.nodes);
    const Seconds written = static_cast<double>(r.checkpoint) / rate;
    const double of_rank = static_cast<double>(r.checkpoint) / static_cast<double>(ranks);
    plan.failures = {plan.node_hours * 3600 / static_cast<double>(plan.nodes),
                     r.config.checkpoint.async ? of_rank / machine.host_link_rate() : written,
                     options.restart_seconds, written};
    plan.run = long_run(plan.failures);
    Failures slower = plan.failures;
    slower.least *= 2;
    if (!r.config.checkpoint.async)
        slower.stall *= 2;
    if (const double goodput = long_run(slower).goodput; goodput > 0)
        plan.slower_files = plan.run.goodput / goodput - 1;
    return plan;
}

std::string to_text(const LongRunPlan& p)
{
    return fmt::format(
        "           {} tokens in {}, with a failure every {} (a node every {} h, {}), a checkpoint "
        "every {} and {} per restart: goodput {:.1f} % ({:.1f} % longer if checkpoints are written at half "
        "the rate)\n",
        format_si(p.tokens), format_seconds(p.wall()), format_seconds(p.failures.between), p.node_hours,
        counted(p.nodes, "node"), format_seconds(p.run.interval), format_seconds(p.failures.restart),
        100 * p.run.goodput, 100 * p.slower_files);
}

nlohmann::ordered_json to_json(const LongRunPlan& p)
{
    return {{"tokens", p.tokens},
            {"nodes", p.nodes},
            {"seconds_between_failures", p.failures.between},
            {"checkpoint_seconds", p.failures.least},
            {"stall_seconds", p.failures.stall},
            {"restart_seconds", p.failures.restart},
            {"checkpoint_interval_seconds", p.run.interval},
            {"goodput", p.run.goodput},
            {"longer_with_slower_files", p.slower_files},
            {"days", p.wall() / 86400}};
}

} // namespace trivium
