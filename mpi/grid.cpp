#include "mpi/grid.hpp"

#include "base/words.hpp"
#include "mpi/device_grid.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

namespace trivium {

Grid::Grid(Comm& world, const Mesh& mesh, const std::string& node, const LinkDelay& delay,
           const std::vector<std::string>& joint)
    : mesh_(mesh), world_(world)
{
    TRV_CHECK(world.size() == mesh.ranks(), world.size(), " ranks for a mesh of ", mesh.ranks());
    at_ = mesh.coordinates(world.rank());
    if (delay.any())
        delayed_ = make_delay_comm(world, std::make_shared<SlowLink>(SlowLink{delay}));
    for (const MeshAxis& axis : mesh.axes)
        add(axis.name);
    open(joint);
    alone_ = world.subgroup({world.rank()});
    node_of_rank_ = numbers_of(gather_texts(world, node));
}

void Grid::add(const std::string& axis)
{
    if (axis == world_axis || along_.contains(axis) || mesh_.ranks_along(axis) == 1)
        return;
    const std::vector<i64> group = mesh_.group(at_, {axis});
    along_[axis] = along(world_axis).subgroup(std::vector<int>(group.begin(), group.end()));
    groups_.push_back(axis);
}

void Grid::open(const std::vector<std::string>& joint)
{
    for (const std::vector<std::string>& axes : gather_records(world_, joint))
        for (const std::string& axis : axes)
            add(axis);
    if (devices_)
        devices_->open_groups();
}

Grid::~Grid() = default;

Comm& Grid::along(const std::string& axis) const
{
    if (axis == world_axis)
        return delayed_ ? *delayed_ : world_;
    const auto found = along_.find(axis);
    TRV_CHECK(found != along_.end() || mesh_.ranks_along(axis) == 1, "the grid has no communicator along ",
              axis);
    return found == along_.end() ? *alone_ : *found->second;
}

int Grid::nodes() const { return *std::max_element(node_of_rank_.begin(), node_of_rank_.end()) + 1; }

bool Grid::crosses_nodes(const std::string& axis) const
{
    for (i64 rank = 0; rank < mesh_.ranks(); ++rank) {
        const i64 first = mesh_.group(mesh_.coordinates(rank), {axis}).front();
        if (node_of_rank_[static_cast<std::size_t>(first)] != node_of_rank_[static_cast<std::size_t>(rank)])
            return true;
    }
    return false;
}

int Grid::local_ranks() const
{
    const int own = node_of_rank_[static_cast<std::size_t>(world_.rank())];
    return static_cast<int>(std::count(node_of_rank_.begin(), node_of_rank_.end(), own));
}

int Grid::local_rank() const
{
    const auto own = node_of_rank_.begin() + world_.rank();
    return static_cast<int>(std::count(node_of_rank_.begin(), own, *own));
}

void Grid::open_devices(std::shared_ptr<DeviceBackend> backend)
{
    devices_ = std::make_unique<DeviceGrid>(*this, std::move(backend));
}

DeviceGrid& Grid::devices() const
{
    TRV_CHECK(devices_, "the grid has no devices");
    return *devices_;
}

std::string node_name()
{
    const char* node = std::getenv("SLURM_NODEID");
    if (node && std::getenv("SLURM_STEP_NUM_TASKS"))
        return std::string("node ") + node;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return host;
}

} // namespace trivium
