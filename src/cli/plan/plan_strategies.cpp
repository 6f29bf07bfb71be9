#include "cli/plan/plan_strategies.hpp"

#include "cli/config_json.hpp"
#include "compile/describe.hpp"

#include <algorithm>
#include <fmt/format.h>

namespace trivium {

nlohmann::ordered_json range_json(const Strategy& s, const PlanReport& r)
{
    return r.machine.calibration_worst > 0 ? nlohmann::ordered_json(r.range(s)) : nlohmann::ordered_json();
}

namespace {

nlohmann::ordered_json strategy_json(const Strategy& s, const PlanReport& r)
{
    const nlohmann::ordered_json config = config_json(s.config);
    nlohmann::ordered_json memory = nlohmann::json::array(), exposed = nlohmann::json::object();
    for (std::size_t stage = 0; stage < s.score.bytes.size(); ++stage)
        memory.push_back({{"stage", stage}, {"bytes", s.score.bytes[stage]}});
    for (const auto& [axis, seconds] : s.score.parts.exposed)
        exposed[axis.empty() ? "host" : axis] = seconds;
    return {{"parallel", config.at("parallel")},
            {"train", config.at("train")},
            {"ranks", rank_count(s.config.parallel)},
            {"step_seconds", s.score.step},
            {"step_seconds_range", range_json(s, r)},
            {"mfu", r.mfu(s)},
            {"device_hours", r.device_hours(s)},
            {"memory_bytes", memory},
            {"computed_seconds", s.score.parts.computed},
            {"exposed_seconds", exposed},
            {"bubble", s.score.parts.exposed_along(pipeline_axis) / s.score.step},
            {"rule", s.rule}};
}

/// What `s` loses most time with, relative to the best: "21 % of the step: waits for the data axis".
std::string loss_of(const Strategy& s, const Strategy& best)
{
    Seconds most = s.score.parts.computed - best.score.parts.computed;
    std::string text = "computes longer";
    if (s.config.parallel.recompute != best.config.parallel.recompute ||
        s.config.parallel.recompute_layers != best.config.parallel.recompute_layers)
        text = "recomputes more";
    for (const auto& [axis, seconds] : s.score.parts.exposed)
        if (const Seconds more = seconds - best.score.parts.exposed_along(axis); more > most) {
            most = more;
            text = axis == pipeline_axis ? "waits for other stages"
                   : axis.empty()        ? "waits for the host"
                                         : "waits for transfers along " + axis;
        }
    return fmt::format("+{:.0f} %: {}", 100 * (s.score.step / best.score.step - 1), text);
}

} // namespace

std::string strategies_table(const PlanReport& r)
{
    constexpr std::size_t most = 12;
    std::string text;
    text += fmt::format(
        "\nstrategies that fit, of {} considered{}\n", format_count(static_cast<i64>(r.considered)),
        r.machine.calibration_worst > 0 ? fmt::format("; steps within {:.1f} %, as the machine's calibration",
                                                      100 * r.machine.calibration_worst)
                                        : "");
    text += fmt::format("   #      step    MFU  device-hours     memory  strategy\n");
    for (std::size_t i = 0; i < std::min(most, r.strategies.size()); ++i) {
        const Strategy& s = r.strategies[i];
        text += fmt::format("{:>4} {:>9} {:>5.1f}% {:>13.1f} {:>10}  {}, microbatch {}{}\n", i + 1,
                            format_seconds(s.score.step), 100 * r.mfu(s), r.device_hours(s),
                            format_bytes(std::ranges::max(s.score.bytes)), describe_grid(s.config.parallel),
                            s.config.train.micro_batch, s.rule.empty() ? "" : str(" (", s.rule, ")"));
        const std::string choices = describe_choices(s.config.parallel);
        text += fmt::format("{:>49}  {}{}{}\n", "", i == 0 ? "the best" : loss_of(s, r.strategies.front()),
                            choices.empty() ? "" : "; ", choices);
    }
    if (r.strategies.size() > most)
        text += fmt::format("     and {} more (--json)\n", r.strategies.size() - most);
    return text;
}

std::string sensitivities_text(const PlanReport& r, const std::vector<Sensitivity>& all)
{
    std::string text;
    for (const Sensitivity& s : all)
        text += fmt::format("{}{}: {:+.1f} %", text.empty() ? "changes    " : "; ", s.change,
                            100 * (s.step / r.own().score.step - 1));
    return text.empty() ? "" : text + "\n";
}

nlohmann::ordered_json sensitivities_json(const std::vector<Sensitivity>& all)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const Sensitivity& s : all)
        list.push_back({{"change", s.change}, {"step_seconds", s.step}});
    return list;
}

nlohmann::ordered_json strategies_json(const PlanReport& r)
{
    nlohmann::ordered_json list = nlohmann::json::array();
    for (const Strategy& s : r.strategies)
        list.push_back(strategy_json(s, r));
    return list;
}

} // namespace trivium
