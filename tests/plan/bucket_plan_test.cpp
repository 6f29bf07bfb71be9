// Bucket plans on random profiles: against limits, against all plans of small profiles, and where compute is
// enough to hide transfers.
#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "plan/bucket_plan.hpp"

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <sstream>

using namespace trivium;

namespace {

class Draw {
public:
    explicit Draw(std::uint64_t seed) : random_(seed, "bucket plans") {}
    double uniform(double from, double to)
    {
        return from + (to - from) * static_cast<double>(random_.bits_at(next_++) >> 11) * 0x1p-53;
    }
    int whole(int from, int to) { return static_cast<int>(std::floor(uniform(from, to + 1))); }

private:
    RandomStream random_;
    std::uint64_t next_ = 0;
};

/// A model of `blocks` blocks of `tensors` parameters each: one segment of compute reads each parameter, and
/// in the backward pass two; then its gradient is reduced. `seconds`: mean compute of a segment.
BucketProfile layers(Draw& draw, int blocks, int tensors, double seconds)
{
    BucketProfile p;
    p.gather_latency = draw.uniform(5e-6, 5e-5);
    p.reduction_latency = draw.uniform(5e-6, 5e-5);
    p.bytes_per_second = 5e10;
    p.reductions_wait = draw.whole(0, 1) == 1;
    std::vector<Bytes> size;
    for (int i = 0; i < tensors; ++i)
        size.push_back(static_cast<Bytes>(std::exp(draw.uniform(std::log(1e3), std::log(5e7)))));
    const auto add = [&](std::vector<ProfiledTransfer>& to, std::size_t segment, int block, int tensor) {
        const Bytes bytes = size[static_cast<std::size_t>(tensor)];
        to.push_back({segment, bytes * 7 / 8, bytes, block});
    };
    for (int b = 0; b < blocks; ++b)
        for (int t = 0; t < tensors; ++t) {
            add(p.gathers, p.segments.size(), b, t);
            p.segments.push_back(seconds * draw.uniform(0.5, 1.5));
        }
    p.backward = p.segments.size();
    for (int b = blocks; b-- > 0;)
        for (int t = tensors; t-- > 0;) {
            add(p.gathers, p.segments.size(), b, t);
            p.segments.push_back(2 * seconds * draw.uniform(0.5, 1.5));
            add(p.reductions, p.segments.size() - 1, b, t);
        }
    return p;
}

void require_covers(const std::vector<ProfiledTransfer>& transfers, const std::vector<int>& sizes)
{
    CHECK(std::accumulate(sizes.begin(), sizes.end(), std::size_t{0}) == transfers.size());
    CHECK(std::all_of(sizes.begin(), sizes.end(), [](int size) { return size > 0; }));
}

/// `f(first, last)` for each bucket.
template <class F>
void each_bucket(const std::vector<int>& sizes, F f)
{
    std::size_t first = 0;
    for (const int size : sizes) {
        f(first, first + static_cast<std::size_t>(size));
        first += static_cast<std::size_t>(size);
    }
}

void require_sound(const BucketProfile& p, const BucketPlan& plan)
{
    require_covers(p.gathers, plan.gathers);
    require_covers(p.reductions, plan.reductions);
    each_bucket(plan.gathers, [&](std::size_t first, std::size_t last) {
        CHECK((p.gathers[first].segment < p.backward) == (p.gathers[last - 1].segment < p.backward));
    });
}

void require_capped(const BucketProfile& p, const BucketPlan& plan)
{
    const auto check = [&](const std::vector<ProfiledTransfer>& transfers, const std::vector<int>& sizes) {
        each_bucket(sizes, [&](std::size_t first, std::size_t last) {
            Bytes bytes = 0;
            for (std::size_t i = first; i < last; ++i)
                bytes += transfers[i].whole;
            CHECK((last - first == 1 || bytes <= p.largest));
        });
    };
    check(p.gathers, plan.gathers);
    check(p.reductions, plan.reductions);
}

/// A plain clock, without buckets' bookkeeping: an event per transfer and segment.
Seconds played(const BucketProfile& p, const BucketPlan& plan)
{
    struct Transfer {
        std::size_t first, last, segment;
        Seconds length, end = 0;
    };
    const auto transfers = [&](const std::vector<ProfiledTransfer>& of, const std::vector<int>& sizes,
                               Seconds latency, bool gather) {
        std::vector<Transfer> all;
        each_bucket(sizes, [&](std::size_t first, std::size_t last) {
            Transfer t{first, last, of[gather ? first : last - 1].segment, latency, 0};
            for (std::size_t i = first; i < last; ++i)
                t.length += static_cast<double>(of[i].sent) / p.bytes_per_second;
            all.push_back(t);
        });
        return all;
    };
    std::vector<Transfer> gathers = transfers(p.gathers, plan.gathers, p.gather_latency, true);
    std::vector<Transfer> reductions = transfers(p.reductions, plan.reductions, p.reduction_latency, false);
    Seconds now = 0, link = 0;
    std::size_t begun = 0;
    for (std::size_t s = 0; s < p.segments.size(); ++s) {
        for (std::size_t k = 0; k < gathers.size(); ++k) {
            if (gathers[k].segment != s)
                continue;
            for (; begun < gathers.size() && begun <= k + 1; ++begun)
                gathers[begun].end = link = std::max(link, now) + gathers[begun].length;
            now = std::max(now, gathers[k].end);
        }
        now += p.segments[s];
        for (std::size_t k = 0; k < reductions.size(); ++k) {
            if (reductions[k].segment != s)
                continue;
            if (p.reductions_wait && k > 0)
                now = std::max(now, reductions[k - 1].end);
            reductions[k].end = link = std::max(link, now) + reductions[k].length;
        }
    }
    return std::max(now, link);
}

} // namespace

TEST_CASE(
    "bucket plans of 200 random layer profiles: sound, within their limits, no worse than the plans before")
{
    int greedy_behind_block = 0, greedy_behind_global = 0, block_behind_global = 0;
    double most = 0, sum = 0, sum_block = 0;
    const int profiles = contracts_on ? 20 : 200; // sanitizers take their time
    for (std::uint64_t seed = 0; seed < static_cast<std::uint64_t>(profiles); ++seed) {
        Draw draw(seed);
        BucketProfile p = layers(draw, draw.whole(2, 12), draw.whole(1, 7), std::exp(draw.uniform(-12, -7)));
        Bytes all = 0, single = 0;
        for (const ProfiledTransfer& t : p.gathers) {
            all += t.whole;
            single = std::max(single, t.whole);
        }
        p.largest = all / draw.whole(2, 20);
        p.memory = 4 * single + static_cast<Bytes>(draw.uniform(0, 1) * static_cast<double>(all));
        INFO("seed " << seed);
        const BucketPlan plans[] = {no_buckets(p), block_buckets(p), greedy_buckets(p), global_buckets(p)};
        Seconds times[4];
        for (int i = 0; i < 4; ++i) {
            require_sound(p, plans[i]);
            const BucketEstimate e = estimate(p, plans[i]);
            times[i] = e.total;
            CHECK(e.total == Approx(played(p, plans[i])).epsilon(1e-12));
            CHECK(e.exposed >= -1e-12);
            CHECK(e.total >= p.compute() * (1 - 1e-12));
        }
        const BucketProfile same = p; // all ranks derive the same plan
        CHECK(global_buckets(same) == plans[3]);
        for (const int i : {2, 3})
            require_capped(p, plans[i]);
        CHECK(estimate(p, plans[3]).in_flight <= p.memory);
        CHECK(estimate(p, plans[2]).in_flight <= p.memory);
        CHECK(times[3] <= times[0]);
        for (const int i : {1, 2})
            if (is_within_limits(p, plans[i]))
                CHECK(times[3] <= times[i] * (1 + 1e-12));
        greedy_behind_block += times[2] > times[1] * 1.001;
        greedy_behind_global += times[2] > times[3] * 1.001;
        block_behind_global += times[1] > times[3] * 1.001;
        most = std::max(most, times[2] / times[3]);
        sum += std::log(times[2] / times[3]);
        sum_block += std::log(times[1] / times[3]);
    }
    std::ostringstream text; // for a report; no property
    text << "greedy loses to block in " << greedy_behind_block << " profiles, to global in "
         << greedy_behind_global << ", by " << std::setprecision(3) << std::exp(sum / profiles)
         << " times in the mean, " << most << " at most; block loses to global in " << block_behind_global
         << ", by " << std::exp(sum_block / profiles);
    INFO(text.str());
    if (std::getenv("TRIVIUM_SHOW"))
        std::cout << text.str() << "\n";
    CHECK(greedy_behind_global > 0);
}

TEST_CASE("the search finds plans as short as the best of all plans of small profiles")
{
    double worst = 1;
    for (std::uint64_t seed = 0; seed < (contracts_on ? 4 : 40); ++seed) {
        Draw draw(1000 + seed);
        const BucketProfile p = layers(draw, 2, 2, std::exp(draw.uniform(-11, -8)));
        INFO("seed " << seed);
        const auto items = static_cast<int>(p.gathers.size() + p.reductions.size());
        Seconds best = 1e9;
        for (unsigned cuts = 0; cuts < 1U << items; ++cuts) {
            const auto sizes = [&](std::size_t count, int shift, bool passes) {
                std::vector<int> all;
                for (std::size_t i = 0; i < count; ++i) {
                    const bool border = passes && i > 0 && p.gathers[i - 1].segment < p.backward &&
                                        p.gathers[i].segment >= p.backward;
                    if (i == 0 || border || (cuts >> (static_cast<int>(i) + shift) & 1U) != 0)
                        all.push_back(0);
                    ++all.back();
                }
                return all;
            };
            best = std::min(
                best, played(p, {sizes(p.gathers.size(), 0, true),
                                 sizes(p.reductions.size(), static_cast<int>(p.gathers.size()), false)}));
        }
        const Seconds found = estimate(p, global_buckets(p)).total;
        CHECK(found >= best * (1 - 1e-12));
        CHECK(found <= best * 1.01);
        worst = std::max(worst, found / best);
    }
    INFO("worst " << worst);
    CHECK(worst >= 1);
}

TEST_CASE("where compute is enough, the first gather of each pass and the last reduction stay exposed")
{
    for (std::uint64_t seed = 0; seed < (contracts_on ? 5 : 50); ++seed) {
        Draw draw(2000 + seed);
        BucketProfile p = layers(draw, draw.whole(3, 10), draw.whole(1, 5), 1);
        INFO("seed " << seed);
        const auto shortest = [&](const std::vector<ProfiledTransfer>& all, std::size_t i, Seconds latency) {
            return latency + static_cast<double>(all[i].sent) / p.bytes_per_second;
        };
        // The gather of the backward pass's first tensor begins during the last but one of the forward
        // pass's.
        const Seconds ends = shortest(p.gathers, 0, p.gather_latency) +
                             shortest(p.reductions, p.reductions.size() - 1, p.reduction_latency);
        CHECK(estimate(p, global_buckets(p)).exposed == Approx(ends).epsilon(1e-9));
        CHECK(estimate(p, greedy_buckets(p)).exposed <= 3 * ends + 5 * p.reduction_latency + 1);
    }
}

TEST_CASE("greedy closes a bucket that its compute would not hide, and small ones at the end")
{
    BucketProfile p;
    p.bytes_per_second = 1;
    p.segments = {10, 10, 10, 10};
    p.backward = 4;
    for (std::size_t s = 0; s < 4; ++s)
        p.gathers.push_back({s, 4, 4, static_cast<int>(s)});
    // The first is alone; then two of 4 s hide behind the compute of 10 s of the bucket before, three do not.
    CHECK(greedy_buckets(p).gathers == std::vector<int>{1, 2, 1});
    p.largest = 5;
    CHECK(greedy_buckets(p).gathers == std::vector<int>{1, 1, 1, 1});
    p.largest = 0;
    p.gathers.clear();
    p.backward = 0;
    for (std::size_t s = 0; s < 4; ++s)
        p.reductions.push_back({s, 1, 1, static_cast<int>(s)});
    // After the third, 10 s are left, less than five times 3 s; then each is alone.
    CHECK(greedy_buckets(p).reductions == std::vector<int>{3, 1});
}
