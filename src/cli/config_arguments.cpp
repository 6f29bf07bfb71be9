#include "cli/config_arguments.hpp"

#include "base/check.hpp"
#include "base/cores.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "config/about_key.hpp"
#include "config/schedules.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "model/program.hpp"

namespace trivium {

void ConfigArguments::add_to(Command& command, bool with_json, bool required)
{
    command
        .option("config", file, "config file of the run (docs/config.md)",
                {.required = required, .type = "CONFIG.toml"})
        .option("overrides", overrides, "keys that override the file, e.g. train.lr=1e-3",
                {.type = "key=value"});
    if (with_json)
        command.flag("--json", json, "print JSON");
}

namespace {

/// Stores of chats say which tokens are trained, and batches have more or fewer of them; counts_vary() knows
/// the config alone. So `plan`, `explain` and `train` look here whether the stores have masks.
void respect_masks(RunConfig& config, std::vector<std::string>& warnings)
{
    UpdateMode& update = config.parallel.update;
    if (config.model.is_program() || counts_vary(config) || config.data.loss_of == LossOf::all ||
        update == UpdateMode::synchronous || !stores_have_masks(config.data))
        return;
    if (update == UpdateMode::automatic)
        update = UpdateMode::synchronous;
    else
        warnings.emplace_back(
            "parallel.update: \"post-validated\" makes each update twice, because data.train "
            "says which tokens are trained, and batches have different numbers of them; set "
            "parallel.update to \"synchronous\"");
}

bool is_of_strategy(const std::string& warning) { return warning.starts_with("parallel."); }

RunConfig read_complete(const ConfigArguments& arguments, std::vector<std::string>& warnings,
                        bool searched = false)
{
    RunConfig config = read_config(arguments.file, arguments.overrides);
    if (config.model.is_program()) {
        if (!config.model.file.empty()) // otherwise validate() refuses it
            config.model.program = about_key("model.file", [&] {
                return read_program(read_file(config.model.file, "graph of a model"), config.model.file,
                                    config.model.sizes);
            });
    } else if (config.model.vocab == 0)
        config.model.vocab = vocabulary_of(config.data);
    if (is_schedule_file(config.parallel.schedule))
        config.parallel.schedule_rows = about_key(
            "parallel.schedule", [&] { return read_file(config.parallel.schedule, "pipeline schedule"); });
    warnings = resolve_and_validate(config);
    if (searched)
        std::erase_if(warnings, is_of_strategy);
    respect_masks(config, warnings);
    return config;
}

} // namespace

std::vector<std::string> warnings_of_strategy(RunConfig config, const RunConfig* asked)
{
    std::vector<std::string> warnings = resolve_and_validate(config);
    std::erase_if(warnings, [&](const std::string& warning) {
        return !is_of_strategy(warning) ||
               (asked != nullptr && !config.given.contains(warning.substr(0, warning.find(':'))));
    });
    const auto kept = [&](const std::string& key, i64 before, i64 now) {
        if (before != now)
            warnings.push_back(str(key, ": is ", before, ", the strategy for ",
                                   counted(rank_count(config.parallel), "rank"), " has ", now));
    };
    if (asked == nullptr)
        return warnings;
    for (const GridAxis& axis : grid_axes)
        if (const std::string key = str("parallel.", axis.name); asked->given.contains(key))
            kept(key, asked->parallel.*axis.degree, config.parallel.*axis.degree);
    for (const ProgramAxes::Axis& before : asked->parallel.axes.list)
        for (const ProgramAxes::Axis& now : config.parallel.axes.list)
            if (before.name == now.name && before.degree > 1)
                kept("parallel.axes." + before.name, before.degree, now.degree);
    return warnings;
}

RunConfig load_config(const ConfigArguments& arguments)
{
    std::vector<std::string> ignored; // warnings about training
    return read_complete(arguments, ignored);
}

RunConfig load_training_config(const ConfigArguments& arguments, bool searched)
{
    std::vector<std::string> warnings;
    RunConfig config = read_complete(arguments, warnings, searched);
    if (const int cores = usable_core_count(); cores > 0 && config.parallel.threads > cores)
        warnings.push_back(str("parallel.threads: is ", config.parallel.threads,
                               ", but this process may use ", counted(cores, "core"),
                               ": threads that share a core wait for each other; remove the key"));
    for (const std::string& warning : warnings)
        log_warning(warning);
    return config;
}

} // namespace trivium
