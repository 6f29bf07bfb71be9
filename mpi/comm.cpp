#include "mpi/comm.hpp"

#include <algorithm>

namespace trivium {

int Comm::place_among(const std::vector<int>& members) const
{
    const auto own = std::find(members.begin(), members.end(), rank());
    TRV_CHECK(own != members.end(), "rank ", rank(), " is no member of its new group");
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
