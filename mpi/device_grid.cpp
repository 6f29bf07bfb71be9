#include "mpi/device_grid.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <tuple>

namespace trivium {

namespace {

/// The first member makes the id and sends it to the others.
std::unique_ptr<DeviceComm> join_group(Comm& group, DeviceBackend& backend)
{
    const std::string id = share_text(group, group.rank() == 0 ? backend.make_id() : "");
    return backend.join(id, group.size(), group.rank(), DeviceGroup::all);
}

std::string describe(const Link& link) { return str(link.from, " ", link.to, " ", link.tag); }

} // namespace

DeviceGrid::DeviceGrid(const Grid& grid, std::shared_ptr<DeviceBackend> backend)
    : grid_(grid), backend_(std::move(backend))
{
    alone_ = &add(backend_->join({}, 1, 0, DeviceGroup::all));
    world_ = grid.world().size() == 1 ? alone_ : &add(join_group(grid.world(), *backend_));
    open_groups();
}

void DeviceGrid::open_groups()
{
    // Groups along one axis are disjoint, and all ranks take the axes in the same order, so this cannot
    // deadlock.
    for (const std::string& axis : grid_.groups())
        if (!along_.contains(axis))
            along_[axis] = &add(join_group(grid_.along(axis), *backend_));
}

DeviceGrid::~DeviceGrid()
{
    while (!all_.empty()) // destroy in reverse order, the same on all ranks
        all_.pop_back();
}

DeviceComm& DeviceGrid::add(std::unique_ptr<DeviceComm> comm) { return *all_.emplace_back(std::move(comm)); }

DeviceComm& DeviceGrid::along(const std::string& axis) const
{
    if (axis == world_axis)
        return *world_;
    const auto found = along_.find(axis);
    TRV_CHECK(found != along_.end() || grid_.mesh().ranks_along(axis) == 1,
              "the devices have no communicator along ", axis);
    return found == along_.end() ? *alone_ : *found->second;
}

void DeviceGrid::open_links(const std::string& axis, std::vector<Link> links)
{
    Comm& group = grid_.along(axis);
    std::sort(links.begin(), links.end());
    links.erase(std::unique(links.begin(), links.end()), links.end());
    // Both ends of a link list it until they have joined it; the sender adds the id.
    std::vector<std::tuple<int, int, int, std::string>> own;
    for (const Link& link : links) {
        TRV_CHECK((link.from == group.rank()) != (link.to == group.rank()), "link ", describe(link),
                  " along ", axis, " of rank ", group.rank());
        if (!links_.contains({axis, link}))
            own.emplace_back(link.from, link.to, link.tag,
                             link.from == group.rank() ? backend_->make_id() : "");
    }
    struct Ends {
        std::string id;
        int senders = 0, receivers = 0;
    };
    std::map<Link, Ends> all;
    const auto lists = gather_records(group, own);
    for (int rank = 0; rank < group.size(); ++rank)
        for (const auto& [from, to, tag, id] : lists[static_cast<std::size_t>(rank)]) {
            Ends& ends = all[{from, to, tag}];
            ++(rank == from ? ends.senders : ends.receivers);
            if (rank == from)
                ends.id = id;
        }
    for (const auto& [link, ends] : all)
        TRV_CHECK(ends.senders == 1 && ends.receivers == 1, "link ", describe(link), " along ", axis,
                  " has one end");
    // Joining waits for the other end. All ranks have the same list and process it in order: both ends of the
    // first remaining link have joined all their earlier links, so they meet, and the list gets shorter.
    for (const auto& [link, ends] : all)
        if (link.from == group.rank() || link.to == group.rank())
            links_[{axis, link}] =
                &add(backend_->join(ends.id, 2, link.to == group.rank(), DeviceGroup::link));
}

DeviceComm& DeviceGrid::link(const std::string& axis, const Link& link) const
{
    const auto found = links_.find({axis, link});
    TRV_CHECK(found != links_.end(), "link ", describe(link), " along ", axis, " is not open");
    return *found->second;
}

void DeviceGrid::connect()
{
    const auto agreed = [](Comm& group, DeviceComm& comm) {
        if (comm.size() > 1)
            comm.connect(agree(group, comm.planned()));
    };
    agreed(grid_.world(), *world_);
    for (const std::string& axis : grid_.groups())
        agreed(grid_.along(axis), along(axis));
}

void DeviceGrid::abandon()
{
    for (const auto& comm : all_)
        comm->abandon();
}

void DeviceGrid::check() const
{
    for (const auto& comm : all_)
        comm->check();
}

int device_index(const Grid& grid, int devices)
{
    TRV_CHECK(devices > 0, "no device");
    return grid.local_rank() % devices;
}

bool share_a_device(std::vector<std::string> devices)
{
    std::sort(devices.begin(), devices.end());
    return std::adjacent_find(devices.begin(), devices.end()) != devices.end();
}

} // namespace trivium
