#pragma once
// Binds ops that communicate to the grid's communicators.
#include "mpi/box_exchange.hpp"
#include "mpi/collective.hpp"
#include "mpi/grid.hpp"
#include "runtime/dispatch.hpp"

namespace trivium {

/// A collective or a message with its memory. On the host the executor starts it, advances it and finishes
/// it; on a device, start() enqueues it on a stream, and nothing else is needed.
class Communication {
public:
    virtual ~Communication() = default;
    virtual void start(const kernels::Exec& exec) = 0;
    /// Advances without waiting; true when done.
    virtual bool progress() = 0;
    /// On the host: see Request::waits_for().
    virtual std::vector<int> waits_for() const { return {}; }
    /// Returns when done.
    virtual void finish() = 0;
};

/// Throws InternalError for an op that does not communicate, and UserError for an exchange of boxes on a
/// device. `deterministic`: as for DeviceCollective; the
/// host's collectives always are. \pre on a device, open_links() was called with the op's graph
std::unique_ptr<Communication> bind_communication(const Binding& binding, const Grid& grid,
                                                  bool deterministic = true);

// For devices; no effect on the host. All ranks call them, in the same order.

/// Makes the grid's NCCL communicators between devices. \pre each rank has made its Device (device_index())
void open_devices(Grid& grid);
/// Makes the missing links for the graph's messages.
void open_links(const Graph& graph, const Grid& grid);
/// Call it when all communication is bound, before the first one starts: makes the connections, so that later
/// calls do not wait for a peer.
void connect_devices(const Grid& grid);
/// Throws if communication between devices has failed; does not wait.
void check_devices(const Grid& grid);
/// For a failing rank: abandons work that waits for other ranks' devices, so that the rank can inform them.
void abandon_devices(const Grid& grid);

// Internal: the transfers of ops.

bool is_collective(const Op& op);
CollectiveShape collective_shape(const Binding& binding);
Piece exchange_scratch(const Binding& binding);
/// Of an op that exchanges boxes, over the communicator along its axis.
BoxExchange box_exchange(const Binding& binding, Comm& comm);

struct Message {
    bool sends;
    int peer, tag;
    Piece piece; ///< destination of a receive; a send only reads it
};
/// The message of a send or recv. Throws InternalError for other ops.
Message message_of(const Binding& binding);

} // namespace trivium
