#include "io/report/run_summary.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/metrics/metrics.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <numeric>

namespace trivium {

namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

double last_of(const MetricsValues& values, std::size_t size)
{
    for (std::size_t i = size; i-- > 0;)
        if (std::isfinite(values[i]))
            return values[i];
    return unknown;
}

std::vector<double> finite(const MetricsTable& metrics, const std::string& name)
{
    std::vector<double> found;
    if (const MetricsColumn* column = metrics.find(name))
        std::copy_if(column->values.begin(), column->values.end(), std::back_inserter(found),
                     [](double v) { return std::isfinite(v); });
    return found;
}

double median(std::vector<double> values)
{
    if (values.empty())
        return unknown;
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

double sum(const std::vector<double>& values)
{
    return values.empty() ? unknown : std::accumulate(values.begin(), values.end(), 0.0);
}

double greatest(const std::vector<double>& values)
{
    return values.empty() ? unknown : *std::max_element(values.begin(), values.end());
}

enum class Quantity { rate, amount };

/// The mean of a rate, weighted by step time; of an amount, the sum divided by the time of its steps.
double over_time(const MetricsTable& metrics, const std::string& name, Quantity quantity)
{
    const MetricsValues values = metrics.values(name), seconds = metrics.values("step_seconds");
    double all = 0, time = 0;
    for (std::size_t i = 0; i < metrics.size(); ++i)
        if (std::isfinite(values[i]) && seconds[i] > 0) {
            all += values[i] * (quantity == Quantity::rate ? seconds[i] : 1);
            time += seconds[i];
        }
    return time > 0 ? all / time : unknown;
}

Seconds elapsed(const RunFiles& run)
{
    const std::vector<double> times = finite(run.metrics, "time");
    double begin = run.launches_known ? unix_time(run.launches.front().begin)
                   : times.empty()    ? unknown
                                      : times.front();
    double end = times.empty() ? unknown : times.back();
    if (run.launches_known)
        end = std::fmax(end, unix_time(run.launches.back().ended() ? run.launches.back().end
                                                                   : run.launches.back().begin));
    return end - begin;
}

void warn_of_order(const RunFiles& run, std::vector<std::string>& warnings)
{
    std::size_t gaps = 0, back = 0;
    std::string first;
    const std::vector<i64>& steps = run.metrics.steps;
    for (std::size_t i = 1; i < steps.size(); ++i) {
        if (steps[i] == steps[i - 1] + 1)
            continue;
        steps[i] > steps[i - 1] ? ++gaps : ++back;
        if (first.empty())
            first = str("step ", steps[i - 1], " is followed by step ", steps[i]);
    }
    if (gaps + back > 0)
        warnings.push_back(str("The steps of metrics.jsonl are not consecutive: ", counted(gaps, "gap"), ", ",
                               counted(back, "step"), " back; first, ", first, "."));
}

void warn_of_slow_steps(const RunFiles& run, Seconds median_step, std::vector<std::string>& warnings)
{
    constexpr double slow = 3;
    const MetricsValues seconds = run.metrics.values("step_seconds"),
                        restarted = run.metrics.values("restarted_at");
    std::size_t count = 0, worst = 0;
    for (std::size_t i = 1; i < run.metrics.size(); ++i) {
        if (!(seconds[i] > slow * median_step) ||
            std::isfinite(restarted[i])) // the first step of a launch is slow
            continue;
        worst = count == 0 || seconds[i] > seconds[worst] ? i : worst;
        ++count;
    }
    if (count > 0)
        warnings.push_back(str(counted(count, "step"), " took more than ", slow, " times the median of ",
                               format_seconds(median_step), "; the slowest is step ",
                               run.metrics.steps[worst], " with ", format_seconds(seconds[worst]), "."));
}

std::vector<std::string> warnings_of(const RunFiles& run, const RunSummary& s)
{
    std::vector<std::string> warnings;
    if (!s.skipped.empty())
        warnings.push_back(str(counted(s.skipped.size(), "step"), " were skipped (see the table below)."));
    std::size_t killed = 0;
    for (std::size_t i = 0; run.launches_known && i + 1 < run.launches.size(); ++i)
        killed += run.launches[i].ended() ? 0 : 1;
    if (killed > 0)
        warnings.push_back(str(counted(killed, "launch", "launches"),
                               " ended without a record: killed, or the node failed."));
    if (s.steps_lost > 0)
        warnings.push_back(str(counted(s.steps_lost, "step"), ", ", format_seconds(s.time_lost),
                               " of training, were lost: they came after the checkpoint from which a later "
                               "launch resumed (metrics.superseded.jsonl)."));
    if (s.memory_used > s.memory_planned)
        warnings.push_back(
            str("More memory was used than planned: ", s.memory_used, " bytes, not ", s.memory_planned, "."));
    warn_of_order(run, warnings);
    warn_of_slow_steps(run, s.median_step, warnings);
    return warnings;
}

/// The launches according to metrics.jsonl: first step and number of ranks.
std::vector<Launch> launches_of(const MetricsTable& metrics)
{
    const MetricsValues restarted = metrics.values("restarted_at"), ranks = metrics.values("ranks");
    std::vector<Launch> launches;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
        if (i > 0 && !std::isfinite(restarted[i]))
            continue;
        Launch l;
        l.number = static_cast<i64>(launches.size()) + 1;
        l.from = std::isfinite(restarted[i]) ? static_cast<i64>(restarted[i]) : metrics.steps[i] - 1;
        l.ranks = std::isfinite(ranks[i]) ? static_cast<i64>(ranks[i]) : -1;
        l.nodes = -1;
        if (!launches.empty())
            launches.back().to = l.from;
        launches.push_back(l);
    }
    if (!launches.empty())
        launches.back().to = metrics.steps.back();
    return launches;
}

} // namespace

RunFiles read_run_files(const std::string& path)
{
    RunFiles run;
    run.metrics_path = metrics_file(path);
    run.metrics = read_metrics_table(run.metrics_path);
    const std::filesystem::path folder = std::filesystem::path(run.metrics_path).parent_path();
    if (const std::filesystem::path side = folder / "metrics.superseded.jsonl"; std::filesystem::exists(side))
        run.superseded = read_metrics_table(side.string());
    run.samples = read_shown_samples((folder / "metrics.samples.jsonl").string());
    run.layers = read_layer_norms((folder / "metrics.layers.jsonl").string());
    run.launches = read_launches((folder / "launches.jsonl").string());
    run.launches_known = !run.launches.empty();
    if (!run.launches_known)
        run.launches = launches_of(run.metrics);
    return run;
}

RunSummary summarise(const RunFiles& run)
{
    const MetricsTable& m = run.metrics;
    const std::size_t n = m.size();
    RunSummary s{};
    s.last_step = n == 0 ? -1 : m.steps.back();
    s.tokens = last_of(m.values("tokens"), n);
    s.loss = last_of(m.values("loss"), n);
    const std::vector<double> losses = finite(m, "loss");
    const std::size_t recent = std::min<std::size_t>(losses.size(), 100);
    s.recent_loss =
        sum({losses.end() - static_cast<std::ptrdiff_t>(recent), losses.end()}) / static_cast<double>(recent);
    s.valid_loss = last_of(m.values("valid_loss"), n);
    s.best_valid_loss = unknown;
    s.best_valid_step = -1;
    const MetricsValues valid = m.values("valid_loss"), skipped = m.values("skipped");
    for (std::size_t i = 0; i < n; ++i)
        if (std::isfinite(valid[i]) && !(valid[i] >= s.best_valid_loss)) {
            s.best_valid_loss = valid[i];
            s.best_valid_step = m.steps[i];
        }
    s.tokens_per_second = over_time(m, "tokens_per_second", Quantity::rate);
    s.mfu = over_time(m, "mfu", Quantity::rate);
    s.median_step = median(finite(m, "step_seconds"));
    s.predicted_step = last_of(m.values("predicted_step_seconds"), n);
    s.training = sum(finite(m, "step_seconds"));
    s.elapsed = elapsed(run);
    s.exposed_share = over_time(m, "exposed_comm_seconds", Quantity::amount);
    s.memory_used = greatest(finite(m, "memory_bytes"));
    s.memory_planned = greatest(finite(m, "planned_bytes"));
    const std::vector<double> saves = finite(m, "checkpoint_seconds");
    s.saves = static_cast<i64>(saves.size());
    s.median_save = median(saves);
    s.stalled = sum(finite(m, "checkpoint_stall_seconds"));
    s.restarts = std::max<i64>(0, static_cast<i64>(run.launches.size()) - 1);
    s.steps_lost = static_cast<i64>(run.superseded.size());
    s.time_lost = sum(finite(run.superseded, "step_seconds"));
    for (std::size_t i = 0; i < n; ++i)
        if (skipped[i] > 0)
            s.skipped.push_back(i);
    s.warnings = warnings_of(run, s);
    return s;
}

Seconds unix_time(const std::string& utc)
{
    std::tm t{};
    if (std::sscanf(utc.c_str(), "%4d-%2d-%2dT%2d:%2d:%2d", &t.tm_year, &t.tm_mon, &t.tm_mday, &t.tm_hour,
                    &t.tm_min, &t.tm_sec) != 6)
        return unknown;
    t.tm_year -= 1900;
    t.tm_mon -= 1;
    return static_cast<Seconds>(timegm(&t));
}

std::string short_time(const std::string& utc)
{
    return utc.size() >= 16 && std::isfinite(unix_time(utc)) ? utc.substr(0, 10) + " " + utc.substr(11, 5)
                                                             : utc;
}

} // namespace trivium
