#include "train/command.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "io/config_file.hpp"

#include <algorithm>
#include <sched.h>

namespace trivium {

void ConfigArguments::add_to(Command& command, bool with_json, bool required)
{
    command.option("config", file, "config file of the run (docs/config.md)", {.required = required, .type = "CONFIG.toml"})
        .option("overrides", overrides, "keys that override the file, e.g. train.lr=1e-3", {.type = "key=value"});
    if (with_json)
        command.flag("--json", json, "print JSON");
}

namespace {

/// Cores that this process may use; 0 where the system does not say.
int usable_core_count()
{
    cpu_set_t cores;
    return sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 0;
}

RunConfig read_complete(const ConfigArguments& arguments, std::vector<std::string>& warnings)
{
    RunConfig config = read_config(arguments.file, arguments.overrides);
    if (config.model.vocab == 0)
        config.model.vocab = vocabulary_of(config.data);
    warnings = resolve_and_validate(config);
    return config;
}

} // namespace

RunConfig load_config(const ConfigArguments& arguments)
{
    std::vector<std::string> ignored; // they are about training
    return read_complete(arguments, ignored);
}

RunConfig load_training_config(const ConfigArguments& arguments)
{
    std::vector<std::string> warnings;
    RunConfig config = read_complete(arguments, warnings);
    if (const int cores = usable_core_count(); cores > 0 && config.parallel.threads > cores)
        warnings.push_back(str("parallel.threads: is ", config.parallel.threads, ", this process may use ", counted(cores, "core"),
                               ": threads that share a core wait for each other; leave the key out"));
    for (const std::string& warning : warnings)
        log_warning(warning);
    return config;
}

int thread_count(const ParallelConfig& config, int sharers)
{
    const int limit = thread_limit();
    if (config.threads > limit)
        throw UserError({"parallel.threads", str("is ", config.threads), str("a rank can have ", limit, " here: that is $OMP_THREAD_LIMIT, or 1 in a build without OpenMP"),
                         "leave the key out, or build with -DTRIVIUM_OPENMP=ON"});
    if (config.threads > 0)
        return static_cast<int>(config.threads);
    return std::clamp(usable_core_count() / sharers, 1, limit);
}

std::string usable_cores()
{
    cpu_set_t cores;
    if (sched_getaffinity(0, sizeof cores, &cores) != 0)
        return "";
    std::string text;
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &cores))
            text += str(text.empty() ? "" : ",", core);
    return text;
}

} // namespace trivium
