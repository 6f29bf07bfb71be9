// Links, pair by pair in rounds: latency, bandwidth, and whether each byte arrives unchanged.
#include "base/activity.hpp"
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/rng.hpp"
#include "check/rates.hpp"

#include <cstring>
#include <fstream>
#include <optional>

namespace trivium {

namespace {

/// Round-robin tournament of 0 … players - 1 by the circle method: one stays, the others rotate.
std::vector<std::vector<RankPair>> tournament(int players)
{
    const int seats = players + players % 2; // with an odd number, one waits
    std::vector<std::vector<RankPair>> rounds;
    if (players < 2)
        return rounds;
    for (int round = 0; round + 1 < seats; ++round) {
        rounds.emplace_back();
        for (int i = 0; i < seats / 2; ++i) {
            const int a = i == 0 ? seats - 1 : (round + i) % (seats - 1),
                      b = (round + seats - 1 - i) % (seats - 1);
            if (std::max(a, b) < players)
                rounds.back().push_back({std::min(a, b), std::max(a, b)});
        }
    }
    return rounds;
}

/// At most `most` rounds, spread evenly.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, std::size_t most)
{
    std::vector<T> chosen;
    const std::size_t count = std::min(all.size(), most);
    for (std::size_t i = 0; i < count; ++i)
        chosen.push_back(all[i * all.size() / count]);
    return chosen;
}

constexpr i64 words_of_message = i64{1} << 18; ///< 2 MiB

/// The message from `from` to `to`: random words, each plus its index, so that no two parts are equal.
std::vector<u64> message(int from, int to)
{
    constexpr std::size_t period = 4096;
    const RandomStream stream(static_cast<u64>(from) << 32 | static_cast<u64>(to), "check link");
    std::vector<u64> words(words_of_message);
    for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = i < period ? stream.bits_at(i) : words[i - period] + i;
    return words;
}

/// CPU time and waiting time of this thread; nullopt if the kernel does not provide them.
std::optional<Seconds> time_kept_waiting()
{
    double ran = 0, waited = 0; // in ns
    std::ifstream file("/proc/thread-self/schedstat");
    return file >> ran >> waited ? std::optional(1e-9 * waited) : std::nullopt;
}

class Pair {
public:
    Pair(const CheckGround& ground, int other)
        : ground_(ground), other_(other), begins_(ground.world.rank() < other),
          send_(message(ground.world.rank(), other)), receive_(send_.size()),
          expected_(message(other, ground.world.rank()))
    {
    }

    LinkRate measure(std::string& wrong)
    {
        constexpr int trips = 20, messages = 4;
        constexpr Bytes small = sizeof(u64), large = words_of_message * small;
        LinkRate link;
        link.a = std::min(ground_.world.rank(), other_);
        link.b = std::max(ground_.world.rank(), other_);
        link.latency = 1e300;
        const Seconds start = now();
        const std::optional<Seconds> waited = time_kept_waiting();
        for (int i = 0; i < trips; ++i) {
            const Seconds begin = now();
            if (begins_)
                send(small)->wait();
            receive(small)->wait();
            if (!begins_)
                send(small)->wait();
            ground_.timed("latency");
            link.latency = std::min(link.latency, (now() - begin) / 2);
            verify(small, wrong);
        }
        for (int i = 0; i < messages; ++i) {
            std::memset(receive_.data(), 0, static_cast<std::size_t>(large));
            const Seconds begin = now();
            const auto in = receive(large), out = send(large);
            in->wait();
            out->wait();
            ground_.timed("link");
            link.bytes_per_second =
                std::max(link.bytes_per_second, static_cast<double>(large) / (now() - begin));
            verify(large, wrong);
        }
        if (const std::optional<Seconds> then = time_kept_waiting(); then && waited)
            link.cpu_share = std::max(0.0, 1 - (*then - *waited) / (now() - start));
        return link;
    }

private:
    static constexpr int tag = 1;
    std::unique_ptr<Request> send(Bytes bytes)
    {
        return ground_.world.send(other_, tag, {reinterpret_cast<const std::byte*>(send_.data()), bytes});
    }
    std::unique_ptr<Request> receive(Bytes bytes)
    {
        return ground_.world.receive(other_, tag, {reinterpret_cast<std::byte*>(receive_.data()), bytes});
    }
    void verify(Bytes bytes, std::string& wrong)
    {
        const auto* got = reinterpret_cast<const std::byte*>(receive_.data());
        const auto* want = reinterpret_cast<const std::byte*>(expected_.data());
        if (!wrong.empty() || std::memcmp(got, want, static_cast<std::size_t>(bytes)) == 0)
            return;
        Bytes at = 0, count = 0;
        for (Bytes i = bytes; i-- > 0;)
            if (got[i] != want[i]) {
                at = i;
                ++count;
            }
        wrong = str(count, " of ", bytes, " bytes from rank ", other_, " arrived changed; the first at ", at,
                    " (", std::hex, std::to_integer<int>(got[at]), " instead of ",
                    std::to_integer<int>(want[at]), ")");
    }

    const CheckGround& ground_;
    int other_;
    bool begins_;
    std::vector<u64> send_, receive_, expected_;
};

} // namespace

void keep_best(LinkRate& best, const LinkRate& again)
{
    best.bytes_per_second = std::max(best.bytes_per_second, again.bytes_per_second);
    best.latency = std::min(best.latency, again.latency);
    best.cpu_share = std::max(best.cpu_share, again.cpu_share);
}

std::vector<std::vector<RankPair>> link_rounds(const std::vector<int>& node_of_rank, std::size_t most)
{
    std::vector<std::vector<int>> nodes;
    for (std::size_t rank = 0; rank < node_of_rank.size(); ++rank) {
        const auto node = static_cast<std::size_t>(node_of_rank[rank]);
        nodes.resize(std::max(nodes.size(), node + 1));
        nodes[node].push_back(static_cast<int>(rank));
    }
    std::vector<std::vector<RankPair>> within;
    for (const std::vector<int>& ranks : nodes) {
        const auto rounds = some_of(tournament(static_cast<int>(ranks.size())), most);
        within.resize(std::max(within.size(), rounds.size()));
        for (std::size_t round = 0; round < rounds.size(); ++round)
            for (const RankPair& pair : rounds[round])
                within[round].push_back(
                    {ranks[static_cast<std::size_t>(pair.a)], ranks[static_cast<std::size_t>(pair.b)]});
    }
    std::vector<std::vector<RankPair>> all = within;
    for (const std::vector<RankPair>& round : some_of(tournament(static_cast<int>(nodes.size())), most)) {
        all.emplace_back();
        for (const RankPair& pair : round) {
            const std::vector<int>&a = nodes[static_cast<std::size_t>(pair.a)],
                  &b = nodes[static_cast<std::size_t>(pair.b)];
            for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
                all.back().push_back({std::min(a[i], b[i]), std::max(a[i], b[i])});
        }
    }
    return all;
}

std::vector<LinkRate> measure_links(const CheckGround& ground,
                                    const std::vector<std::vector<RankPair>>& rounds, int repeats,
                                    std::vector<std::string>& wrong)
{
    const int rank = ground.world.rank();
    std::vector<LinkRate> links;
    for (int repeat = 0; repeat < repeats; ++repeat)
        for (const std::vector<RankPair>& round : rounds) {
            const auto own =
                std::ranges::find_if(round, [&](const RankPair& p) { return p.a == rank || p.b == rank; });
            std::optional<Pair> pair;
            if (own != round.end())
                pair.emplace(ground, own->a == rank ? own->b : own->a);
            Activity::of_process().enter(pair ? str("the link to rank ", own->a == rank ? own->b : own->a)
                                              : "a round of links without it");
            agree(ground.world, 0); // start together
            if (!pair)
                continue;
            std::string problem;
            const LinkRate link = pair->measure(problem);
            if (!problem.empty())
                wrong.push_back(problem);
            const auto known = std::ranges::find_if(
                links, [&](const LinkRate& l) { return l.a == link.a && l.b == link.b; });
            if (known == links.end())
                links.push_back(link);
            else
                keep_best(*known, link);
        }
    return links;
}

} // namespace trivium
