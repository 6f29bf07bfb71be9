#include "mpi/clock_offset.hpp"

#include "base/check.hpp"
#include "mpi/comm.hpp"

#include <algorithm>
#include <bit>

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
    const auto send = [&](int to, auto& number) {
        comm.send(to, tag, {reinterpret_cast<const std::byte*>(&number), sizeof number})->wait();
    };
    const auto receive = [&](int from, auto& number) {
        comm.receive(from, tag, {reinterpret_cast<std::byte*>(&number), sizeof number})->wait();
    };
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
    const Seconds by_first = mine - own.offset;
    Seconds earliest = by_first;
    for (const u64 bits : gather_numbers(comm, std::bit_cast<u64>(by_first)))
        earliest = std::min(earliest, std::bit_cast<Seconds>(bits));
    return earliest + own.offset;
}

} // namespace trivium
