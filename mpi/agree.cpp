// Collectives for small values of the host.
#include "mpi/comm.hpp"
#include "mpi/records.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace trivium {

namespace {

template <class T>
ConstPiece piece_of(const T& value)
{
    return {reinterpret_cast<const std::byte*>(&value), static_cast<Bytes>(sizeof value)};
}

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
    const auto report = [](char kind, int status, const char* what) {
        return FailureReport{kind, status, what};
    };
    try {
        work();
        return {};
    } catch (const ThreadsFailed&) { // another rank has the cause
        throw;
    } catch (const UserError& error) {
        return report('u', error.exit_status(), error.what());
    } catch (const IoError& error) {
        return report('i', error.exit_status(), error.what());
    } catch (const InternalError& error) {
        return report('b', error.exit_status(), error.what());
    } catch (const Error& error) {
        return report('e', error.exit_status(), error.what());
    } catch (const std::bad_alloc&) {
        return report('i', 1, "out of memory\n  remedy: `trivium plan` shows what a run needs");
    } catch (const std::exception& error) {
        return report('b', 1, (std::string("internal error: ") + error.what()).c_str());
    }
}

} // namespace

namespace {

/// `number` and `numbers` must stay valid until it is done.
std::unique_ptr<Request> start_gathering(Comm& comm, const u64& number, std::vector<u64>& numbers)
{
    numbers.resize(static_cast<std::size_t>(comm.size()));
    const std::vector<ConstPiece> sends(numbers.size(), piece_of(number));
    std::vector<Piece> receives;
    for (u64& each : numbers)
        receives.push_back({reinterpret_cast<std::byte*>(&each), sizeof each});
    return comm.exchange(sends, receives);
}

} // namespace

std::vector<u64> gather_numbers(Comm& comm, u64 number)
{
    std::vector<u64> numbers;
    start_gathering(comm, number, numbers)->wait();
    return numbers;
}

std::vector<std::string> gather_texts(Comm& comm, const std::string& text)
{
    const auto ranks = static_cast<std::size_t>(comm.size());
    const std::vector<u64> sizes = gather_numbers(comm, text.size());
    std::vector<std::string> texts(ranks);
    const std::vector<ConstPiece> sends(
        ranks, {reinterpret_cast<const std::byte*>(text.data()), static_cast<Bytes>(text.size())});
    std::vector<Piece> receives;
    for (std::size_t r = 0; r < ranks; ++r) {
        texts[r].resize(sizes[r]);
        receives.push_back({reinterpret_cast<std::byte*>(texts[r].data()), static_cast<Bytes>(sizes[r])});
    }
    comm.exchange(sends, receives)->wait();
    return texts;
}

std::vector<std::string> gather_to_first(Comm& comm, const std::string& text)
{
    const std::vector<u64> sizes = gather_numbers(comm, text.size());
    std::vector<std::string> texts(sizes.size());
    std::vector<ConstPiece> sends(sizes.size());
    std::vector<Piece> receives(sizes.size());
    sends[0] = {reinterpret_cast<const std::byte*>(text.data()), static_cast<Bytes>(text.size())};
    for (std::size_t r = 0; comm.rank() == 0 && r < sizes.size(); ++r) {
        texts[r].resize(sizes[r]);
        receives[r] = {reinterpret_cast<std::byte*>(texts[r].data()), static_cast<Bytes>(texts[r].size())};
    }
    comm.exchange(sends, receives)->wait();
    return texts;
}

Agreement::Agreement(Comm& comm, u64 flags) : own_(flags), request_(start_gathering(comm, own_, flags_)) {}

u64 Agreement::wait()
{
    request_->wait();
    u64 any = 0;
    for (const u64 each : flags_)
        any |= each;
    return any;
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
