#pragma once
// The communicators between the devices of a process grid.
#include "mpi/device_comm.hpp"
#include "mpi/grid.hpp"

#include <compare>
#include <map>

namespace trivium {

/// All messages with one tag from member `from` to member `to` of a group along an axis.
struct Link {
    int from = 0, to = 0, tag = 0;
    auto operator<=>(const Link&) const = default;
};

/// The communicators of one rank's device. Transfers of one communicator run one after the other, so each
/// axis, each joint axis, the world and each link has its own. The constructor, open_groups() and
/// open_links() make all of them; none is made later.
class DeviceGrid {
public:
    /// All ranks of the grid call it, each with its device ready. `grid` must outlive it.
    DeviceGrid(const Grid& grid, std::shared_ptr<DeviceBackend> backend);
    DeviceGrid(const DeviceGrid&) = delete;
    DeviceGrid& operator=(const DeviceGrid&) = delete;
    ~DeviceGrid();

    /// Makes the communicators along the grid's groups that do not exist yet. All ranks call it.
    void open_groups();

    /// See Grid::along().
    DeviceComm& along(const std::string& axis) const;

    /// Collective over this rank's group along `axis`; each member passes the links of which it is an end.
    /// Makes the links that are not open yet. \throws InternalError on all members if only one end passed a
    /// link
    void open_links(const std::string& axis, std::vector<Link> links);
    /// An open link: the sender is its rank 0, the receiver its rank 1.
    DeviceComm& link(const std::string& axis, const Link& link) const;

    /// DeviceComm::connect() for everything that any member has planned. All ranks call it after making their
    /// collectives and before enqueuing the first.
    void connect();

    /// DeviceComm::check() of all communicators.
    void check() const;
    /// DeviceComm::abandon() of all communicators.
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

/// Index of this rank's device among the `devices` that the process can use: the ranks of a node take them in
/// turn. If a launcher shows each rank only its own device (Slurm can), the index is 0. \pre devices > 0
int device_index(const Grid& grid, int devices);

/// Whether ranks share a device, as some do in tests. `devices`: by rank, a name that no other device has.
bool share_a_device(std::vector<std::string> devices);

} // namespace trivium
