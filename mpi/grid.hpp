#pragma once
// The process grid: which rank stands where on a Mesh, and a communicator per axis, all made at start.
#include "ir/mesh.hpp"
#include "mpi/comm.hpp"

#include <map>

namespace trivium {

class DeviceBackend;
class DeviceGrid;

/// The communicators of one rank. Rank r of the world stands at mesh.coordinates(r): the last axis varies
/// fastest, so that its groups sit inside a node where nodes have consecutive ranks, as the session's world
/// has them.
class Grid {
public:
    /// All ranks of `world` call it with the same mesh. Makes a Comm along every axis of more than one rank
    /// and takes `world` as the joint one of all axes. `node` names this rank's node. \pre world.size() ==
    /// mesh.ranks()
    Grid(Comm& world, const Mesh& mesh, const std::string& node);
    ~Grid();

    const Mesh& mesh() const { return mesh_; }
    const Coordinates& at() const { return at_; }
    Comm& world() const { return world_; }
    /// The group along `axis`, the world for "world"; of this rank alone where the mesh has no such axis, or
    /// one rank along it.
    Comm& along(const std::string& axis) const;

    /// Nodes that the ranks run on, by world rank: 0, 1, … in order of appearance.
    const std::vector<int>& node_of_rank() const { return node_of_rank_; }
    int nodes() const;
    /// Whether some group along `axis` has members on more than one node.
    bool crosses_nodes(const std::string& axis) const;
    /// Ranks on this rank's node, and this one's place among them.
    int local_ranks() const;
    int local_rank() const;

    /// Makes the communicators between the ranks' devices, and keeps them; all ranks call it, each with its
    /// device ready.
    void open_devices(std::shared_ptr<DeviceBackend> backend);
    /// \pre open_devices() was called
    DeviceGrid& devices() const;

private:
    Mesh mesh_;
    Coordinates at_;
    Comm& world_;
    std::map<std::string, std::unique_ptr<Comm>> along_;
    std::unique_ptr<Comm> alone_;
    std::vector<int> node_of_rank_;
    std::unique_ptr<DeviceGrid> devices_; ///< none where the host computes
};

/// This process's node: SLURM_NODEID where Slurm sets it (virtual nodes share a host), else the host's name.
std::string node_name();

} // namespace trivium
