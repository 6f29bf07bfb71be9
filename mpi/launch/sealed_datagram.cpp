#include "mpi/launch/sealed_datagram.hpp"

#include <cstdint>
#include <cstring>

namespace trivium {

namespace {

template <class Number>
std::string bytes_of(Number number)
{
    return {reinterpret_cast<const char*>(&number), sizeof number};
}

template <class Number>
Number number_at(std::string_view bytes, std::size_t at)
{
    Number number = 0;
    std::memcpy(&number, bytes.data() + at, sizeof number);
    return number;
}

} // namespace

SealedDatagrams::SealedDatagrams(const SipKey& key, int rank, int ranks)
    : key_(key), rank_(rank), taken_(static_cast<std::size_t>(ranks))
{
}

std::string SealedDatagrams::tag_of(int rank) const
{
    return bytes_of(siphash(key_, "tag" + bytes_of(std::int32_t{rank})));
}

u64 SealedDatagrams::hash(int from, int to, u64 counter, std::string_view text) const
{
    std::string all = "text" + bytes_of(std::int32_t{from}) + bytes_of(std::int32_t{to}) + bytes_of(counter);
    return siphash(key_, all.append(text));
}

std::string SealedDatagrams::seal(int to, std::string_view text)
{
    const u64 counter = ++sent_;
    std::string datagram = tag_of(to) + bytes_of(hash(rank_, to, counter, text)) + bytes_of(counter) +
                           bytes_of(std::int32_t{rank_});
    return datagram.append(text);
}

std::optional<OpenedDatagram> SealedDatagrams::open(std::string_view datagram)
{
    if (datagram.size() < header)
        return std::nullopt;
    const auto given = number_at<u64>(datagram, 8), counter = number_at<u64>(datagram, 16);
    const auto from = number_at<std::int32_t>(datagram, 24);
    const std::string_view text = datagram.substr(header);
    if (from < 0 || static_cast<std::size_t>(from) >= taken_.size() ||
        counter <= taken_[static_cast<std::size_t>(from)] || given != hash(from, rank_, counter, text))
        return std::nullopt;
    taken_[static_cast<std::size_t>(from)] = counter;
    return OpenedDatagram{from, std::string(text)};
}

} // namespace trivium
