#include "train/consistency.hpp"

#include "base/check.hpp"
#include "io/files/config_file.hpp"
#include "io/files/files.hpp"

#include <filesystem>
#include <sstream>

namespace trivium {

void require_same_config(Comm& world, const RunConfig& config)
{
    const std::vector<std::string> all = gather_texts(world, to_toml(config) + config.parallel.schedule_rows);
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] == all[0])
            continue;
        std::istringstream first(all[0]), other(all[rank]);
        std::string a, b;
        while (std::getline(first, a) && std::getline(other, b) && a == b)
            ;
        succeed_together(world, [&] { // every rank finds the same difference
            throw UserError({str("rank ", rank), "has a different config from rank 0",
                             str("'", b, "', rank 0 has '", a, "'"),
                             "start every rank with the same file and overrides"});
        });
    }
}

void require_same_data(Comm& world, const std::string& path, const TokenStore& store)
{
    const std::vector<std::string> all =
        gather_texts(world, str(store.size(), " tokens, vocabulary ", store.vocab(), ", ",
                                store.fingerprint(), ", hash ", std::hex, store.tokens_hash()));
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            succeed_together(world, [&] {
                throw UserError(
                    {path, str("is not the same on rank ", rank, " as on rank 0"), all[rank] + "; " + all[0],
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
