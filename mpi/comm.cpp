#include "mpi/comm.hpp"

#include <algorithm>
#include <cstring>

namespace trivium {

void Comm::keep_own(std::span<const ConstPiece> sends, std::span<const Piece> receives, int tag) const
{
    const auto ranks = static_cast<std::size_t>(size()), own = static_cast<std::size_t>(rank());
    TRV_CHECK(sends.size() == ranks && receives.size() == ranks, "an exchange of ", sends.size(), " and ",
              receives.size(), " pieces between ", ranks);
    TRV_CHECK(tag >= 0 && tag < exchange_tags, "tag ", tag);
    TRV_CHECK(sends[own].bytes == receives[own].bytes, "a rank's own pieces differ in size");
    if (sends[own].bytes > 0)
        std::memmove(receives[own].data, sends[own].data, static_cast<std::size_t>(sends[own].bytes));
}

void Comm::check_peer(int peer, int tag) const
{
    TRV_CHECK(peer >= 0 && peer < size() && tag >= 0 && tag < message_tags, "rank ", peer, ", tag ", tag);
}

int Comm::place_among(const std::vector<int>& members) const
{
    const auto own = std::find(members.begin(), members.end(), rank());
    TRV_CHECK(own != members.end(), "rank ", rank(), " is not a member of its new group");
    TRV_CHECK(std::adjacent_find(members.begin(), members.end(), std::greater_equal<>()) == members.end() &&
                  members.front() >= 0 && members.back() < size(),
              "members of a group that are not ascending ranks of ", size());
    return static_cast<int>(own - members.begin());
}

std::vector<int> Comm::in_world(const std::vector<int>& members) const
{
    std::vector<int> ranks;
    for (const int member : members)
        ranks.push_back(world_ranks()[static_cast<std::size_t>(member)]);
    return ranks;
}

} // namespace trivium
