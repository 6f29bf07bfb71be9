#pragma once
// Whether a run hangs, and by whose fault, from what its ranks say of themselves.
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

/// What is known of a rank.
struct RankNews {
    Seconds silent = 0;  ///< since it was last heard
    Seconds stalled = 0; ///< without progress, as far as is known
    bool heard = true;   ///< at all, since the beginning
    bool left = false;   ///< it said that it has ended its work
    std::string node{};
    std::string phase{}; ///< of the run, such as "step 12"
    std::string piece{}; ///< of the phase's work; may be empty
    std::string waits{}; ///< for whom; empty: it works
};

enum class Health {
    fine,
    deaf, ///< the run gets on, though some rank is not heard: datagrams do not pass
    slow, ///< some rank works at one thing for longer than the limit, and the others wait for it
    hung  ///< a rank is silent, all wait for each other, or the slow one takes many times the limit
};

struct Diagnosis {
    Health health = Health::fine;
    std::string cause{};              ///< one line
    std::vector<std::string> ranks{}; ///< a line for each group of ranks that are at the same, at most 20
};

/// "rank 3 (n2): waits for rank 4 in step 7, send over pipeline of x, for 31 s".
std::string describe_rank(int rank, const RankNews& news, Seconds limit);

/// `news` by rank; `limit`: job.watchdog. A run in which any rank gets on does not hang: ranks wait for each
/// other at every step. A rank that was never heard is taken to work. One that works hangs after
/// `much_longer` times the limit, alive or not.
Diagnosis diagnose(const std::vector<RankNews>& news, Seconds limit, double much_longer = 20);

} // namespace trivium
