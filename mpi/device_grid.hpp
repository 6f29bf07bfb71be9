#pragma once
// The communicators between the devices of a process grid.
#include "mpi/device_comm.hpp"
#include "mpi/grid.hpp"

#include <compare>
#include <map>

namespace trivium {

/// A way for messages of one direction: from member `from` to member `to` of a group along an axis.
struct Link {
    int from = 0, to = 0, channel = 0;
    auto operator<=>(const Link&) const = default;
};

/// One rank's share of them. A communicator's moves take turns, so what is to go on at once has one of its
/// own: each axis, the world, and each link. All are made by the constructor and open_links(), none later.
class DeviceGrid {
public:
    /// All ranks of the grid call it, each with its device ready. `grid` must outlive it.
    DeviceGrid(const Grid& grid, std::shared_ptr<DeviceBackend> backend);
    DeviceGrid(const DeviceGrid&) = delete;
    DeviceGrid& operator=(const DeviceGrid&) = delete;
    ~DeviceGrid();

    /// As Grid::along().
    DeviceComm& along(const std::string& axis) const;

    /// All members of this rank's group along `axis` call it, each with the links that it has an end of.
    /// Makes those that are not there yet. \throws InternalError, on all of them, where a link has one end
    /// only
    void open_links(const std::string& axis, std::vector<Link> links);
    /// One that was opened: the sender is its rank 0, the receiver its rank 1.
    DeviceComm& link(const std::string& axis, const Link& link) const;

    /// All ranks call it when all their collectives are made, before the first is enqueued:
    /// DeviceComm::connect() of what any member has planned.
    void connect();

    /// DeviceComm::check() of all.
    void check() const;
    /// DeviceComm::abandon() of all.
    void abandon();

private:
    using Place = std::pair<std::string, Link>;
    DeviceComm& add(std::unique_ptr<DeviceComm> comm);

    const Grid& grid_;
    std::shared_ptr<DeviceBackend> backend_;
    std::vector<std::unique_ptr<DeviceComm>> all_; ///< in the order in which they were made
    DeviceComm *alone_, *world_;
    std::map<std::string, DeviceComm*> along_;
    std::map<Place, DeviceComm*> links_;
};

/// The device of a rank among those that it sees: the ranks of a node take them in turn. Where a launcher
/// shows each rank only its own (as Slurm does), that is device 0.
int device_index(const Grid& grid, int devices);

/// Whether two of the names are alike. (Each rank names its device: ranks that share one are for tests.)
bool share_a_device(std::vector<std::string> devices);

} // namespace trivium
