// Collectives for small values of the host.
#include "base/address_space.hpp"
#include "mpi/comm.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace trivium {

namespace {

/// An error's kind with the text of another rank.
template <class Kind>
class AgreedError final : public Kind, public Agreed {
public:
    template <class... Args>
    AgreedError(const std::string& text, const Comm& comm, const Args&... args)
        : Kind(args...), Agreed(comm.rank(), comm.size()), text_(text)
    {
    }
    const char* what() const noexcept override { return text_.c_str(); }

private:
    std::string text_;
};

/// An error of a rank; kind 0: none.
struct FailureReport {
    char kind = 0; ///< 'u'ser, 'i'o, 'b'ug, other 'e'rror
    int status = 0;
    std::string text;
    bool operator==(const FailureReport&) const = default;
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FailureReport, kind, status, text)

FailureReport run_and_report(const std::function<void()>& work)
{
    try {
        work();
        return {};
    } catch (const ThreadsFailed&) { // another rank has the cause
        throw;
    } catch (const UserError& error) {
        return {'u', error.exit_status(), error.what()};
    } catch (const IoError& error) {
        return {'i', error.exit_status(), error.what()};
    } catch (const InternalError& error) {
        return {'b', error.exit_status(), error.what()};
    } catch (const Error& error) {
        return {'e', error.exit_status(), error.what()};
    } catch (const std::bad_alloc&) {
        return {'i', 1, "out of memory\n  remedy: `trivium plan` shows what a run needs"};
    } catch (const std::exception& error) {
        return {'b', 1, describe_exception(error)};
    }
}

Piece piece_of_text(std::string& text)
{
    return {reinterpret_cast<std::byte*>(text.data()), static_cast<Bytes>(text.size())};
}

/// Texts in one: the size of each in 8 bytes, then the text.
void append(std::string& bundle, const std::string& text)
{
    u64 size = text.size();
    bundle.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
}

std::vector<std::string> texts_in(const std::string& bundle)
{
    std::vector<std::string> texts;
    for (std::size_t at = 0; at < bundle.size();) {
        u64 size = 0;
        std::memcpy(&size, bundle.data() + at, sizeof size);
        texts.push_back(bundle.substr(at + sizeof size, size));
        at += sizeof size + size;
    }
    return texts;
}

void send_text(Comm& comm, int to, std::string& text)
{
    u64 size = text.size();
    const auto first = comm.send(to, Comm::control_tag, as_piece(size));
    comm.send(to, Comm::control_tag, piece_of_text(text))->wait();
    first->wait();
}

std::string receive_text(Comm& comm, int from)
{
    u64 size = 0;
    comm.receive(from, Comm::control_tag, as_piece(size))->wait();
    std::string text(size, '\0');
    comm.receive(from, Comm::control_tag, piece_of_text(text))->wait();
    return text;
}

/// On rank 0 the texts of all, in rank order. A binomial tree: MPI_Gatherv receives from all ranks at the
/// root, and needs their sizes before.
std::string gather_bundle(Comm& comm, const std::string& text)
{
    std::string bundle; // of the ranks from this one on
    append(bundle, text);
    for (int step = 1; step < comm.size(); step *= 2) {
        if ((comm.rank() & step) != 0) {
            send_text(comm, comm.rank() - step, bundle);
            return "";
        }
        if (comm.rank() + step < comm.size())
            bundle += receive_text(comm, comm.rank() + step);
    }
    return bundle;
}

} // namespace

std::string share_text(Comm& comm, const std::string& text)
{
    u64 size = text.size();
    comm.broadcast(as_piece(size))->wait();
    std::string shared = comm.rank() == 0 ? text : std::string(size, '\0');
    comm.broadcast(piece_of_text(shared))->wait();
    return shared;
}

std::vector<std::string> gather_to_first(Comm& comm, const std::string& text)
{
    return texts_in(gather_bundle(comm, text));
}

std::vector<std::string> gather_texts(Comm& comm, const std::string& text)
{
    return texts_in(share_text(comm, gather_bundle(comm, text)));
}

u64 agree(Comm& comm, u64 flags) { return Agreement(comm, flags).wait(); }

void succeed_together(Comm& comm, const std::function<void()>& work)
{
    const FailureReport own = run_and_report(work);
    if (agree(comm, own.kind == 0 ? 0 : 1) == 0)
        return;
    const std::vector<FailureReport> reports = gather_records(comm, own);
    std::size_t rank = 0;
    while (reports[rank].kind == 0)
        ++rank;
    const char kind = reports[rank].kind;
    // An error that all ranks share (a wrong key) names no rank.
    const bool all_alike =
        std::all_of(reports.begin(), reports.end(), [&](const FailureReport& r) { return r == reports[0]; });
    const std::string text =
        (all_alike ? "" : str("rank ", comm.world_ranks()[rank], ": ")) + reports[rank].text;
    if (kind == 'u')
        throw AgreedError<UserError>(text, comm, Diagnostic{});
    if (kind == 'i')
        throw AgreedError<IoError>(text, comm, Diagnostic{});
    if (kind == 'b')
        throw AgreedError<InternalError>(text, comm, "", 0, "");
    throw AgreedError<Error>(text, comm, text, reports[rank].status);
}

} // namespace trivium
