#pragma once
// From an op that communicates to moves over the grid's communicators.
#include "mpi/collective.hpp"
#include "mpi/grid.hpp"
#include "runtime/dispatch.hpp"

namespace trivium {

/// A collective or a message with its place in memory. On the host the executor starts it, makes it progress
/// and finishes it; on a device start() puts it on a stream, and no more is needed.
class Communication {
public:
    virtual ~Communication() = default;
    virtual void start(const kernels::Exec& exec) = 0;
    /// Makes progress without waiting; true once it has ended.
    virtual bool progress() = 0;
    /// On the host: as Request::waits_for().
    virtual std::vector<int> waits_for() const { return {}; }
    /// Returns when it has ended.
    virtual void finish() = 0;
};

/// Throws InternalError for an op that does not communicate. `deterministic`: as for DeviceCollective; the
/// host's collectives always are. On a device open_links() has made the links of the op's graph.
std::unique_ptr<Communication> bind_communication(const Binding& binding, const Grid& grid,
                                                  bool deterministic = true);

// For devices only; on the host there is nothing to do. All ranks call them, in the same order.

/// The grid's communicators between devices, of NCCL. Each rank has made its Device (device_index()).
void open_devices(Grid& grid);
/// The links of the graph's messages that are not there yet.
void open_links(const Graph& graph, const Grid& grid);
/// When all communication is bound, before the first is started: makes connections, so that later calls do
/// not wait for a peer.
void connect_devices(const Grid& grid);
/// Throws where communication between devices has failed; does not wait.
void check_devices(const Grid& grid);
/// For a rank that fails: ends work that waits for other ranks' devices, so that they can be informed.
void abandon_devices(const Grid& grid);

// Internal: ops as moves.

bool is_collective(const Op& op);
CollectiveShape collective_shape(const Binding& binding);
Piece exchange_scratch(const Binding& binding);

struct Message {
    bool sends;
    int peer, channel;
    Piece piece; ///< a receive's; a send only reads it
};
/// Of a send or recv; otherwise throws InternalError.
Message message_of(const Binding& binding);

} // namespace trivium
