// `trivium metrics`.
#include "base/log.hpp"
#include "io/files.hpp"
#include "io/loss_curve.hpp"
#include "train/command.hpp"

#include <filesystem>

namespace trivium {

namespace {

struct MetricsArguments {
    std::vector<std::string> files;
    std::string output, format, title;
};

std::vector<NamedMetrics> read_runs(const std::vector<std::string>& files)
{
    std::vector<NamedMetrics> runs;
    for (const std::string& name : run_names(files))
        runs.push_back({name, read_metrics_table(files[runs.size()])});
    return runs;
}

int draw_curve(const MetricsArguments& a)
{
    LossCurveOptions options;
    options.title = a.title.empty() ? options.title : a.title;
    write_file(a.output, loss_curve_svg(read_runs(a.files), options));
    log_info("wrote " + a.output);
    return 0;
}

int export_runs(const MetricsArguments& a)
{
    const std::vector<NamedMetrics> runs = read_runs(a.files);
    if (a.format == "csv")
        write_csv(a.output, runs);
    else
        write_event_files(a.output, runs);
    log_info("wrote " + a.output);
    return 0;
}

} // namespace

void add_metrics_command(Command& program)
{
    Command metrics = program.add("metrics", "what runs wrote down: curves, and the forms of other programs");
    auto arguments = std::make_shared<MetricsArguments>();
    Command curve = metrics.add("curve", "draw loss curves as SVG");
    curve.option("files", arguments->files, "metrics.jsonl files, or folders that have one: a curve each", {.required = true})
        .option("-o,--output", arguments->output, "the SVG to write", {.required = true})
        .option("--title", arguments->title, "heading of the picture (default: Training loss)");
    curve.action([=] { return draw_curve(*arguments); });
    Command other = metrics.add("export", "write CSV, or event files for TensorBoard");
    other.option("files", arguments->files, "metrics.jsonl files, or folders that have one: a run each", {.required = true})
        .option("--format", arguments->format, "the form to write", {.required = true, .words = {"csv", "tensorboard"}})
        .option("-o,--output", arguments->output, "the file (csv) or the folder (tensorboard) to write", {.required = true});
    other.action([=] { return export_runs(*arguments); });
}

} // namespace trivium
