#include "train/command.hpp"

#include "base/check.hpp"
#include "io/config_file.hpp"

#include <CLI/CLI.hpp>
#include <sched.h>

namespace trivium {

void ConfigArguments::add_to(CLI::App& command, bool with_json)
{
    command.add_option("config", file, "config file of the run (docs/config.md)")->required()->type_name("CONFIG.toml");
    command.add_option("overrides", overrides, "keys that override the file, e.g. train.lr=1e-3")->type_name("key=value");
    if (with_json)
        command.add_flag("--json", json, "print JSON");
}

RunConfig load_config(const ConfigArguments& arguments)
{
    RunConfig config = read_config(arguments.file, arguments.overrides);
    if (config.model.vocab == 0)
        config.model.vocab = vocabulary_of(config.data);
    resolve_and_validate(config);
    return config;
}

int thread_count(const ParallelConfig& config)
{
    if (config.threads > 0)
        return static_cast<int>(config.threads);
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
}

} // namespace trivium
