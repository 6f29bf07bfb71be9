// `trivium metrics`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/words.hpp"
#include "cli/commands.hpp"
#include "io/files/files.hpp"
#include "io/metrics/launches.hpp"
#include "io/metrics/metrics.hpp"
#include "io/report/loss_curve.hpp"
#include "io/report/run_report.hpp"

#include <algorithm>
#include <filesystem>

namespace trivium {

namespace {

struct MetricsArguments {
    std::vector<std::string> files;
    std::string file, output, format, title;
    bool force = false;
};

void add_force(Command& command, MetricsArguments& a)
{
    command.flag("--force", a.force, "replace an existing file of another kind");
}

void write_output(const MetricsArguments& a, const std::string& content)
{
    if (!a.force)
        spare_other_kinds(a.output, content, "name another file, or add --force");
    write_file(a.output, content);
    log_info("wrote " + a.output);
}

/// Throws UserError if the output would replace a file of one of the runs.
void spare_own_files(const std::string& output, const std::vector<std::string>& inputs)
{
    namespace fs = std::filesystem;
    const std::string named = file_to_replace(output);
    if (named.empty())
        return;
    std::error_code error;
    const fs::path file = fs::absolute(named, error);
    const auto refuse_if_same = [&](const fs::path& own) { // also if the file does not exist yet
        if (fs::equivalent(own, file, error) ||
            (own.filename() == file.filename() &&
             fs::equivalent(own.parent_path(), file.parent_path(), error)))
            throw UserError({output, "is the run's own file", "the output would replace it",
                             "name another file for --output"});
    };
    for (const std::string& input : inputs) {
        const fs::path given = fs::absolute(metrics_file(input), error),
                       real = fs::weakly_canonical(given, error);
        refuse_if_same(given);
        for (const fs::path& folder : {given.parent_path(), real.parent_path()})
            for (const char* name : {"metrics.jsonl", "metrics.superseded.jsonl", "metrics.samples.jsonl",
                                     "metrics.layers.jsonl", "launches.jsonl"})
                refuse_if_same(folder / name);
    }
}

/// Throws UserError if the ending of `output` belongs to another format: no program could open the file.
void require_form(const std::string& output, const char* form, const char* ending, const std::string& remedy)
{
    static const std::vector<std::string> known{".png",  ".jpg",  ".jpeg", ".gif", ".webp", ".bmp", ".tif",
                                                ".tiff", ".ico",  ".avif", ".pdf", ".eps",  ".ps",  ".svg",
                                                ".svgz", ".html", ".htm",  ".csv", ".json", ".xlsx"};
    const std::string own = lower_case(std::filesystem::path(output).extension().string());
    if (own != ending && !(own == ".htm" && std::string(ending) == ".html") &&
        std::find(known.begin(), known.end(), own) != known.end())
        throw UserError({output, str("ends in '", own, "', but the format is ", form), "",
                         str("use the ending '", ending, "'", remedy)});
}

std::vector<NamedMetrics> read_runs(const std::vector<std::string>& files)
{
    std::vector<NamedMetrics> runs;
    for (const std::string& name : run_names(files))
        runs.push_back({name, read_metrics_table(files[runs.size()])});
    return runs;
}

/// Model, grid and machine of the last launch; empty if unknown.
std::vector<std::string> description_of_run(const std::string& input)
{
    const std::vector<Launch> launches =
        read_launches((std::filesystem::path(metrics_file(input)).parent_path() / "launches.jsonl").string());
    if (launches.empty() || launches.back().model.empty())
        return {};
    const Launch& last = launches.back();
    return {last.model, str(last.grid, last.machine.empty()
                                           ? ""
                                           : str("; ", counted(last.ranks, "rank"), " on ",
                                                 counted(last.nodes, "node"), " of '", last.machine, "'"))};
}

int draw_curve(const MetricsArguments& a)
{
    require_form(a.output, "SVG", ".svg", "; browsers show it, and rsvg-convert or inkscape converts it");
    spare_own_files(a.output, a.files);
    LossCurveOptions options;
    options.title = a.title.empty() ? options.title : a.title;
    if (a.files.size() == 1)
        options.subtitles = description_of_run(a.files.front());
    write_output(a, loss_curve_svg(read_runs(a.files), options));
    return 0;
}

int export_runs(const MetricsArguments& a)
{
    if (a.format == "csv")
        require_form(a.output, "CSV", ".csv", "");
    spare_own_files(a.output, a.files);
    const std::vector<NamedMetrics> runs = read_runs(a.files);
    if (a.format == "csv") {
        if (!a.force)
            spare_other_kinds(a.output, runs.size() > 1 ? "run,step" : "step,",
                              "name another file, or add --force");
        write_csv(a.output, runs);
    } else
        write_event_files(a.output, runs);
    log_info("wrote " + a.output);
    return 0;
}

/// "run-a/logs": the folder of the run's files, and its parent.
std::string name_of_run(const RunFiles& run)
{
    std::error_code ignored;
    const std::filesystem::path folder =
        std::filesystem::weakly_canonical(run.metrics_path, ignored).parent_path();
    return (folder.parent_path().filename() / folder.filename()).string();
}

int report(const MetricsArguments& a)
{
    require_form(a.output, "HTML", ".html", "; a browser prints it as PDF");
    spare_own_files(a.output, {a.file});
    const RunFiles run = read_run_files(a.file);
    write_output(a, run_report_html(run, a.title.empty() ? name_of_run(run) : a.title));
    return 0;
}

} // namespace

void add_metrics_command(Command& program)
{
    Command metrics = program.add(
        "metrics", "write reports, loss curves, CSV and TensorBoard files from the metrics of runs");
    auto arguments = std::make_shared<MetricsArguments>();
    Command curve = metrics.add("curve", "draw loss curves as SVG");
    curve
        .option("files", arguments->files, "metrics.jsonl files, or folders that contain one: one curve each",
                {.required = true})
        .option("-o,--output", arguments->output, "SVG file to write", {.required = true})
        .option("--title", arguments->title, "title of the picture (default: Training loss)");
    add_force(curve, *arguments);
    curve.action([=] { return draw_curve(*arguments); });
    Command other = metrics.add("export", "write CSV, or event files for TensorBoard");
    other
        .option("files", arguments->files, "metrics.jsonl files, or folders that contain one: one run each",
                {.required = true})
        .option("--format", arguments->format, "format to write",
                {.required = true, .words = {"csv", "tensorboard"}})
        .option("-o,--output", arguments->output, "file (csv) or folder (tensorboard) to write",
                {.required = true});
    add_force(other, *arguments);
    other.action([=] { return export_runs(*arguments); });
    Command page = metrics.add("report", "write a report about a run as one HTML page");
    page.option("folder", arguments->file, "log.dir of the run, or its metrics.jsonl", {.required = true})
        .option("-o,--output", arguments->output, "page to write", {.required = true})
        .option("--title", arguments->title,
                "title of the page (default: the names of the folder and its parent)");
    add_force(page, *arguments);
    page.action([=] { return report(*arguments); });
}

} // namespace trivium
