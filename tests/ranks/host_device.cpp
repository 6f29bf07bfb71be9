#include "host_device.hpp"

#include "mpi/combine.hpp"
#include "mpi/mailbox.hpp"
#include "tile_threads.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <numeric>
#include <thread>

using namespace trivium;

namespace {

/// Shared by the devices of all ranks: which rank joins which communicator.
struct Shared {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<Mailbox>> mailboxes;
    std::exception_ptr failure;
    std::vector<std::shared_ptr<std::byte>> left;
    int ids = 0;
    bool slow = false;
    std::atomic<int> joined = 0;

    std::shared_ptr<Mailbox> mailbox(const std::string& id, int ranks)
    {
        const std::scoped_lock lock(mutex);
        std::shared_ptr<Mailbox>& box = mailboxes[id];
        if (!box)
            box = std::make_shared<Mailbox>(ranks);
        if (failure)
            box->fail(failure);
        return box;
    }
    void fail(std::exception_ptr error)
    {
        const std::scoped_lock lock(mutex);
        if (!failure)
            failure = error;
        for (auto& [id, box] : mailboxes)
            box->fail(failure);
    }
};

class HostStream {
public:
    explicit HostStream(Shared& shared) : shared_(shared), worker_([this] { work(); }) {}
    ~HostStream()
    {
        give(nullptr);
        worker_.join();
    }

    void give(std::function<void()> job)
    {
        const std::scoped_lock lock(mutex_);
        jobs_.push_back(std::move(job));
        changed_.notify_all();
    }
    void wait()
    {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return jobs_.empty() || failure_; });
        if (failure_)
            std::rethrow_exception(failure_);
    }

private:
    void work()
    {
        std::unique_lock lock(mutex_);
        while (true) {
            changed_.wait(lock, [&] { return !jobs_.empty(); });
            const std::function<void()> job = jobs_.front();
            if (!job)
                return;
            lock.unlock();
            std::exception_ptr failure;
            try {
                job();
            } catch (...) {
                failure = std::current_exception();
                shared_.fail(failure);
            }
            lock.lock();
            jobs_.pop_front();
            if (failure && !failure_)
                failure_ = failure;
            changed_.notify_all();
        }
    }

    Shared& shared_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<std::function<void()>> jobs_;
    std::exception_ptr failure_;
    std::thread worker_;
};

template <class T>
std::vector<T> copy_of(std::span<const T> items)
{
    return {items.begin(), items.end()};
}

constexpr int stream_tag = 1; ///< the host's own collectives use another one

class HostDeviceComm final : public DeviceComm {
public:
    HostDeviceComm(std::unique_ptr<Comm> comm, DeviceGroup group)
        : DeviceComm(comm->size(), comm->rank()), comm_(std::move(comm)), link_(group == DeviceGroup::link)
    {
        agree(*comm_, 0); // until all have arrived
    }

    void exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives, void* stream) override
    {
        check_pieces(sends, receives);
        TRV_CHECK(!link_ && (connected_ & use_exchange), "an exchange that was not planned");
        give(stream, [comm = comm_, sends = copy_of(sends), receives = copy_of(receives)] {
            comm->exchange(sends, receives, stream_tag)->wait();
        });
    }
    void send(int to, ConstPiece piece, void* stream) override
    {
        check_peer(to);
        TRV_CHECK(!link_ || to == 1, "a link carries messages to its rank 1");
        give(stream, [comm = comm_, to, piece] { comm->send(to, 0, piece)->wait(); });
    }
    void receive(int from, Piece piece, void* stream) override
    {
        check_peer(from);
        TRV_CHECK(!link_ || from == 0, "a link carries messages from its rank 0");
        give(stream, [comm = comm_, from, piece] { comm->receive(from, 0, piece)->wait(); });
    }
    void collective(CollectiveKind kind, DType type, std::span<const DenseMove> moves, void* stream) override
    {
        TRV_CHECK(!link_ && (connected_ & use_of(kind)), "a collective that was not planned");
        give(stream, [comm = comm_, kind, type, moves = copy_of(moves)] {
            for (const DenseMove& move : moves)
                play(*comm, kind, type, move);
        });
    }
    void connect(u64 uses) override
    {
        TRV_CHECK(agree(*comm_, uses) == uses, "connected for different uses");
        connected_ |= uses;
    }
    void copy(std::span<const CopyBlock> blocks, void* stream) override
    {
        give(stream, [blocks = copy_of(blocks)] { copy_by_threads(blocks); });
    }
    void combine(const Combination& combination, void* stream) override
    {
        give(stream, [combination] { combine_by_threads(combination); });
    }
    void check() const override {}
    void abandon() override {}

private:
    static void give(void* stream, std::function<void()> job)
    {
        static_cast<HostStream*>(stream)->give(std::move(job));
    }

    /// Sums in another order than rank order: from the last to the first.
    static void play(Comm& comm, CollectiveKind kind, DType type, const DenseMove& move)
    {
        const Bytes bytes = move.count * size_of(type);
        const bool gathers = kind == CollectiveKind::all_gather;
        const auto *in_begin = static_cast<const std::byte*>(move.in),
                   *out_begin = static_cast<const std::byte*>(move.out);
        TRV_CHECK(!gathers || in_begin + bytes <= out_begin || in_begin >= out_begin + bytes * comm.size() ||
                      in_begin == out_begin + bytes * comm.rank(),
                  "a gather from another's part of its result");
        std::vector<std::byte> came(static_cast<std::size_t>(bytes * comm.size())),
            in(static_cast<std::size_t>(bytes * comm.size()));
        std::memcpy(
            in.data(), move.in,
            static_cast<std::size_t>(kind == CollectiveKind::reduce_scatter ? bytes * comm.size() : bytes));
        std::vector<ConstPiece> sends;
        std::vector<Piece> receives;
        std::vector<const std::byte*> parts;
        for (int r = 0; r < comm.size(); ++r) {
            sends.push_back({in.data() + (kind == CollectiveKind::reduce_scatter ? bytes * r : 0), bytes});
            receives.push_back(
                {gathers ? static_cast<std::byte*>(move.out) + bytes * r : came.data() + bytes * r, bytes});
            parts.insert(parts.begin(), came.data() + bytes * r);
        }
        comm.exchange(sends, receives, stream_tag)->wait();
        if (!gathers)
            combine_parts(type, Combine::sum, parts, static_cast<std::byte*>(move.out), move.count);
    }

    std::shared_ptr<Comm> comm_; ///< pending work of a stream keeps it alive too
    bool link_;
    u64 connected_ = 0;
};

class HostDevice final : public TestDevice, DeviceBackend {
public:
    explicit HostDevice(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

    std::shared_ptr<DeviceBackend> backend() override { return {std::shared_ptr<void>(), this}; }
    bool slow() const override { return shared_->slow; }
    std::string make_id() override
    {
        const std::scoped_lock lock(shared_->mutex);
        return std::to_string(++shared_->ids);
    }
    std::unique_ptr<DeviceComm> join(const std::string& id, int ranks, int rank, DeviceGroup group) override
    {
        if (ranks == 1)
            return std::make_unique<HostDeviceComm>(make_self_comm(), group);
        ++shared_->joined;
        std::vector<int> all(static_cast<std::size_t>(ranks));
        std::iota(all.begin(), all.end(), 0);
        return std::make_unique<HostDeviceComm>(
            make_thread_comm(shared_->mailbox(id, ranks), 0, rank, all, all), group);
    }

    void* stream(int number) override
    {
        std::unique_ptr<HostStream>& made = streams_[number];
        if (!made)
            made = std::make_unique<HostStream>(*shared_);
        return made.get();
    }
    void wait(int number) override { static_cast<HostStream*>(stream(number))->wait(); }
    std::shared_ptr<std::byte> allocate(Bytes bytes) override
    {
        constexpr std::align_val_t alignment{64};
        std::shared_ptr<std::byte> made{
            static_cast<std::byte*>(operator new(static_cast<std::size_t>(bytes), alignment)),
            [=](std::byte* data) { operator delete(data, alignment); }};
        return {made.get(),
                [shared = shared_, made](std::byte*) { // of a failing rank: a stream may still use it
                    const std::scoped_lock lock(shared->mutex);
                    if (std::uncaught_exceptions() > 0)
                        shared->left.push_back(made);
                }};
    }
    void write(std::byte* to, const std::vector<std::byte>& from, int number) override
    {
        static_cast<HostStream*>(stream(number))->give([to, from] {
            std::copy(from.begin(), from.end(), to);
        });
    }
    std::vector<std::byte> read(const std::byte* from, Bytes bytes) override { return {from, from + bytes}; }

private:
    std::shared_ptr<Shared> shared_;
    std::map<int, std::unique_ptr<HostStream>> streams_;
};

} // namespace

int run_on_devices(int ranks, const std::function<void(Comm&, TestDevice&)>& body, bool slow)
{
    const auto shared = std::make_shared<Shared>();
    shared->slow = slow;
    try {
        run_on_threads(ranks, [&](Comm& comm) {
            HostDevice device(shared);
            try {
                body(comm, device);
            } catch (...) { // before the device is destroyed, because its streams may wait for work that this
                            // rank will never do
                shared->fail(std::current_exception());
                throw;
            }
        });
    } catch (...) {
        if (shared->failure)
            std::rethrow_exception(shared->failure);
        throw;
    }
    return shared->joined;
}
