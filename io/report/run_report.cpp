#include "io/report/run_report.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/report/layer_map.hpp"
#include "io/report/markup.hpp"
#include "io/report/report_charts.hpp"
#include "io/report/sample_pictures.hpp"
#include "run_report_css.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

namespace trivium {

namespace {

constexpr std::size_t max_rows = 200; ///< of a table; shows the last ones

std::string page_style()
{
    return str(page_css, chart_style(light_palette), "@media screen and (prefers-color-scheme:dark){",
               chart_style(dark_palette), "}");
}

std::string percent(double value, int digits = 1) { return fixed(value, digits) + "\u00a0%"; }

/// A number as text, with its exact value for programs.
std::string data(const std::string& id, double value, const std::string& text)
{
    char exact[32];
    const std::string number(exact, std::to_chars(exact, exact + sizeof exact, value).ptr);
    return str("<data id=\"", id, "\" value=\"", number, "\">", markup_text(text), "</data>");
}

/// One fact of the summary; empty if the value is unknown. `note` is markup.
std::string fact(const char* name, const std::string& id, double value, const std::string& text,
                 const std::string& note = "")
{
    if (!std::isfinite(value))
        return "";
    return str("<div><dt>", name, "</dt><dd><span class=\"value\">", data(id, value, text), "</span>",
               note.empty() ? "" : "<br/><span class=\"note\">" + note + "</span>", "</dd></div>\n");
}

/// `begin` data `end`; empty if the value is unknown.
std::string note(const std::string& begin, const std::string& id, double value, const std::string& text,
                 const std::string& end = "")
{
    return std::isfinite(value) ? begin + data(id, value, text) + end : "";
}

std::string facts(const RunFiles& run, const RunSummary& s)
{
    const auto seconds = [](Seconds value) { return format_seconds(value); };
    const auto bytes = [](double value) {
        return std::isfinite(value) ? format_bytes(static_cast<Bytes>(value)) : "";
    };
    const auto step = static_cast<double>(s.last_step);
    const double planned_steps = static_cast<double>(run.launches_known ? run.launches.back().steps : 0);
    std::string list = "<dl>\n";
    if (run.metrics.size() > 0)
        list += fact("Steps", "steps", step, format_count(s.last_step),
                     planned_steps > 0 ? note("of ", "planned_steps", planned_steps,
                                              format_count(run.launches.back().steps))
                                       : "");
    list += fact("Tokens", "tokens", s.tokens, format_si(s.tokens));
    list += fact("Loss", "loss", s.loss, fixed(s.loss, 4),
                 note("mean of the last 100 steps ", "recent_loss", s.recent_loss, fixed(s.recent_loss, 4)));
    list += fact("Validation loss", "valid_loss", s.valid_loss, fixed(s.valid_loss, 4),
                 note("best ", "best_valid_loss", s.best_valid_loss, fixed(s.best_valid_loss, 4),
                      str(" at step ", s.best_valid_step)));
    list += fact("Tokens/s", "tokens_per_second", s.tokens_per_second, format_si(s.tokens_per_second),
                 note("median step ", "median_step", s.median_step, seconds(s.median_step)) +
                     note(", simulated ", "predicted_step", s.predicted_step, seconds(s.predicted_step),
                          str(s.median_step < s.predicted_step ? " (" : " (+",
                              percent(100 * (s.median_step / s.predicted_step - 1)), ")")));
    list += fact("MFU", "mfu", s.mfu, percent(100 * s.mfu), "model FLOPs utilisation");
    list += fact("Exposed communication", "exposed_share", s.exposed_share, percent(100 * s.exposed_share),
                 "of the step time");
    list += fact("Memory", "memory_used", s.memory_used, bytes(s.memory_used),
                 note("planned ", "memory_planned", s.memory_planned, bytes(s.memory_planned)));
    list += fact("Training time", "training", s.training, seconds(s.training),
                 note("of ", "elapsed", s.elapsed, seconds(s.elapsed),
                      str(" since the start",
                          s.elapsed > 0 ? str(" (", percent(100 * s.training / s.elapsed, 0), ")") : "")));
    list += fact("Saving a checkpoint", "median_save", s.median_save, seconds(s.median_save),
                 note("median of ", "saves", static_cast<double>(s.saves), format_count(s.saves)) +
                     note("; training waited ", "stalled", s.stalled, seconds(s.stalled), " in total"));
    list += fact("Restarts", "restarts", static_cast<double>(s.restarts), format_count(s.restarts),
                 s.steps_lost == 0 ? ""
                                   : note("steps lost: ", "steps_lost", static_cast<double>(s.steps_lost),
                                          format_count(s.steps_lost)));
    list += fact("Skipped steps", "skipped", static_cast<double>(s.skipped.size()),
                 format_count(static_cast<i64>(s.skipped.size())));
    return list + "</dl>\n";
}

/// State of the run, from its last launch.
std::string state_of(const RunFiles& run, const RunSummary& s)
{
    const std::string at =
        run.metrics.size() == 0 ? "before its first step" : str("after step ", format_count(s.last_step));
    if (!run.launches_known)
        return str("State ", at);
    const Launch& last = run.launches.back();
    if (!last.ended())
        return str("Running or killed, ", at);
    return str(last.status == 0    ? "Ended "
               : last.status == 75 ? "Stopped, resumes when started again, "
                                   : "Failed ",
               at, ": ", last.reason);
}

std::string cell(const std::string& text, const char* classes = "")
{
    return str("<td", *classes ? str(" class=\"", classes, "\"") : "", ">", markup_text(text), "</td>");
}

std::string count_cell(i64 count) { return cell(count < 0 ? "–" : format_count(count), "number"); }

/// How launch `i` ended.
std::string end_cell(const std::vector<Launch>& launches, std::size_t i)
{
    const Launch& l = launches[i];
    if (l.ended())
        return cell(str(l.reason, l.status == 0 ? "" : str(" (status ", l.status, ")")),
                    l.status == 0 || l.status == 75 ? "" : "bad");
    return i + 1 == launches.size() ? cell("running or killed") : cell("killed", "bad");
}

std::string rows_left_out(std::size_t rows)
{
    return rows <= max_rows ? ""
                            : str("<p class=\"faint\">The last ", max_rows, " of ",
                                  format_count(static_cast<i64>(rows)), ".</p>\n");
}

std::string launches_table(const RunFiles& run, const RunSummary& s)
{
    if (run.launches.empty())
        return "";
    const bool known = run.launches_known;
    std::string table =
        str("<h2>Launches</h2>\n", rows_left_out(run.launches.size()),
            "<div class=\"table\"><table id=\"launches\"><thead><tr><th class=\"number\">launch</th>",
            known ? "<th>start (UTC)</th><th class=\"number\">duration</th><th>job</th><th "
                    "class=\"number\">nodes</th>"
                  : "",
            "<th class=\"number\">ranks</th>", known ? "<th>grid</th>" : "",
            "<th class=\"number\">from step</th><th class=\"number\">to step</th>",
            known ? "<th>end</th>" : "", "</tr></thead><tbody>\n");
    for (std::size_t i = run.launches.size() - std::min(run.launches.size(), max_rows);
         i < run.launches.size(); ++i) {
        const Launch& l = run.launches[i];
        table += "<tr>" + count_cell(l.number);
        if (known) {
            const Seconds lasted = unix_time(l.end) - unix_time(l.begin);
            table +=
                cell(short_time(l.begin), "whole") +
                cell(!std::isfinite(lasted) ? "–"
                     : lasted < 60          ? str(lasted, " s")
                                            : format_seconds(lasted),
                     "number") +
                cell(l.job.empty() ? "–" : str(l.job, l.restart > 0 ? str(", restart ", l.restart) : "")) +
                count_cell(l.nodes);
        }
        table += count_cell(l.ranks);
        if (known)
            table += cell(l.grid);
        const bool running = !l.ended() && i + 1 == run.launches.size();
        table += count_cell(l.from) + count_cell(running ? std::max(s.last_step, l.from) : l.to);
        if (known)
            table += end_cell(run.launches, i);
        table += "</tr>\n";
    }
    return table + "</tbody></table></div>\n" +
           (known ? ""
                  : "<p class=\"faint\">There is no launches.jsonl: these are the restarts in "
                    "metrics.jsonl.</p>\n");
}

std::string skipped_table(const RunFiles& run, const RunSummary& s)
{
    if (s.skipped.empty())
        return "";
    const MetricsValues loss = run.metrics.values("loss"), norm = run.metrics.values("grad_norm");
    const auto value = [](double v) {
        char text[32];
        std::snprintf(text, sizeof text, "%.4g", v);
        return std::isfinite(v) ? cell(text, "number") : cell("not finite", "number bad");
    };
    std::string table = str(
        "<h2>Skipped steps</h2>\n", rows_left_out(s.skipped.size()),
        "<div class=\"table narrow\"><table id=\"skipped-steps\"><thead><tr><th class=\"number\">step</th>"
        "<th class=\"number\">loss</th><th class=\"number\">gradient norm</th></tr></thead><tbody>\n");
    for (std::size_t i = s.skipped.size() - std::min(s.skipped.size(), max_rows); i < s.skipped.size(); ++i)
        table += "<tr>" + count_cell(run.metrics.steps[s.skipped[i]]) + value(loss[s.skipped[i]]) +
                 value(norm[s.skipped[i]]) + "</tr>\n";
    return table + "</tbody></table></div>\n";
}

} // namespace

std::string run_report_html(const RunFiles& run, const std::string& title)
{
    const RunSummary s = summarise(run);
    std::string page =
        str("<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n<meta "
            "charset=\"utf-8\"/>\n"
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
            markup_text(title), "</title>\n<style>", page_style(),
            "</style>\n</head>\n<body>\n<main>\n<header>\n<h1>", markup_text(title),
            "</h1>\n<p id=\"state\">", markup_text(state_of(run, s)), "</p>\n");
    if (run.launches_known) {
        const Launch& last = run.launches.back();
        page += last.model.empty()
                    ? ""
                    : str("<p class=\"faint\" id=\"model\">", markup_text(last.model), "</p>\n");
        page += str("<p class=\"faint\" id=\"grid\">", counted(last.ranks, "rank"), " on ",
                    counted(last.nodes, "node"),
                    last.machine.empty() ? "" : str(" of '", markup_text(last.machine), "'"),
                    last.grid.empty() ? "" : ": " + markup_text(last.grid), "</p>\n");
    }
    page += "</header>\n" + facts(run, s);
    if (!s.warnings.empty()) {
        page += "<h2>Warnings</h2>\n<ul id=\"warnings\">\n";
        for (const std::string& warning : s.warnings)
            page += "<li>" + markup_text(warning) + "</li>\n";
        page += "</ul>\n";
    }
    if (const std::vector<Chart> charts = report_charts(run); !charts.empty()) {
        page += "<h2>Charts, by step</h2>\n<div class=\"charts\">\n";
        for (const Chart& chart : charts)
            page += str("<figure", chart.width > 700 ? " class=\"wide\"" : "", ">", chart_svg(chart),
                        "</figure>\n");
        page += "</div>\n";
    }
    page += layer_map(run) + sample_pictures(run);
    page += launches_table(run, s) + skipped_table(run, s);
    page += str("<footer>", counted_in_groups(static_cast<i64>(run.metrics.size()), "step"), " of ",
                markup_text(run.metrics_path),
                "; thin lines: every step; thick lines: means over 2 % of the "
                "steps.</footer>\n</main>\n</body>\n</html>\n");
    return page;
}

} // namespace trivium
