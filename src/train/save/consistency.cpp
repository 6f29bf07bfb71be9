#include "train/save/consistency.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"
#include "schedule/order_file.hpp"

#include <filesystem>
#include <sstream>

namespace trivium {

namespace {

/// Throws a UserError on all ranks if `own` is not rank 0's text; its reason is the first different line.
void require_same_text(Comm& world, const std::string& own, const char* problem, const char* remedy)
{
    const std::string first = share_text(world, own);
    succeed_together(world, [&] {
        if (own == first)
            return;
        std::istringstream theirs(first), ours(own);
        std::string a, b;
        while (std::getline(theirs, a) && std::getline(ours, b) && a == b)
            ;
        throw UserError({"", problem, str("'", b, "', rank 0 has '", a, "'"), remedy});
    });
}

} // namespace

void require_same_config(Comm& world, const RunConfig& config)
{
    require_same_text(
        world, to_toml(config) + config.parallel.schedule_rows + config.model.program.text.get(),
        "has a different config from rank 0", "start every rank with the same file and overrides");
}

void require_same_choices(Comm& world, const Choices& choices)
{
    require_same_text(
        world, to_toml(choices.config) + to_csv(choices.order),
        "chose another schedule or policy than rank 0, because costs are rounded otherwise there",
        "run on equal nodes with one build, or set in the config what is \"auto\"");
}

void require_same_data(Comm& world, const SampleSource& source)
{
    const std::string own = source.facts(), first = share_text(world, own);
    succeed_together(world, [&] {
        if (own != first)
            throw UserError({source.path(), str("is not the same on rank ", world.rank(), " as on rank 0"),
                             own + "; " + first,
                             "copy the same store to all nodes, or put it on a file system that they share"});
    });
}

void require_shared_folder(Comm& world, const std::string& dir)
{
    const std::string probe = dir + "/.seen-by-all";
    const auto remove = [](const std::string& path) {
        if (std::error_code error; !std::filesystem::remove(path, error) && error)
            throw IoError(
                {path, "cannot be removed", error.message(), "check the folder's permissions and its disk"});
    };
    succeed_together(world, [&] {
        if (world.rank() == 0)
            write_file(probe, "");
    });
    succeed_together(world, [&] {
        if (!std::filesystem::exists(probe))
            throw UserError({dir, "is not the folder that rank 0 writes to",
                             "a checkpoint has one file per rank, all in one folder",
                             "set checkpoint.dir to a folder on a file system that all nodes share"});
        const std::string own = str(probe, ".", world.rank());
        write_file(own, "");
        remove(own);
    });
    succeed_together(world, [&] {
        if (world.rank() == 0)
            remove(probe);
    });
}

} // namespace trivium
