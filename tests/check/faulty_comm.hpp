#pragma once
// A Comm that does to what arrives whatever a test wants, and ranks that are threads with it.
#include "check/run.hpp"

#include <map>

namespace trivium::faults {

/// What goes wrong on one rank. What arrived may be changed; `axis` is the group's ("world" of all ranks of a
/// training).
struct CommFaults {
    /// Of an exchange that belongs to a collective: the `turn`-th of its axis since the training began.
    std::function<void(const std::string& axis, i64 turn, std::span<const Piece> pieces)> exchanged;
    std::function<void(const std::string& axis, int from, int tag, const Piece& piece)> received;
    Mesh mesh; ///< of the training that comes next, so that groups get their names
};

/// `inner`, with the faults in it and in its groups. Both must outlive it.
std::unique_ptr<Comm> make_faulty_comm(Comm& inner, CommFaults& faults);

/// One rank of a check.
struct Rank {
    int rank = 0;
    CheckConfig config;
    RankFacts facts;
    CommFaults faults;
};

/// A check by threads of this process; `prepare` sets each of them up. Unless it says otherwise, every rank
/// has a core of its own, two share a node, and all are alike.
CheckReport check_on_threads(int ranks, const std::function<void(Rank&)>& prepare);

/// The collectives along `axis` of a step, in the order in which they start.
std::vector<const Op*> collectives_of(const Program& program, const std::string& axis);

} // namespace trivium::faults
