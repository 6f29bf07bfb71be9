// Communication of a build for GPUs: work on a stream.
#include "runtime/communication.hpp"

#include "base/check.hpp"
#include "mpi/device_collective.hpp"
#include "mpi/device_grid.hpp"
#include "mpi/nccl.hpp"

namespace trivium {

namespace {

/// For the host it is done once it is enqueued.
class StreamMove : public Communication {
public:
    explicit StreamMove(std::function<void(void*)> enqueue) : enqueue_(std::move(enqueue)) {}
    void start(const kernels::Exec& exec) override { enqueue_(exec.stream); }
    bool progress() override { return true; }
    void finish() override {}

private:
    std::function<void(void*)> enqueue_;
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
            if ((op.kind == OpKind::send || op.kind == OpKind::recv) && *op.attrs.axis == axis.name) {
                const bool sends = op.kind == OpKind::send;
                links.push_back(link_of(sends, grid.along(axis.name).rank(),
                                        static_cast<int>(sends ? *op.attrs.to : *op.attrs.from),
                                        static_cast<int>(*op.attrs.tag)));
            }
        grid.devices().open_links(axis.name, std::move(links));
    }
}

void connect_devices(const Grid& grid) { grid.devices().connect(); }

void check_devices(const Grid& grid) { grid.devices().check(); }

void abandon_devices(const Grid& grid) { grid.devices().abandon(); }

std::unique_ptr<Communication> bind_communication(const Binding& b, const Grid& grid, bool deterministic)
{
    const std::string& axis = *b.op->attrs.axis;
    if (is_collective(*b.op)) {
        auto collective = std::make_shared<DeviceCollective>(grid.devices().along(axis), collective_shape(b),
                                                             exchange_scratch(b), deterministic);
        return std::make_unique<StreamMove>([collective](void* stream) { collective->enqueue(stream); });
    }
    if (info(*b.op).exchanges)
        throw UserError({place_of(*b.graph, *b.op), "exchanges between devices are not built yet",
                         str("the op moves boxes along '", axis, "'"),
                         "use a build for CPUs, or shardings between which collectives suffice"});
    const Message m = message_of(b);
    DeviceComm& link = grid.devices().link(axis, link_of(m.sends, grid.along(axis).rank(), m.peer, m.tag));
    if (m.sends)
        return std::make_unique<StreamMove>([&link, m](void* stream) {
            link.send(1, {m.piece.data, m.piece.bytes}, stream);
        });
    return std::make_unique<StreamMove>([&link, m](void* stream) { link.receive(0, m.piece, stream); });
}

} // namespace trivium
