// Communication of a build for GPUs: work on a stream.
#include "runtime/communication.hpp"

#include "base/check.hpp"
#include "kernels/device/fill.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/vendor.hpp"
#include "mpi/device_collective.hpp"
#include "mpi/device_grid.hpp"
#include "mpi/nccl.hpp"

#include <algorithm>
#include <thread>

namespace trivium {

namespace {

/// For the host it is done once it is enqueued.
class StreamMove : public Communication {
public:
    explicit StreamMove(std::function<void(const kernels::Exec&)> enqueue) : enqueue_(std::move(enqueue)) {}
    void start(const kernels::Exec& exec) override { enqueue_(exec); }
    bool progress() override { return true; }
    void finish() override {}

private:
    std::function<void(const kernels::Exec&)> enqueue_;
};

/// The host enqueues the messages once it knows the counts, for which it waits.
class RowsOnStream {
public:
    RowsOnStream(DeviceComm& comm, const Binding& b)
        : comm_(comm), shape_(row_exchange_shape(b)), in_(b.operands[0]), counts_(b.operands[1]),
          out_(b.results[0]), host_("counts of rows", std::max<Bytes>(bytes(), 256))
    {
        comm_.plan(use_exchange);
    }
    void enqueue(const kernels::Exec& exec)
    {
        kernels::copy_from_device(exec, host_.data(), counts_, bytes());
        known_.record(exec.stream);
        while (!known_.reached()) { // not wait(): if a peer is lost, the work never ends
            comm_.check();
            std::this_thread::yield();
        }
        const RowMoves moves = row_moves(
            shape_, {reinterpret_cast<const i32*>(host_.data()), static_cast<std::size_t>(shape_.counts())},
            comm_.size(), comm_.rank(), in_, out_);
        for (std::size_t i = 0; i < moves.sends.size(); ++i)
            comm_.exchange(moves.sends[i], moves.receives[i], exec.stream);
        comm_.copy(moves.keep, exec.stream);
        for (const Piece& piece : moves.zero)
            kernels::fill(exec, piece.data, 0, piece.bytes);
    }

private:
    Bytes bytes() const { return shape_.counts() * static_cast<Bytes>(sizeof(i32)); }

    DeviceComm& comm_;
    RowExchangeShape shape_;
    const void *in_, *counts_;
    void* out_;
    kernels::PinnedBlock host_;
    kernels::DeviceEvent known_;
};

Link link_of(bool sends, int own, int peer, int tag)
{
    return sends ? Link{own, peer, tag} : Link{peer, own, tag};
}

} // namespace

void open_devices(Grid& grid) { grid.open_devices(make_nccl(grid)); }

void open_links(const Graph& graph, const Grid& grid)
{
    for (const MeshAxis& axis : grid.mesh().axes) {
        if (axis.size == 1)
            continue;
        std::vector<Link> links;
        for (const Op& op : graph.ops)
            if ((op.kind == OpKind::send || op.kind == OpKind::recv) && *op.attrs->axis == axis.name) {
                const bool sends = op.kind == OpKind::send;
                links.push_back(link_of(sends, grid.along(axis.name).rank(),
                                        static_cast<int>(sends ? *op.attrs->to : *op.attrs->from),
                                        static_cast<int>(*op.attrs->tag)));
            }
        grid.devices().open_links(axis.name, std::move(links));
    }
}

void connect_devices(const Grid& grid) { grid.devices().connect(); }

void check_devices(const Grid& grid) { grid.devices().check(); }

void abandon_devices(const Grid& grid) { grid.devices().abandon(); }

std::unique_ptr<Communication> bind_communication(const Binding& b, const Grid& grid, bool deterministic)
{
    const std::string& axis = *b.op->attrs->axis;
    if (is_collective(*b.op)) {
        auto collective = std::make_shared<DeviceCollective>(grid.devices().along(axis), collective_shape(b),
                                                             exchange_scratch(b), deterministic);
        return std::make_unique<StreamMove>(
            [collective](const kernels::Exec& exec) { collective->enqueue(exec.stream); });
    }
    if (info(*b.op).exchanges) {
        auto boxes =
            std::make_shared<DeviceBoxExchange>(grid.devices().along(axis), exchange_of(*b.graph, *b.op),
                                                b.operands[0], b.results[0], exchange_scratch(b));
        return std::make_unique<StreamMove>(
            [boxes](const kernels::Exec& exec) { boxes->enqueue(exec.stream); });
    }
    if (b.op->kind == OpKind::exchange_rows) {
        auto rows = std::make_shared<RowsOnStream>(grid.devices().along(axis), b);
        return std::make_unique<StreamMove>([rows](const kernels::Exec& exec) { rows->enqueue(exec); });
    }
    const Message m = message_of(b);
    DeviceComm& link = grid.devices().link(axis, link_of(m.sends, grid.along(axis).rank(), m.peer, m.tag));
    if (m.sends)
        return std::make_unique<StreamMove>([&link, m](const kernels::Exec& exec) {
            link.send(1, {m.piece.data, m.piece.bytes}, exec.stream);
        });
    return std::make_unique<StreamMove>(
        [&link, m](const kernels::Exec& exec) { link.receive(0, m.piece, exec.stream); });
}

} // namespace trivium
