// `trivium checkpoint prune`: removes old checkpoints, but never the last good one.
#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/checkpoint/values.hpp"
#include "lifecycle/folder_lock.hpp"

#include <fmt/format.h>

namespace trivium {

namespace {

struct PruneArguments {
    std::string dir;
    i64 keep = 2;
    bool dry_run = false;
};

bool is_good(const std::string& path)
{
    log_progress("verifying " + path);
    try {
        const CheckpointReader checkpoint = CheckpointReader::open(path);
        checkpoint.verify();
        return find_value_faults(checkpoint).empty();
    } catch (const UserError&) {
    } catch (const IoError&) {
    }
    return false;
}

int run(const PruneArguments& arguments)
{
    if (arguments.keep < 1)
        throw UserError(
            {"--keep", str("is ", arguments.keep), "the last good checkpoint always stays", "use 1 or more"});
    if (list_checkpoints(arguments.dir).empty())
        throw UserError(
            {arguments.dir, "contains no checkpoint", "", "name the folder of a run's checkpoints"});
    const FolderLock lock(arguments.dir); // excludes a run in this folder
    const std::vector<std::string> names = list_checkpoints(arguments.dir);
    const std::string best = best_checkpoint(arguments.dir);
    i64 good = 0;
    for (const std::string& name : names) {
        const std::string path = arguments.dir + "/" + name;
        if (good < arguments.keep) {
            const bool is = is_good(path);
            good += is ? 1 : 0;
            fmt::print("{}  {}\n", path,
                       is ? name == best ? "good, kept: the best" : "good, kept"
                          : "bad, not removed: `trivium checkpoint verify` prints why");
        } else if (name == best) {
            fmt::print("{}  kept: the best\n", path);
        } else {
            if (!arguments.dry_run)
                remove_checkpoint(arguments.dir, name);
            fmt::print("{}  {}\n", path, arguments.dry_run ? "would be removed" : "removed");
        }
    }
    return 0;
}

} // namespace

void add_prune_command(Command& checkpoint)
{
    Command command =
        checkpoint.add("prune", "remove all but the newest good checkpoints of a folder, and the best");
    auto arguments = std::make_shared<PruneArguments>();
    command.option("folder", arguments->dir, "folder of a run's checkpoints", {.required = true});
    command.option("--keep", arguments->keep, "number of good checkpoints to keep");
    command.flag("--dry-run", arguments->dry_run, "print what would be removed");
    command.action([=] { return run(*arguments); });
}

} // namespace trivium
