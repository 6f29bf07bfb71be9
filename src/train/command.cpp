#include "train/command.hpp"

#include "base/check.hpp"
#include "io/config_file.hpp"

#include <algorithm>
#include <sched.h>
#include <unistd.h>

namespace trivium {

void ConfigArguments::add_to(Command& command, bool with_json, bool required)
{
    command.option("config", file, "config file of the run (docs/config.md)", {.required = required, .type = "CONFIG.toml"})
        .option("overrides", overrides, "keys that override the file, e.g. train.lr=1e-3", {.type = "key=value"});
    if (with_json)
        command.flag("--json", json, "print JSON");
}

RunConfig load_config(const ConfigArguments& arguments)
{
    RunConfig config = read_config(arguments.file, arguments.overrides);
    if (config.model.vocab == 0)
        config.model.vocab = vocabulary_of(config.data);
    resolve_and_validate(config);
    return config;
}

int thread_count(const ParallelConfig& config, int ranks_of_node)
{
    if (config.threads > 0)
        return static_cast<int>(config.threads);
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return 1;
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    const int mine = CPU_COUNT(&cores);
    return mine < online ? mine : std::max(1, mine / ranks_of_node);
}

} // namespace trivium
