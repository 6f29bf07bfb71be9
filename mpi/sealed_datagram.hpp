#pragma once
// Datagrams that only ranks of one run can make: each has the hash, under a key that never travels with them,
// of its sender, its receiver, a counter and its text.
#include "mpi/siphash.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium {

struct OpenedDatagram {
    int from = 0;
    std::string text{};
};

/// A datagram is the receiver's address tag (8 bytes), the hash (8), the counter (8), the sender (4), the
/// text.
///
/// The tag is plain: whoever reads a datagram knows its receiver's tag. It keeps off strangers who flood a
/// receiver whose datagrams they cannot read, before any hash is computed; the hash alone says what is true.
class SealedDatagrams {
public:
    static constexpr std::size_t header = 28; ///< bytes

    /// Of rank `rank` among `ranks`, which all have this key.
    SealedDatagrams(const SipKey& key, int rank, int ranks);

    /// What to send to rank `to`: a new one at each call. The receiver takes it once.
    std::string seal(int to, std::string_view text);
    /// The message of what has arrived, unless it is forged, cut, for another rank, or no newer than one of
    /// that sender that was taken before.
    std::optional<OpenedDatagram> open(std::string_view datagram);
    /// What each datagram to `rank` begins with, as it lies in memory.
    std::string tag_of(int rank) const;

private:
    u64 hash(int from, int to, u64 counter, std::string_view text) const;

    SipKey key_;
    int rank_;
    u64 sent_ = 0;
    std::vector<u64> taken_; ///< the last counter of each sender; 0: none
};

} // namespace trivium
