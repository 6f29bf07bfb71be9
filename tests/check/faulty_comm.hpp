#pragma once
// A Comm that injects faults into received data, and ranks as threads that use it.
#include "check/run.hpp"

#include <map>

namespace trivium::faults {

/// The faults of one rank. They may change received data; `axis` is that of the group ("world" for all ranks
/// of a training).
struct CommFaults {
    /// Of an exchange that belongs to a collective: the `turn`-th of its axis since the training began.
    std::function<void(const std::string& axis, i64 turn, std::span<const Piece> pieces)> exchanged;
    std::function<void(const std::string& axis, int from, int tag, const Piece& piece)> received;
    Mesh mesh; ///< of the next training, for the names of groups
};

/// `inner` with faults in it and in its groups. Both arguments must outlive it.
std::unique_ptr<Comm> make_faulty_comm(Comm& inner, CommFaults& faults);

/// One rank of a check.
struct Rank {
    int rank = 0;
    CheckConfig config;
    RankFacts facts;
    CommFaults faults;
};

/// A check with ranks as threads of this process; `prepare` sets each of them up. By default every rank has
/// its own core, two ranks share a node, and all ranks are equal.
CheckReport check_on_threads(int ranks, const std::function<void(Rank&)>& prepare);

/// The collectives along `axis` of a step, in the order in which they start.
std::vector<const Op*> collectives_of(const Program& program, const std::string& axis);

} // namespace trivium::faults
