#include "train/node_resources.hpp"

#include "base/check.hpp"
#include "base/cores.hpp"
#include "base/counted.hpp"
#include "choose/least_bytes.hpp"
#include "compile/describe.hpp"
#include "mpi/device_grid.hpp"
#include "mpi/records.hpp"
#include "runtime/arena.hpp"
#include "runtime/device.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <ranges>

namespace trivium {

void require_free_memory(const Grid& grid, const std::string& device, Bytes arena, const std::string& lower)
{
    const auto own = static_cast<std::size_t>(grid.world().rank());
    const auto arenas = gather_records(grid.world(), std::pair(device, arena));
    Bytes sum = 0;
    int sharers = 0;
    for (std::size_t rank = 0; rank < arenas.size(); ++rank)
        if (grid.node_of_rank()[rank] == grid.node_of_rank()[own] && arenas[rank].first == device) {
            sum += arenas[rank].second;
            ++sharers;
        }
    const Bytes available = available_memory();
    succeed_together(grid.world(), [&] {
        if (available >= 0 && sum > available)
            throw UserError({"arena",
                             str("the ", counted(sharers, "rank"), " of a ",
                                 device.empty() ? "node" : "device", sharers == 1 ? " needs " : " need ",
                                 format_bytes(sum), ", it has ", format_bytes(available), " available"),
                             "the plan does not fit",
                             str("distribute the ranks over more nodes, or lower ", lower,
                                 lower.starts_with("train.") ? "; `trivium plan` shows the need" : "")});
    });
}

void require_least_memory(const Grid& grid, const std::string& device, const RunConfig& config)
{
    std::vector<Bytes> stages;
    succeed_together(grid.world(), [&] { stages = least_bytes_of_stages(config); });
    const auto each = static_cast<double>(*std::ranges::max_element(stages));
    const double all = static_cast<double>(rank_count(config.parallel) / config.parallel.pipeline) *
                       std::accumulate(stages.begin(), stages.end(), 0.0);
    std::map<std::pair<int, std::string>, double> free; // by node, or by device of a node; -1: unknown
    const auto available = gather_records(grid.world(), std::pair(device, available_memory()));
    for (std::size_t rank = 0; rank < available.size(); ++rank)
        free[{grid.node_of_rank()[rank], available[rank].first}] =
            static_cast<double>(available[rank].second);
    double sum = 0;
    for (const auto& [place, bytes] : free)
        sum += bytes;
    const bool known = std::ranges::all_of(free, [](const auto& entry) { return entry.second >= 0; });
    const auto text = [](double bytes) { return format_bytes(static_cast<Bytes>(bytes)); };
    const std::string parts = str("parameters, moments and kept activations of ", describe_model(config),
                                  " over ", describe_grid(config.parallel));
    succeed_together(grid.world(), [&] {
        if (const Bytes limit = config.parallel.memory_limit; limit > 0 && each > static_cast<double>(limit))
            throw UserError(
                {"parallel.memory_limit",
                 str("a rank needs at least ", text(each), ", the limit is ", format_bytes(limit)), parts,
                 "raise the limit, use more tensor or pipeline ranks, or a smaller model; `trivium plan` "
                 "shows the need"});
        if (known && all > sum)
            throw UserError({"memory",
                             str(counted(grid.world().size(), "rank"),
                                 grid.world().size() == 1 ? " needs" : " together need", " at least ",
                                 text(all), all > each ? str(", up to ", text(each), " each") : "", "; ",
                                 counted(static_cast<i64>(free.size()), device.empty() ? "node" : "device"),
                                 free.size() == 1 ? " has " : " have ", text(sum), " available"),
                             parts,
                             "distribute the ranks over more nodes, with more tensor or pipeline ranks or "
                             "parallel.zero = 3, or use a smaller model; `trivium plan` shows the need"});
    });
}

Bytes share_of_memory(Comm& world)
{
    const Grid all(world, {{{data_axis, world.size()}}}, node_name());
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
    const auto sharers = std::ranges::count(places, place);
    return std::ranges::min(gather_records(world, std::max<Bytes>(available, 0) / sharers));
}

i64 most_ranks_of_a_node(Comm& world)
{
    const Grid all(world, {{{data_axis, world.size()}}}, node_name());
    std::map<int, i64> ranks;
    for (const int node : all.node_of_rank())
        ++ranks[node];
    return std::ranges::max(ranks | std::views::values);
}

namespace {

/// Number of ranks on this rank's node, itself included, with the same `place`.
int ranks_in_same_place(const Grid& grid, const std::string& place)
{
    const std::vector<std::string> places = gather_texts(grid.world(), place);
    const auto own = static_cast<std::size_t>(grid.world().rank());
    int count = 0;
    for (std::size_t rank = 0; rank < places.size(); ++rank)
        count += places[rank] == places[own] && grid.node_of_rank()[rank] == grid.node_of_rank()[own] ? 1 : 0;
    return count;
}

} // namespace

int ranks_on_same_cores(const Grid& grid) { return ranks_in_same_place(grid, usable_cores()); }

double computing_units(const Grid& grid, const std::string& device, int threads)
{
    const int sharers = ranks_in_same_place(grid, device.empty() ? usable_cores() : device);
    const int cores = usable_core_count(); // 0: unknown
    const int most = !device.empty() ? 1 : cores > 0 ? cores : sharers * threads;
    const double own = std::min<double>(device.empty() ? threads : 1, static_cast<double>(most) / sharers);
    double sum = 0;
    for (const double share : gather_records(grid.world(), own))
        sum += share;
    return sum;
}

} // namespace trivium
