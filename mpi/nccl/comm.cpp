#include "mpi/nccl.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "collectives.hpp"
#include "kernels/device/memory.hpp"
#include "kernels/device/stream.hpp"
#include "kernels/device/vendor.hpp"
#include "mpi/device_grid.hpp"
#include "mpi/nccl/moves.hpp"

#include <cstdlib>
#include <exception>

namespace trivium {

namespace {

/// Checks every NCCL call.
void check_nccl(ncclResult_t result, const char* call)
{
    if (result != ncclSuccess)
        throw IoError({collectives_name, str(call, " failed"),
                       str(ncclGetErrorString(result), ": ", ncclGetLastError(nullptr)),
                       "set NCCL_DEBUG=INFO to see which network and devices it uses"});
}

ncclDataType_t type_of(DType type)
{
    switch (type) {
    case DType::f64: return ncclFloat64;
    case DType::f32: return ncclFloat32;
    case DType::bf16: return ncclBfloat16;
    case DType::i32: return ncclInt32;
    default: throw InternalError(__FILE__, __LINE__, str("no collective of ", name_of(type)));
    }
}

/// Groups calls into one operation. Closed also after an exception, when the process is about to end.
class Group {
public:
    Group() { check_nccl(ncclGroupStart(), "ncclGroupStart"); }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;
    ~Group()
    {
        if (open_)
            ncclGroupEnd();
    }
    void end()
    {
        open_ = false;
        check_nccl(ncclGroupEnd(), "ncclGroupEnd");
    }

private:
    bool open_ = true;
};

kernels::Exec exec_on(void* space) { return {.threads = 1, .stream = space}; }

/// The library's stream of Exec::stream.
VendorStream native(void* space) { return static_cast<VendorStream>(kernels::stream_of(exec_on(space))); }

/// Memory and a stream for the transfers that make connections.
class Trial {
public:
    explicit Trial(Bytes bytes) : memory_("connections", bytes) {}

    std::byte* memory() const { return memory_.data(); }
    /// As Exec::stream.
    void* stream() const { return space_.exec().stream; }
    void wait() const { stream_.wait(); }

private:
    kernels::DeviceBlock memory_;
    kernels::NativeStream stream_;
    kernels::SpaceOnStream space_{stream_.handle()};
};

class NcclComm final : public DeviceComm {
public:
    NcclComm(const std::string& id, int ranks, int rank, DeviceGroup group) : DeviceComm(ranks, rank)
    {
        if (ranks == 1) // no peers
            return;
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        if (group == DeviceGroup::link) // a waiting message keeps its thread blocks from computing
            config.maxCTAs = 8;
        check_nccl(ncclCommInitRankConfig(&comm_, ranks, id_of(id), rank, &config), "ncclCommInitRank");
        if (group == DeviceGroup::link)
            connect_link();
    }

    ~NcclComm() override
    {
        if (!comm_)
            return;
        // Destroying waits for the peers. A failing rank does not wait: they may never arrive.
        if (failed_ || std::uncaught_exceptions() > 0)
            ncclCommAbort(comm_);
        else
            ncclCommDestroy(comm_);
    }

    void exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives, void* stream) override
    {
        check_pieces(sends, receives);
        Group group;
        for (int i = 1; i < size(); ++i) {
            const int to = (rank() + i) % size(), from = (rank() + size() - i) % size();
            if (const ConstPiece& piece = sends[static_cast<std::size_t>(to)]; piece.bytes > 0)
                post_send(to, piece, stream);
            if (const Piece& piece = receives[static_cast<std::size_t>(from)]; piece.bytes > 0)
                post_receive(from, piece, stream);
        }
        group.end();
    }

    void send(int to, ConstPiece piece, void* stream) override
    {
        check_peer(to);
        if (piece.bytes > 0)
            post_send(to, piece, stream);
    }

    void receive(int from, Piece piece, void* stream) override
    {
        check_peer(from);
        if (piece.bytes > 0)
            post_receive(from, piece, stream);
    }

    void collective(CollectiveKind kind, DType type, std::span<const DenseMove> moves, void* stream) override
    {
        Group group;
        for (const DenseMove& move : moves)
            post(kind, type_of(type), move, stream);
        group.end();
    }

    void connect(u64 uses) override
    {
        uses &= ~connected_;
        if (uses == 0 || size() == 1)
            return;
        // The connections of a collective depend on its size: try small, medium and large ones.
        const Bytes largest = uses == use_exchange ? 1 << 16 : 64 << 20;
        const Bytes share = round_up(largest / size(), Bytes{256}), small = 16;
        Trial trial(2 * share * size());
        std::byte *out = trial.memory(), *in = out + share * size();
        if (uses & use_exchange) {
            std::vector<ConstPiece> sends(static_cast<std::size_t>(size()));
            std::vector<Piece> receives(sends.size());
            for (int r = 0; r < size(); ++r)
                if (const auto peer = static_cast<std::size_t>(r); r != rank()) {
                    sends[peer] = {in, small};
                    receives[peer] = {out + share * r, small};
                }
            exchange(sends, receives, trial.stream());
        }
        for (const CollectiveKind kind :
             {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce})
            if (uses & use_of(kind))
                for (const Bytes bytes : {small, std::min(share, Bytes{1 << 20} / size()), share}) {
                    const i64 part = std::max<i64>(1, bytes / 4),
                              count = kind == CollectiveKind::all_reduce ? part * size() : part;
                    const DenseMove move{in, out, count};
                    collective(kind, DType::f32, {&move, 1}, trial.stream());
                }
        trial.wait();
        check();
        connected_ |= uses;
    }

    void copy(std::span<const CopyBlock> blocks, void* stream) override
    {
        copy_on_device(blocks, exec_on(stream));
    }
    void combine(const Combination& combination, void* stream) override
    {
        combine_on_device(combination, exec_on(stream));
    }

    void abandon() override
    {
        if (comm_)
            ncclCommAbort(comm_);
        comm_ = nullptr;
    }

    void check() const override
    {
        if (!comm_)
            return;
        ncclResult_t state = ncclSuccess;
        check_nccl(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
        failed_ = state != ncclSuccess && state != ncclInProgress;
        if (failed_)
            check_nccl(state, "a transfer between devices");
    }

private:
    static ncclUniqueId id_of(const std::string& id)
    {
        ncclUniqueId unique;
        TRV_CHECK(id.size() == 2 * sizeof unique.internal, "an NCCL id of ", id.size(), " digits");
        for (std::size_t i = 0; i < sizeof unique.internal; ++i)
            unique.internal[i] = static_cast<char>(std::stoi(id.substr(2 * i, 2), nullptr, 16));
        return unique;
    }

    void connect_link()
    {
        Trial trial(16);
        if (rank() == 0)
            send(1, {trial.memory(), 16}, trial.stream());
        else
            receive(0, {trial.memory(), 16}, trial.stream());
        trial.wait();
        check();
    }

    void post_send(int to, ConstPiece piece, void* stream)
    {
        check_nccl(
            ncclSend(piece.data, static_cast<std::size_t>(piece.bytes), ncclUint8, to, comm_, native(stream)),
            "ncclSend");
    }
    void post_receive(int from, Piece piece, void* stream)
    {
        check_nccl(ncclRecv(piece.data, static_cast<std::size_t>(piece.bytes), ncclUint8, from, comm_,
                            native(stream)),
                   "ncclRecv");
    }
    void post(CollectiveKind kind, ncclDataType_t type, const DenseMove& move, void* space)
    {
        const auto count = static_cast<std::size_t>(move.count);
        const VendorStream stream = native(space);
        if (kind == CollectiveKind::all_gather)
            check_nccl(ncclAllGather(move.in, move.out, count, type, comm_, stream), "ncclAllGather");
        else if (kind == CollectiveKind::reduce_scatter)
            check_nccl(ncclReduceScatter(move.in, move.out, count, type, ncclSum, comm_, stream),
                       "ncclReduceScatter");
        else
            check_nccl(ncclAllReduce(move.in, move.out, count, type, ncclSum, comm_, stream),
                       "ncclAllReduce");
    }

    ncclComm_t comm_ = nullptr;
    u64 connected_ = 0;
    mutable bool failed_ = false;
};

class Nccl final : public DeviceBackend {
public:
    std::string make_id() override
    {
        ncclUniqueId unique;
        check_nccl(ncclGetUniqueId(&unique), "ncclGetUniqueId");
        std::string digits;
        for (const char c : unique.internal) {
            digits += "0123456789abcdef"[static_cast<unsigned char>(c) / 16];
            digits += "0123456789abcdef"[static_cast<unsigned char>(c) % 16];
        }
        return digits;
    }
    std::unique_ptr<DeviceComm> join(const std::string& id, int ranks, int rank, DeviceGroup group) override
    {
        return std::make_unique<NcclComm>(id, ranks, rank, group);
    }
};

} // namespace

std::string nccl_description()
{
    int version = 0;
    check_nccl(ncclGetVersion(&version), "ncclGetVersion");
    return str(collectives_name, " ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

std::shared_ptr<DeviceBackend> make_nccl(const Grid& grid)
{
    const std::string identity = kernels::facts_of(kernels::current_index()).identity;
    if (share_a_device(gather_texts(grid.world(), identity))) {
        prepare_shared_device(grid.world().rank(), grid.nodes() == 1);
        if (grid.world().rank() == 0)
            log_warning(
                "several ranks share a device: they communicate over the host's network, which is slow");
    }
    return std::make_shared<Nccl>();
}

void prepare_device_environment(int ranks) { kernels::prepare_vendor(ranks); }

void prepare_shared_device(int world_rank, bool one_node)
{
    setenv("NCCL_HOSTID", str("trivium-", world_rank).c_str(), 0);
    if (one_node)
        setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

} // namespace trivium
