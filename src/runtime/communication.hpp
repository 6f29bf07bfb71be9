#pragma once
// Binds ops that communicate to the grid's communicators.
#include "mpi/box_exchange.hpp"
#include "mpi/collective.hpp"
#include "mpi/grid.hpp"
#include "mpi/row_exchange.hpp"
#include "runtime/dispatch.hpp"

namespace trivium {

/// A collective, an exchange of boxes or rows, or a message, bound to its memory. It may run many times. On
/// the host the executor starts it, advances it and finishes it. On a device, start() enqueues it on a
/// stream, and nothing else is needed.
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

/// `deterministic`: as for DeviceCollective; the host's collectives always are. The grid must outlive the
/// result. Throws InternalError for an op that does not communicate. \pre on a device, open_links() was
/// called with the op's graph
std::unique_ptr<Communication> bind_communication(const Binding& binding, const Grid& grid,
                                                  bool deterministic = true);

// For devices; no effect on the host. All ranks call the first three, in the same order.

/// Makes NCCL communicators between the grid's devices. \pre each rank has made its Device (device_index())
void open_devices(Grid& grid);
/// Makes the missing links for the graph's messages.
void open_links(const Graph& graph, const Grid& grid);
/// Makes the connections, so that no later call waits for a peer. Call it when all communication is bound,
/// before the first one starts.
void connect_devices(const Grid& grid);
/// Throws IoError if communication between devices has failed; does not wait.
void check_devices(const Grid& grid);
/// For a failing rank: abandons work that waits for other ranks' devices, so that the rank can report its
/// failure. No communication between devices may follow.
void abandon_devices(const Grid& grid);

// Internal: the transfers of ops.

/// For exchange_rows. The rows are operand 0, the counts operand 1.
RowExchangeShape row_exchange_shape(const Binding& binding);

bool is_collective(const Op& op);
CollectiveShape collective_shape(const Binding& binding);
CollectiveKind collective_kind(OpKind kind);
Piece exchange_scratch(const Binding& binding);
/// For an op that exchanges boxes; `comm` is the communicator along the op's axis.
BoxExchange box_exchange(const Binding& binding, Comm& comm);

struct Message {
    bool sends;
    int peer, tag; ///< `peer`: rank along the op's axis
    Piece piece;   ///< destination of a receive; a send only reads it
};
/// The message of a send or recv. Throws InternalError for other ops.
Message message_of(const Binding& binding);

} // namespace trivium
