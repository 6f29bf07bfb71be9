#include "mpi/mpi_comm.hpp"

#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/words.hpp"
#include "mpi/patient_wait.hpp"

#include <algorithm>
#include <exception>
#include <mpi.h>
#include <numeric>

namespace trivium {

namespace {

/// MPI counts bytes in an int: longer pieces are sent as several messages, which stay in order.
constexpr Bytes longest_message = Bytes{1} << 30;

/// For the watchdog: a call of MPI that does not return (a foreign process holds a connection open) is a hang
/// and not a long computation.
class InMpi {
public:
    explicit InMpi(const char* call) { Activity::of_process().calls(call); }
    InMpi(const InMpi&) = delete;
    InMpi& operator=(const InMpi&) = delete;
    ~InMpi() { Activity::of_process().calls(nullptr); }
};

class MpiRequest final : public Request {
public:
    MpiRequest(MPI_Comm comm, const std::vector<int>& world_ranks, std::size_t pieces)
        : comm_(comm), world_ranks_(world_ranks)
    {
        requests_.reserve(pieces);
        expected_.reserve(pieces);
        peers_.reserve(pieces);
    }

    void send(int to, int tag, ConstPiece piece)
    {
        const InMpi in("MPI_Isend");
        for (Bytes at = 0; at < piece.bytes; at += longest_message) {
            expected_.push_back(-1);
            peers_.push_back(to);
            check_mpi(MPI_Isend(piece.data + at, count(piece.bytes, at), MPI_BYTE, to, tag, comm_, next()),
                      "MPI_Isend");
        }
    }
    void receive(int from, int tag, Piece piece)
    {
        const InMpi in("MPI_Irecv");
        for (Bytes at = 0; at < piece.bytes; at += longest_message) {
            expected_.push_back(count(piece.bytes, at));
            peers_.push_back(from);
            check_mpi(MPI_Irecv(piece.data + at, expected_.back(), MPI_BYTE, from, tag, comm_, next()),
                      "MPI_Irecv");
        }
    }

    /// Of the message that begins at `at`.
    static int count(Bytes bytes, Bytes at)
    {
        return static_cast<int>(std::min(longest_message, bytes - at));
    }
    /// For a collective of MPI, which waits for any member.
    MPI_Request* collective()
    {
        expected_.push_back(-1);
        peers_.push_back(anyone);
        return next();
    }

    bool test() override
    {
        if (requests_.empty())
            return true;
        const InMpi in("MPI_Testall");
        int over = 0;
        statuses_.resize(requests_.size());
        const int code =
            MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &over, statuses_.data());
        if (code == MPI_ERR_IN_STATUS)
            for (const MPI_Status& status : statuses_)
                if (status.MPI_ERROR != MPI_ERR_PENDING)
                    check_mpi(status.MPI_ERROR, "MPI_Testall");
        check_mpi(code, "MPI_Testall");
        if (over)
            settle();
        return over != 0;
    }
    /// MPI_Wait would occupy the core, which another rank on the same core may need.
    void wait() override
    {
        PatientWait patience;
        for (int tries = 0; !test(); ++tries)
            if (tries >= 100)
                patience.yield([this] { return waits_for(); });
    }
    std::vector<int> waits_for() const override
    {
        std::vector<int> ranks;
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            int over = 0;
            check_mpi(MPI_Request_get_status(requests_[i], &over, MPI_STATUS_IGNORE),
                      "MPI_Request_get_status");
            if (over == 0 && peers_[i] == anyone)
                return others();
            if (over == 0)
                ranks.push_back(world_ranks_[static_cast<std::size_t>(peers_[i])]);
        }
        return ranks;
    }

private:
    static constexpr int anyone = -1;

    std::vector<int> others() const
    {
        int own = 0;
        check_mpi(MPI_Comm_rank(comm_, &own), "MPI_Comm_rank");
        std::vector<int> ranks = world_ranks_;
        ranks.erase(ranks.begin() + own);
        return ranks;
    }
    MPI_Request* next() { return &requests_.emplace_back(MPI_REQUEST_NULL); }

    /// Checks the sizes of the received messages.
    void settle()
    {
        for (std::size_t i = 0; i < requests_.size(); ++i) {
            int received = -1;
            if (expected_[i] >= 0)
                check_mpi(MPI_Get_count(&statuses_[i], MPI_BYTE, &received), "MPI_Get_count");
            TRV_CHECK(received == expected_[i], "received ", received, " bytes instead of ", expected_[i]);
        }
        requests_.clear();
        Activity::of_process().advance();
    }

    MPI_Comm comm_;
    const std::vector<int>& world_ranks_;
    std::vector<MPI_Request> requests_; ///< empty once all are done
    std::vector<int> peers_;            ///< by request
    std::vector<int> expected_;         ///< bytes of a receive, by request; -1 for a send
    std::vector<MPI_Status> statuses_;
};

class MpiComm final : public Comm {
public:
    /// Owns `comm`.
    MpiComm(MPI_Comm comm, int rank, std::vector<int> world_ranks)
        : Comm(rank, std::move(world_ranks)), comm_(comm)
    {
        check_mpi(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    }
    ~MpiComm() override
    {
        if (std::uncaught_exceptions() == 0) // otherwise the other members may never free it
            MPI_Comm_free(&comm_);
    }

    std::unique_ptr<Request> exchange(std::span<const ConstPiece> sends, std::span<const Piece> receives,
                                      int tag) override
    {
        keep_own(sends, receives, tag);
        const auto ranks = static_cast<std::size_t>(size());
        auto request = std::make_unique<MpiRequest>(comm_, world_ranks(), 2 * ranks);
        // Receives first, so that messages arrive in place; each rank starts with another peer.
        for (int i = 1; i < size(); ++i) {
            const int from = (rank() + size() - i) % size();
            request->receive(from, message_tags + tag, receives[static_cast<std::size_t>(from)]);
        }
        for (int i = 1; i < size(); ++i) {
            const int to = (rank() + i) % size();
            request->send(to, message_tags + tag, sends[static_cast<std::size_t>(to)]);
        }
        return request;
    }

    std::unique_ptr<Request> send(int to, int tag, ConstPiece piece) override
    {
        check_peer(to, tag);
        auto request = std::make_unique<MpiRequest>(comm_, world_ranks(), 1);
        request->send(to, tag, piece);
        return request;
    }
    std::unique_ptr<Request> receive(int from, int tag, Piece piece) override
    {
        check_peer(from, tag);
        auto request = std::make_unique<MpiRequest>(comm_, world_ranks(), 1);
        request->receive(from, tag, piece);
        return request;
    }

    std::unique_ptr<Request> any(u64& flags) override
    {
        const InMpi in("MPI_Iallreduce");
        auto request = std::make_unique<MpiRequest>(comm_, world_ranks(), 1);
        check_mpi(
            MPI_Iallreduce(MPI_IN_PLACE, &flags, 1, MPI_UINT64_T, MPI_BOR, comm_, request->collective()),
            "MPI_Iallreduce");
        return request;
    }
    std::unique_ptr<Request> broadcast(Piece piece) override
    {
        const InMpi in("MPI_Ibcast");
        auto request = std::make_unique<MpiRequest>(comm_, world_ranks(), 1);
        for (Bytes at = 0; at < piece.bytes; at += longest_message)
            check_mpi(MPI_Ibcast(piece.data + at, MpiRequest::count(piece.bytes, at), MPI_BYTE, 0, comm_,
                                 request->collective()),
                      "MPI_Ibcast");
        return request;
    }

    std::unique_ptr<Comm> subgroup(const std::vector<int>& members) override
    {
        const int place = place_among(members);
        const bool alone = members.size() == 1;
        MPI_Comm group = MPI_COMM_NULL;
        check_mpi(MPI_Comm_split(comm_, alone ? MPI_UNDEFINED : members.front(), place, &group),
                  "MPI_Comm_split");
        if (alone)
            return make_self_comm(world_ranks()[static_cast<std::size_t>(rank())]);
        int ranks = 0;
        check_mpi(MPI_Comm_size(group, &ranks), "MPI_Comm_size");
        TRV_CHECK(ranks == static_cast<int>(members.size()), "ranks disagree on the members of a group");
        return std::make_unique<MpiComm>(group, place, in_world(members));
    }

private:
    MPI_Comm comm_;
};

} // namespace

void check_mpi(int code, const char* call)
{
    if (code == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(code, text, &length);
    throw IoError({"MPI", str(call, " failed"), text, "check the launcher and the network"});
}

namespace {

/// Owns `comm`; its ranks are world ranks.
std::unique_ptr<Comm> as_world(MPI_Comm comm)
{
    int rank = 0, ranks = 1;
    check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(comm, &ranks), "MPI_Comm_size");
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    return std::make_unique<MpiComm>(comm, rank, std::move(all));
}

} // namespace

std::unique_ptr<Comm> make_mpi_world(const std::string& node)
{
    int runs = 0;
    TRV_EXPECT(MPI_Initialized(&runs) == MPI_SUCCESS && runs != 0, "MPI is not initialised");
    MPI_Comm world = MPI_COMM_NULL;
    check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &world), "MPI_Comm_dup");
    std::unique_ptr<Comm> given = as_world(world);
    const std::vector<int> places = numbers_of(gather_texts(*given, node));
    if (std::is_sorted(places.begin(), places.end()))
        return given;
    MPI_Comm sorted = MPI_COMM_NULL; // ranks with equal keys stay in order
    check_mpi(MPI_Comm_split(world, 0, places[static_cast<std::size_t>(given->rank())], &sorted),
              "MPI_Comm_split");
    return as_world(sorted);
}

} // namespace trivium
