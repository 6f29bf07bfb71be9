#pragma once
// Decides from the reports of all ranks whether a run hangs, and which ranks cause it.
#include "base/units.hpp"

#include <string>
#include <vector>

namespace trivium {

/// The last report of a rank.
struct RankReport {
    Seconds silent = 0;  ///< since its last heartbeat
    Seconds stalled = 0; ///< without progress, as far as known
    bool heard = true;   ///< at least one heartbeat arrived
    bool left = false;   ///< it reported that its work is done; such a rank is ignored
    std::string node{};
    std::string phase{}; ///< of the run, such as "step 12"
    std::string piece{}; ///< the operation within the phase; may be empty
    std::string waits{}; ///< the ranks that it waits for; empty: it computes
    std::string call{};  ///< a library call that should return at once, but has not returned; empty: none
};

enum class Health {
    fine,
    heartbeats_lost, ///< the run makes progress, but heartbeats of some ranks do not arrive: datagrams are
                     ///< blocked
    slow,            ///< some rank takes longer than the limit for one operation, and the others wait for it
    hung             ///< a rank is silent, no rank computes, or the slow one takes many times the limit
};

struct Diagnosis {
    Health health = Health::fine;
    std::string cause{};              ///< one line
    std::vector<std::string> ranks{}; ///< one line per group of ranks in one state; at most 20, then a count
};

/// "rank 3 (n2): waits for rank 4 in step 7, send over pipeline of x, for 31 s".
std::string describe_rank(int rank, const RankReport& report, Seconds limit);

/// `reports` by rank; `limit`: job.watchdog. As long as one rank makes progress the run does not hang,
/// because ranks wait for each other in every step. A rank without any heartbeat counts as computing. A rank
/// that computes counts as hung after `much_longer` times the limit.
Diagnosis diagnose(const std::vector<RankReport>& reports, Seconds limit, double much_longer = 20);

} // namespace trivium
