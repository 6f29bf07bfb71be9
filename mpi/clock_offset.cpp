#include "mpi/clock_offset.hpp"

#include "base/check.hpp"
#include "mpi/records.hpp"

#include <algorithm>

namespace trivium {

ClockOffset clock_offset(std::span<const RoundTrip> trips)
{
    TRV_EXPECT(!trips.empty(), "no round trip");
    const RoundTrip& fastest = *std::ranges::min_element(
        trips, [](const RoundTrip& a, const RoundTrip& b) { return a.end - a.begin < b.end - b.begin; });
    return {fastest.theirs - (fastest.begin + fastest.end) / 2, (fastest.end - fastest.begin) / 2};
}

std::vector<ClockOffset> clock_offsets(Comm& comm, const std::function<Seconds()>& clock)
{
    constexpr int count = 16, tag = 0; // on a loaded machine most trips are slow
    std::vector<ClockOffset> offsets(static_cast<std::size_t>(comm.size()));
    const auto send = [&](int to, auto& number) { comm.send(to, tag, as_piece(number))->wait(); };
    const auto receive = [&](int from, auto& number) { comm.receive(from, tag, as_piece(number))->wait(); };
    for (int rank = 1; rank < comm.size(); ++rank) {
        ClockOffset& offset = offsets[static_cast<std::size_t>(rank)];
        if (comm.rank() == rank) {
            Seconds time = 0;
            for (int i = 0; i < count; ++i) {
                receive(0, time);
                time = clock();
                send(0, time);
            }
            receive(0, offset);
        } else if (comm.rank() == 0) {
            std::vector<RoundTrip> trips(count);
            for (RoundTrip& trip : trips) {
                trip.begin = clock();
                send(rank, trip.begin);
                receive(rank, trip.theirs);
                trip.end = clock();
            }
            offset = clock_offset(trips);
            send(rank, offset);
        }
    }
    return offsets;
}

Seconds earliest_moment(Comm& comm, Seconds mine, const ClockOffset& own)
{
    return std::ranges::min(gather_records(comm, mine - own.offset)) + own.offset;
}

} // namespace trivium
