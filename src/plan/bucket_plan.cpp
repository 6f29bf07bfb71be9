#include "plan/bucket_plan.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>

namespace trivium {

namespace {

/// By collective, whether a bucket begins with it: 1 or 0. Text, which is fast to copy and to look up.
using Begins = std::string;

struct Cuts {
    Begins gathers, reductions;
};

std::vector<int> sizes_of(const Begins& cuts)
{
    std::vector<int> sizes;
    for (const bool begins : cuts) {
        if (begins || sizes.empty())
            sizes.push_back(0);
        ++sizes.back();
    }
    return sizes;
}

BucketPlan plan_of(const Cuts& cuts) { return {sizes_of(cuts.gathers), sizes_of(cuts.reductions)}; }

Begins cuts_of(const std::vector<int>& sizes)
{
    Begins cuts;
    for (const int size : sizes)
        for (int i = 0; i < size; ++i)
            cuts.push_back(i == 0);
    return cuts;
}

/// A bucket of consecutive transfers.
struct Bucket {
    std::size_t first = 0, last = 0; ///< segments of its transfers
    Bytes sent = 0, whole = 0;
    int count = 0;
};

std::vector<Bucket> merge(const std::vector<ProfiledTransfer>& transfers, const std::vector<int>& sizes)
{
    std::vector<Bucket> buckets;
    std::size_t next = 0;
    for (const int size : sizes) {
        Bucket bucket{transfers[next].segment, 0, 0, 0, size};
        for (int i = 0; i < size; ++i, ++next) {
            bucket.last = transfers[next].segment;
            bucket.sent += transfers[next].sent;
            bucket.whole += transfers[next].whole;
        }
        buckets.push_back(bucket);
    }
    TRV_CHECK(next == transfers.size(), "a bucket plan of ", next, " collectives for ", transfers.size());
    return buckets;
}

Seconds gather_time(const BucketProfile& p, Bytes sent)
{
    return p.gather_latency + static_cast<double>(sent) / p.bytes_per_second;
}

Seconds reduction_time(const BucketProfile& p, Bytes sent)
{
    return p.reduction_latency + static_cast<double>(sent) / p.bytes_per_second;
}

/// is_within_limits() of a plan whose bytes in flight are known.
bool fits(const BucketProfile& p, const BucketPlan& plan, Bytes in_flight)
{
    if (p.largest > 0)
        for (const std::vector<Bucket>& buckets :
             {merge(p.gathers, plan.gathers), merge(p.reductions, plan.reductions)})
            for (const Bucket& bucket : buckets)
                if (bucket.count > 1 && bucket.whole > p.largest)
                    return false;
    return p.memory == 0 || in_flight <= p.memory;
}

/// Begins a bucket where a gather belongs to another pass than the one before.
void separate_passes(const BucketProfile& p, Begins& cuts)
{
    for (std::size_t i = 1; i < p.gathers.size(); ++i)
        if (p.gathers[i - 1].segment < p.backward && p.gathers[i].segment >= p.backward)
            cuts[i] = true;
}

/// Buckets of at most `bytes`; with `by_block`, each within one block.
Begins cuts_by_bytes(const std::vector<ProfiledTransfer>& transfers, Bytes bytes, bool by_block)
{
    Begins cuts;
    Bytes held = 0;
    for (std::size_t i = 0; i < transfers.size(); ++i) {
        const Bytes whole = transfers[i].whole;
        cuts.push_back(i == 0 || (by_block && transfers[i].block != transfers[i - 1].block) ||
                       held + whole > bytes);
        held = cuts.back() ? whole : held + whole;
    }
    return cuts;
}

/// Such buckets of a profile's gathers, by pass, and of its reductions.
BucketPlan plan_by_bytes(const BucketProfile& p, Bytes gathers, Bytes reductions, bool by_block)
{
    Cuts cuts{cuts_by_bytes(p.gathers, gathers, by_block), cuts_by_bytes(p.reductions, reductions, by_block)};
    separate_passes(p, cuts.gathers);
    return plan_of(cuts);
}

Bytes whole_of(const std::vector<ProfiledTransfer>& transfers)
{
    return std::accumulate(transfers.begin(), transfers.end(), Bytes{0},
                           [](Bytes sum, const ProfiledTransfer& t) { return sum + t.whole; });
}

/// Time, then buckets: of plans that take equally long, the one with fewer buckets is better.
using Price = std::pair<Seconds, std::size_t>;

/// What plans cost: searches from several starts meet the same ones.
class Prices {
public:
    struct Known {
        Price price;
        Bytes in_flight = 0;
    };

    explicit Prices(const BucketProfile& profile) : p_(profile) {}

    const Known& of(const Cuts& cuts)
    {
        const auto [at, unknown] = known_.try_emplace(cuts.gathers + cuts.reductions);
        if (unknown) {
            const BucketPlan plan = plan_of(cuts);
            const BucketEstimate e = estimate(p_, plan);
            at->second = {{e.total, plan.gathers.size() + plan.reductions.size()}, e.in_flight};
        }
        return at->second;
    }

private:
    const BucketProfile& p_;
    std::unordered_map<Begins, Known> known_;
};

/// Improves a plan one boundary after another.
class Search {
public:
    Search(const BucketProfile& profile, const BucketPlan& from, Prices& prices)
        : p_(profile), prices_(prices), cuts_{cuts_of(from.gathers), cuts_of(from.reductions)},
          best_(prices.of(cuts_).price)
    {
    }

    BucketPlan run()
    {
        constexpr int most_rounds = 8;
        for (int round = 0; round < most_rounds; ++round) {
            const bool better_gathers = improve(cuts_.gathers), better_reductions = improve(cuts_.reductions);
            if (!better_gathers && !better_reductions && !improve_pairs())
                break;
        }
        return plan_of(cuts_);
    }

private:
    /// Whether the boundaries are now better than the best so far.
    bool is_better()
    {
        separate_passes(p_, cuts_.gathers);
        const auto& [now, in_flight] = prices_.of(cuts_);
        const bool better =
            now.first < best_.first * (1 - 1e-12) || (now.first <= best_.first && now.second < best_.second);
        if (!better || !fits(p_, plan_of(cuts_), in_flight))
            return false;
        best_ = now;
        return true;
    }

    /// Keeps the change that `change` makes to the boundaries if it is better.
    template <class Change>
    bool attempt(Change change)
    {
        const Cuts before = cuts_;
        change();
        if (is_better())
            return true;
        cuts_ = before;
        return false;
    }

    bool improve(Begins& cuts)
    {
        bool improved = false;
        const auto move = [&](std::size_t from, std::size_t to) {
            cuts[from] = false;
            cuts[to] = true;
        };
        for (std::size_t i = 1; i < cuts.size(); ++i) {
            const bool movable = cuts[i] && i + 1 < cuts.size() && !cuts[i + 1];
            improved = attempt([&] { cuts[i] = !cuts[i]; }) ||
                       (movable && attempt([&] { move(i, i + 1); })) || improved;
        }
        for (std::size_t i = cuts.size(); i-- > 2;)
            if (cuts[i] && !cuts[i - 1])
                improved = attempt([&] { move(i, i - 1); }) || improved;
        return improved;
    }

    /// Two boundaries at once, in small profiles.
    bool improve_pairs()
    {
        const std::size_t items = cuts_.gathers.size() + cuts_.reductions.size();
        if (items > most_for_pairs)
            return false;
        bool improved = false;
        const auto flip = [&](std::size_t i) {
            const bool gather = i < cuts_.gathers.size();
            char& begins = gather ? cuts_.gathers[i] : cuts_.reductions[i - cuts_.gathers.size()];
            begins = !begins;
        };
        for (std::size_t i = 0; i < items; ++i)
            for (std::size_t j = i + 1; j < items; ++j)
                improved = attempt([&] { flip(i), flip(j); }) || improved;
        return improved;
    }

    static constexpr std::size_t most_for_pairs = 64;
    const BucketProfile& p_;
    Prices& prices_;
    Cuts cuts_;
    Price best_;
};

/// greedy_buckets with the memory condition for `room` bytes (0: none).
BucketPlan greedy_within(const BucketProfile& p, Bytes room)
{
    Cuts cuts{Begins(p.gathers.size(), false), Begins(p.reductions.size(), false)};
    const auto is_small = [&](Bytes whole) { return p.largest == 0 || whole <= p.largest; };
    Bytes one = 0; // the largest gather: the next bucket has at least as much
    for (const ProfiledTransfer& t : p.gathers)
        one = std::max(one, t.whole);
    Seconds this_step = 0, next_step = 0; // compute of the bucket before, and of the open one
    Seconds rest = p.compute();
    Bytes sent = 0, whole = 0, whole_before = 0; // of the open bucket of gathers
    Bytes reduced = 0, open = 0, sending = 0;    // of the open bucket of reductions, and of the one before
    Bytes last_sent = 0, most_open = 0;          // the latter since the open bucket of gathers began
    bool is_open = false;
    std::size_t g = 0, r = 0;
    const auto close_reductions = [&] {
        if (!is_open)
            return;
        last_sent = reduced;
        sending = open;
        reduced = open = 0;
        is_open = false;
    };
    const auto has_room = [&](Bytes needed) { return room == 0 || needed <= room; };
    for (std::size_t s = 0; s < p.segments.size(); ++s) {
        for (; g < p.gathers.size() && p.gathers[g].segment == s; ++g) {
            const ProfiledTransfer& t = p.gathers[g];
            const Seconds transfer =
                gather_time(p, sent + t.sent) + (last_sent > 0 ? reduction_time(p, last_sent) : 0);
            const bool joins = g > 0 && transfer <= this_step && is_small(whole + t.whole) &&
                               has_room(whole_before + whole + t.whole + std::max(most_open, one));
            if (!joins) {
                cuts.gathers[g] = true;
                this_step = next_step;
                next_step = 0;
                whole_before = whole;
                sent = whole = 0;
                close_reductions();
                most_open = sending;
            }
            sent += t.sent;
            whole += t.whole;
        }
        next_step += p.segments[s];
        rest -= p.segments[s];
        for (; r < p.reductions.size() && p.reductions[r].segment == s; ++r) {
            const ProfiledTransfer& t = p.reductions[r];
            if (is_open && (!is_small(open + t.whole) ||
                            !has_room(whole_before + whole + one + open + t.whole + sending)))
                close_reductions();
            cuts.reductions[r] = !is_open;
            is_open = true;
            reduced += t.sent;
            open += t.whole;
            most_open = std::max(most_open, open + sending);
            if (rest < 5 * reduction_time(p, reduced))
                close_reductions();
        }
    }
    separate_passes(p, cuts.gathers);
    return plan_of(cuts);
}

} // namespace

Seconds BucketProfile::compute() const
{
    return std::accumulate(segments.begin(), segments.end(), Seconds{0});
}

BucketEstimate estimate(const BucketProfile& p, const BucketPlan& plan)
{
    const std::vector<Bucket> gathers = merge(p.gathers, plan.gathers),
                              reductions = merge(p.reductions, plan.reductions);
    std::vector<Seconds> arrived(gathers.size(), 0);
    Seconds compute_end = 0, link_free = 0;
    std::size_t issued = 0, read = 0, reduced = 0;
    Bytes gathered = 0, open = 0, sending = 0, in_flight = 0; // `open`: to reduce, not yet sent
    Seconds reduced_at = 0;                                   // end of the last reduction
    const auto issue = [&] {
        const Bucket& b = gathers[issued];
        link_free = std::max(link_free, p.gathers_ahead ? 0.0 : compute_end) + gather_time(p, b.sent);
        arrived[issued++] = link_free;
        gathered += b.whole;
    };
    std::size_t opened = 0;
    for (std::size_t s = 0; s < p.segments.size(); ++s) {
        while (read < gathers.size() && gathers[read].first == s) {
            // The next bucket's transfer begins before the first reader of this one.
            const std::size_t ahead = p.gathers_ahead ? gathers.size() : std::min(read + 2, gathers.size());
            if (!p.gathers_ahead && read > 0)
                gathered -= gathers[read - 1].whole;
            while (issued < ahead)
                issue();
            compute_end = std::max(compute_end, arrived[read++]);
        }
        compute_end += p.segments[s];
        while (opened < p.reductions.size() && p.reductions[opened].segment == s)
            open += p.reductions[opened++].whole;
        // What is gathered or reduced once per step is kept in any case.
        in_flight =
            std::max(in_flight, (p.gathers_ahead ? 0 : gathered) + (p.reductions_wait ? open + sending : 0));
        while (reduced < reductions.size() && reductions[reduced].last == s) {
            if (p.reductions_wait)
                compute_end = std::max(compute_end, reduced_at);
            const Bucket& b = reductions[reduced++];
            link_free = std::max(link_free, compute_end) + reduction_time(p, b.sent);
            reduced_at = link_free;
            sending = b.whole;
            open -= b.whole;
        }
    }
    BucketEstimate e;
    e.total = std::max(compute_end, link_free);
    e.exposed = e.total - p.compute();
    e.in_flight = in_flight;
    return e;
}

bool is_within_limits(const BucketProfile& p, const BucketPlan& plan)
{
    return fits(p, plan, estimate(p, plan).in_flight);
}

BucketPlan no_buckets(const BucketProfile& p)
{
    return {std::vector<int>(p.gathers.size(), 1), std::vector<int>(p.reductions.size(), 1)};
}

BucketPlan block_buckets(const BucketProfile& p)
{
    const Bytes most = p.most > 0 ? p.most : std::numeric_limits<Bytes>::max();
    return plan_by_bytes(p, most, most, true);
}

BucketPlan greedy_buckets(const BucketProfile& p)
{
    // The condition looks one bucket ahead; if that was not enough, with less room.
    for (Bytes room = p.memory;; room = room / 10 * 9) {
        const BucketPlan plan = greedy_within(p, room);
        if (p.memory == 0 || estimate(p, plan).in_flight <= p.memory)
            return plan;
        if (room < p.memory / 16)
            return no_buckets(p);
    }
}

BucketPlan global_buckets(const BucketProfile& p)
{
    std::vector<BucketPlan> ways{no_buckets(p), block_buckets(p), greedy_buckets(p)}, starts;
    const Bytes all_gathers = whole_of(p.gathers), all_reductions = whole_of(p.reductions);
    for (Bytes parts = 1; parts <= 256; parts *= 2)
        ways.push_back(plan_by_bytes(p, all_gathers / parts, all_reductions / parts, false));
    for (const BucketPlan& gathers : ways)
        for (const BucketPlan& reductions : ways)
            starts.push_back({gathers.gathers, reductions.reductions});
    std::erase_if(starts, [&](const BucketPlan& plan) { return !is_within_limits(p, plan); });
    if (starts.empty()) // the limit is below what single tensors take
        return no_buckets(p);
    std::vector<std::pair<Seconds, std::size_t>> order;
    for (std::size_t i = 0; i < starts.size(); ++i)
        order.emplace_back(estimate(p, starts[i]).total, i);
    std::sort(order.begin(), order.end());
    // A small profile is searched from each start.
    const std::size_t items = p.gathers.size() + p.reductions.size();
    const std::size_t searches = std::clamp<std::size_t>(20000 / (items * items + 1), 1, starts.size());
    BucketPlan best = starts[order.front().second];
    Seconds least = order.front().first;
    Prices prices(p);
    std::set<BucketPlan> tried;
    for (std::size_t i = 0; i < searches; ++i) {
        const BucketPlan& start = starts[order[i].second];
        if (!tried.insert(start).second)
            continue; // several ways lead to the same plan
        BucketPlan found = Search(p, start, prices).run();
        if (const Seconds total = estimate(p, found).total; i == 0 || total < least) {
            least = total;
            best = std::move(found);
        }
    }
    return best;
}

} // namespace trivium
