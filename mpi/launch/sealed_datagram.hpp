#pragma once
// Authenticated datagrams: each has a keyed hash of its sender, receiver, counter and text. Only the ranks of
// the run know the key, which is never part of a datagram.
#include "mpi/launch/siphash.hpp"

#include <optional>
#include <string>
#include <vector>

namespace trivium {

struct OpenedDatagram {
    int from = 0;
    std::string text{};
};

/// Format: the receiver's address tag (8 bytes), the hash (8), the counter (8), the sender (4), the text.
///
/// The tag is not secret to anyone who can read a datagram: it only filters floods from others cheaply,
/// before a hash is computed. The hash alone authenticates.
class SealedDatagrams {
public:
    static constexpr std::size_t header = 28; ///< bytes

    /// For rank `rank` of `ranks` ranks, which all have this key.
    SealedDatagrams(const SipKey& key, int rank, int ranks);

    /// A datagram for rank `to`, with a new counter at each call. The receiver accepts it once.
    std::string seal(int to, std::string_view text);
    /// Sender and text of a datagram; nullopt if it is forged, truncated, for another rank, or not newer than
    /// the last accepted datagram of its sender.
    std::optional<OpenedDatagram> open(std::string_view datagram);
    /// The first bytes of each datagram to `rank`.
    std::string tag_of(int rank) const;

private:
    u64 hash(int from, int to, u64 counter, std::string_view text) const;

    SipKey key_;
    int rank_;
    u64 sent_ = 0;
    std::vector<u64> taken_; ///< last accepted counter of each sender; 0: none
};

} // namespace trivium
