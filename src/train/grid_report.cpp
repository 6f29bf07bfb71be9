#include "train/grid_report.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "io/config_file.hpp"
#include "io/files.hpp"
#include "mpi/device_grid.hpp"
#include "runtime/arena.hpp"
#include "runtime/device.hpp"
#include "train/choose_grid.hpp"
#include "train/command.hpp"
#include "train/describe.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <numeric>
#include <sstream>

namespace trivium {

namespace {

/// What a rank tells of itself.
struct RankFacts {
    i64 stage = 0, parameters = 0;
    Bytes arena = 0;
};

std::string range(i64 least, i64 most, const std::function<std::string(i64)>& print)
{
    return least == most ? print(most) : print(least) + " to " + print(most);
}

} // namespace

void require_same_config(Comm& world, const RunConfig& config)
{
    const std::vector<std::string> all = gather_texts(world, to_toml(config));
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
        if (all[rank] == all[0])
            continue;
        std::istringstream first(all[0]), other(all[rank]);
        std::string a, b;
        while (std::getline(first, a) && std::getline(other, b) && a == b)
            ;
        succeed_together(world, [&] { // the same finding on every rank
            throw UserError({str("rank ", rank), "was given another config than rank 0", str("'", b, "' against '", a, "'"),
                             "start every rank with the same file and overrides"});
        });
    }
}

void require_same_data(Comm& world, const std::string& path, const TokenStore& store)
{
    const std::vector<std::string> all =
        gather_texts(world, str(store.size(), " tokens, vocabulary ", store.vocab(), ", ", store.fingerprint(), ", hash ", std::hex, store.tokens_hash()));
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            succeed_together(world, [&] {
                throw UserError({path, str("is not the same on rank ", rank, " as on rank 0"), all[rank] + "; " + all[0],
                                 "copy one store to all nodes, or put it on a file system that they share"});
            });
}

void require_shared_folder(Comm& world, const std::string& dir)
{
    const std::string probe = dir + "/.seen-by-all";
    const auto remove = [](const std::string& path) {
        if (std::error_code error; !std::filesystem::remove(path, error) && error)
            throw IoError({path, "cannot be removed", error.message(), "check the folder's permissions and its disk"});
    };
    succeed_together(world, [&] {
        if (world.rank() == 0)
            write_file(probe, "");
    });
    succeed_together(world, [&] {
        if (!std::filesystem::exists(probe))
            throw UserError({dir, "is not the folder that rank 0 writes to", "checkpoints have a file of each rank, in one folder",
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

void require_free_memory(const Grid& grid, const std::string& device, Bytes arena)
{
    const auto own = static_cast<std::size_t>(grid.world().rank());
    const std::vector<u64> arenas = gather_numbers(grid.world(), static_cast<u64>(arena));
    const std::vector<std::string> devices = gather_texts(grid.world(), device);
    Bytes sum = 0;
    int sharers = 0;
    for (std::size_t rank = 0; rank < arenas.size(); ++rank)
        if (grid.node_of_rank()[rank] == grid.node_of_rank()[own] && devices[rank] == device) {
            sum += static_cast<Bytes>(arenas[rank]);
            ++sharers;
        }
    const Bytes available = available_memory();
    succeed_together(grid.world(), [&] {
        if (available >= 0 && sum > available)
            throw IoError({"arena", str("the ", counted(sharers, "rank"), " of a ", device.empty() ? "node" : "device", sharers == 1 ? " needs " : " need ", format_bytes(sum), ", it has ", format_bytes(available), " available"),
                           "the plan does not fit", "spread the ranks over more nodes, or lower train.micro_batch; `trivium plan` shows the need"});
    });
}

void require_least_memory(const Grid& grid, const std::string& device, const RunConfig& config)
{
    const std::vector<Bytes> stages = least_bytes_of_stages(config);
    const auto each = static_cast<double>(*std::max_element(stages.begin(), stages.end()));
    const double all = static_cast<double>(config.parallel.data * config.parallel.tensor) * std::accumulate(stages.begin(), stages.end(), 0.0);
    std::map<std::string, double> free; // of each node, or each device of it
    const std::vector<u64> numbers = gather_numbers(grid.world(), static_cast<u64>(available_memory() + 1)); // 0: not known
    const std::vector<std::string> devices = gather_texts(grid.world(), device);
    for (std::size_t rank = 0; rank < numbers.size(); ++rank)
        free[str(grid.node_of_rank()[rank], " ", devices[rank])] = static_cast<double>(numbers[rank]) - 1;
    double sum = 0;
    for (const auto& [place, bytes] : free)
        sum += bytes;
    const bool known = std::all_of(free.begin(), free.end(), [](const auto& entry) { return entry.second >= 0; });
    const auto text = [](double bytes) { return format_bytes(static_cast<Bytes>(bytes)); };
    const std::string parts = str("parameters, moments and kept activations of ", describe_model(config), " over ", describe_grid(config.parallel));
    succeed_together(grid.world(), [&] {
        if (const Bytes limit = config.parallel.memory_limit; limit > 0 && each > static_cast<double>(limit))
            throw UserError({"parallel.memory_limit", str("a rank needs at least ", text(each), ", the limit is ", format_bytes(limit)), parts,
                             "raise the limit, take more tensor or pipeline ranks, or a smaller model; `trivium plan` shows the need"});
        if (known && all > sum)
            throw IoError({"memory", str(counted(grid.world().size(), "rank"), grid.world().size() == 1 ? " needs" : " together need", " at least ", text(all), all > each ? str(", up to ", text(each), " each") : "", "; ",
                                       counted(static_cast<i64>(free.size()), device.empty() ? "node" : "device"), free.size() == 1 ? " has " : " have ", text(sum), " available"),
                           parts, "spread the ranks over more nodes, with more tensor or pipeline ranks or parallel.zero = 1, or take a smaller model; `trivium plan` shows the need"});
    });
}

Bytes share_of_memory(Comm& world)
{
    const Grid all(world, {{{"data", world.size()}}}, node_name());
    std::string place = str(all.node_of_rank()[static_cast<std::size_t>(world.rank())]);
    Bytes available = -1;
    succeed_together(world, [&] {
        const int devices = device_count();
        if (devices > 0)
            place += " " + Device(device_index(all, devices)).address();
        if (devices > 0 || !computes_on_device())
            available = available_memory();
    });
    const std::vector<std::string> places = gather_texts(world, place);
    const auto sharers = std::count(places.begin(), places.end(), place);
    const std::vector<u64> shares = gather_numbers(world, available < 0 ? 0 : static_cast<u64>(available / sharers));
    return static_cast<Bytes>(*std::min_element(shares.begin(), shares.end()));
}

int ranks_on_same_cores(const Grid& grid)
{
    const std::vector<std::string> cores = gather_texts(grid.world(), usable_cores());
    const auto own = static_cast<std::size_t>(grid.world().rank());
    int count = 0;
    for (std::size_t rank = 0; rank < cores.size(); ++rank)
        count += cores[rank] == cores[own] && grid.node_of_rank()[rank] == grid.node_of_rank()[own] ? 1 : 0;
    return count;
}

std::vector<std::string> grid_report(const Grid& grid, const RunConfig& config, const Compiled& compiled)
{
    const Graph& g = compiled.programs[train_program].graph;
    i64 parameters = 0;
    for (const ValueId id : g.with_role(Role::parameter))
        parameters += g[id].type.elements();
    const i64 stage = g.at[static_cast<std::size_t>(g.mesh.find("pipeline"))];
    const std::vector<std::string> all = gather_to_first(grid.world(), str(stage, " ", parameters, " ", compiled.memory.arena));
    if (grid.world().rank() != 0)
        return {};
    std::vector<RankFacts> facts;
    for (const std::string& text : all) {
        RankFacts rank;
        std::istringstream(text) >> rank.stage >> rank.parameters >> rank.arena;
        facts.push_back(rank);
    }
    std::string crossing;
    for (const MeshAxis& axis : grid.mesh().axes)
        if (grid.crosses_nodes(axis.name))
            crossing += (crossing.empty() ? "" : ", ") + axis.name;
    std::vector<std::string> lines{
        fmt::format("grid     {} on {}: {}", counted(facts.size(), "rank"), counted(grid.nodes(), "node"), describe_grid(config.parallel))};
    if (grid.nodes() > 1)
        lines.push_back("         across nodes: " + (crossing.empty() ? "no axis" : crossing));
    for (i64 s = 0; facts.size() > 1 && s < g.mesh.size("pipeline"); ++s) {
        std::vector<RankFacts> mine;
        std::copy_if(facts.begin(), facts.end(), std::back_inserter(mine), [&](const RankFacts& f) { return f.stage == s; });
        const auto [fewest, most] = std::minmax_element(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.parameters < b.parameters; });
        const auto [small, large] = std::minmax_element(mine.begin(), mine.end(), [](const auto& a, const auto& b) { return a.arena < b.arena; });
        lines.push_back(fmt::format("{} {:<30} {} parameters and an arena of {} per rank", g.mesh.size("pipeline") > 1 ? fmt::format("stage {:<2}", s) : "        ",
                                    g.mesh.size("pipeline") > 1 ? blocks_of_stage(compiled.stage_of_block, s) : "all layers",
                                    range(fewest->parameters, most->parameters, [](i64 n) { return format_si(static_cast<double>(n)); }),
                                    range(small->arena, large->arena, [](i64 n) { return fmt::format("{} ({} bytes)", format_bytes(n), n); })));
    }
    return lines;
}

} // namespace trivium
