#pragma once
// The process grid: the coordinates of each rank on a Mesh, and one communicator per axis and per joint axis,
// all made at start-up.
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"
#include "mpi/delay_comm.hpp"

#include <map>

namespace trivium {

class DeviceBackend;
class DeviceGrid;

/// The communicators of one rank. World rank r has mesh.coordinates(r): the last axis varies fastest, so its
/// groups are inside a node if nodes have consecutive ranks, as in the session's world.
class Grid {
public:
    /// Collective over `world`, which must outlive the Grid, with the same mesh on all ranks. Makes a Comm
    /// along every axis with more than one rank, and uses `world` for all axes together. `node` names this
    /// rank's node. `joint` lists joint axes ("x+y") as for open(); each gets its own Comm, so that transfers
    /// along it are independent of all others. With a delay, every Comm of along() is slowed to such a link.
    /// \pre world.size() == mesh.ranks()
    Grid(Comm& world, const Mesh& mesh, const std::string& node, const LinkDelay& delay = {},
         const std::vector<std::string>& joint = {});
    ~Grid();

    /// Makes communicators along more joint axes, also between devices if the devices are open. All ranks
    /// call it; their lists may differ, and all ranks get the communicators of all lists.
    void open(const std::vector<std::string>& joint);

    const Mesh& mesh() const { return mesh_; }
    const Coordinates& at() const { return at_; }
    /// The Comm of the constructor, without the delay.
    Comm& world() const { return world_; }
    /// The Comm of this rank's group along `axis`; of all ranks for "world"; of this rank alone if the mesh
    /// has no such axis, or only one rank along it. The group of a joint axis consists of the ranks that
    /// differ only along its axes, in ascending order; `axis` is spelt as it was in open(). \throws
    /// InternalError for a joint axis that is not open
    Comm& along(const std::string& axis) const;
    /// The axes, then the open joint axes, along which groups have more than one rank; without "world".
    const std::vector<std::string>& groups() const { return groups_; }

    /// Node of each world rank: 0, 1, … in order of appearance.
    const std::vector<int>& node_of_rank() const { return node_of_rank_; }
    int nodes() const;
    /// Whether some group along `axis` (an axis or a joint axis) has members on more than one node.
    bool crosses_nodes(const std::string& axis) const;
    /// Number of ranks on this rank's node, and this rank's index among them.
    int local_ranks() const;
    int local_rank() const;

    /// Makes the communicators between the ranks' devices. All ranks call it, each with its device ready.
    void open_devices(std::shared_ptr<DeviceBackend> backend);
    /// \pre open_devices() was called
    DeviceGrid& devices() const;

private:
    void add(const std::string& axis);

    Mesh mesh_;
    Coordinates at_;
    Comm& world_;
    std::unique_ptr<Comm> delayed_; ///< null without a delay
    std::vector<std::string> groups_;
    std::map<std::string, std::unique_ptr<Comm>> along_; ///< by name of groups_
    std::unique_ptr<Comm> alone_;
    std::vector<int> node_of_rank_;
    std::unique_ptr<DeviceGrid> devices_; ///< null if the host computes
};

/// This process's node: "node N" in a Slurm step that states SLURM_NODEID (virtual nodes share a host),
/// otherwise the host name.
std::string node_name();

} // namespace trivium
