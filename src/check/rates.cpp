#include "check/rates.hpp"

#include "check/slow.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "check/kernels.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/gemm.hpp"
#include "mpi/records.hpp"
#include "runtime/arena.hpp"
#include "runtime/device.hpp"

#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <map>
#include <tuple>

namespace trivium {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankRates, flops_f32, flops_bf16, bytes_per_second, cpu_share)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OpSample, kind, size, work, seconds)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OpRates, samples, best, runs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(LinkRate, a, b, bytes_per_second, latency, cpu_share)

namespace {

/// CPU time of all threads of this process, or of the calling thread if it works alone (ranks may be
/// threads).
Seconds cpu_time(int threads)
{
    timespec t{};
    clock_gettime(threads > 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Pace {
    Seconds each = 0; ///< duration of a run
    double cpu_share = 1;
};

/// Runs `work` repeatedly for this time, and waits for each run.
Pace pace_of(const CheckGround& ground, const char* what, Seconds seconds, const std::function<void()>& work)
{
    work();                 // the first run prepares; not measured
    agree(ground.world, 0); // start together
    const int threads = ground.facts.threads;
    const Seconds begin = now(), cpu = cpu_time(threads);
    i64 runs = 0;
    Seconds spent = 0;
    for (; runs < 2 || spent < seconds; ++runs) {
        work();
        ground.timed(what);
        spent = now() - begin;
    }
    return {spent / static_cast<double>(runs),
            computes_on_device() ? 1 : (cpu_time(threads) - cpu) / (spent * threads)};
}

/// Square products of a typical size in a transformer.
Pace product_pace(const CheckGround& ground, const CheckStream& stream, DType type, i64 side, Seconds seconds)
{
    kernels::ProductShape shape;
    shape.m = shape.n = shape.k = side;
    shape.in = shape.out = type;
    const kernels::Product product(shape, ground.facts.threads,
                                   kernels::usual_product_scratch * ground.facts.threads);
    const Bytes bytes = round_up(side * side * size_of(type), 256);
    const Arena arena(3 * bytes + product.scratch_bytes());
    const i64 count = side * side;
    for (const Bytes at : {Bytes{0}, bytes}) // not zeros: some processors multiply those faster
        type == DType::bf16
            ? kernels::fill(stream.exec(), count, 0.73, reinterpret_cast<bf16*>(arena.at(at)))
            : kernels::fill(stream.exec(), count, 0.73, reinterpret_cast<float*>(arena.at(at)));
    return pace_of(ground, type == DType::bf16 ? "products bf16" : "products f32", seconds, [&] {
        product.run(stream.exec(), arena.at(0), arena.at(bytes), arena.at(2 * bytes), true,
                    {arena.at(3 * bytes), product.scratch_bytes()});
        stream.wait();
    });
}

double rate(double work, const Pace& pace) { return work / pace.each; }

/// Merges a repeated measurement: takes the best of each, because a slow rank is slow each time.
void keep_best(std::vector<RankRates>& best, const std::vector<RankRates>& again)
{
    for (std::size_t i = 0; i < best.size(); ++i) {
        best[i].flops_f32 = std::max(best[i].flops_f32, again[i].flops_f32);
        best[i].flops_bf16 = std::max(best[i].flops_bf16, again[i].flops_bf16);
        best[i].bytes_per_second = std::max(best[i].bytes_per_second, again[i].bytes_per_second);
        best[i].cpu_share = std::max(best[i].cpu_share,
                                     again[i].cpu_share); // slow with undisturbed cores is slow
    }
}

/// The measurements of all ranks, on rank 0.
struct Measured {
    std::vector<RankRates> rates;
    std::vector<LinkRate> links;
    std::vector<std::vector<std::string>> wrong; ///< by rank: messages that arrived changed
};

Measured measure_all(const CheckGround& ground, const std::vector<std::vector<RankPair>>& rounds)
{
    std::vector<std::string> wrong;
    const RankRates own = measure_rank(ground, ground.config.longer ? 2.0 : 0.2);
    const std::vector<LinkRate> links = measure_links(ground, rounds, ground.config.longer ? 20 : 3, wrong);
    Measured all;
    std::map<std::pair<int, int>, double> other_share; // of the end without the rate
    for (const auto& [rates, theirs, changed] :
         gather_records_to_first(ground.world, std::tuple(own, links, wrong))) {
        all.rates.push_back(rates);
        for (const LinkRate& link : theirs)
            if (link.a == static_cast<int>(all.wrong.size())) // its other end has the same value
                all.links.push_back(link);
            else
                other_share[{link.a, link.b}] = link.cpu_share;
        all.wrong.push_back(changed);
    }
    for (LinkRate& link : all.links)
        link.cpu_share = std::min(link.cpu_share, other_share.at({link.a, link.b}));
    return all;
}

} // namespace

RankRates measure_rank(const CheckGround& ground, Seconds seconds)
{
    const CheckStream stream(ground.facts.threads);
    const bool device = computes_on_device();
    // On the host, enough work per thread that scheduling takes little time.
    const i64 side = device         ? 8192
                     : contracts_on ? 256
                                    : round_up(std::llround(1024 * std::cbrt(ground.facts.threads)), 64);
    const double work =
        2.0 * static_cast<double>(side) * static_cast<double>(side) * static_cast<double>(side);
    RankRates rates;
    const Pace f32 = product_pace(ground, stream, DType::f32, side, seconds);
    rates.flops_f32 = rate(work, f32);
    const Pace bf16 = product_pace(ground, stream, DType::bf16, side, seconds);
    rates.flops_bf16 = rate(work, bf16);
    // z = x + y over more memory than the caches: a thread's share is a few MiB.
    const i64 count = device ? i64{1} << 28 : i64{1} << (contracts_on ? 18 : 22);
    const i64 all = count * (device ? 1 : ground.facts.threads);
    const Bytes bytes = all * static_cast<Bytes>(sizeof(float));
    const Arena arena(3 * bytes);
    auto *x = reinterpret_cast<float*>(arena.at(0)), *y = reinterpret_cast<float*>(arena.at(bytes)),
         *z = reinterpret_cast<float*>(arena.at(2 * bytes));
    for (float* array : {x, y, z})
        kernels::fill(stream.exec(), all, 1.0, array); // first touch by the threads that will use it
    const Pace memory = pace_of(ground, "memory", seconds, [&] {
        kernels::add<float>(stream.exec(), all, x, y, z);
        stream.wait();
    });
    rates.bytes_per_second = rate(3 * static_cast<double>(bytes), memory);
    rates.cpu_share = std::min({f32.cpu_share, bf16.cpu_share, memory.cpu_share});
    return rates;
}

void check_rates(const CheckGround& ground, CheckReport& report)
{
    constexpr std::size_t most_rounds = 16;
    constexpr int tries = 3;
    const Seconds begin = now();
    const auto rounds = link_rounds(ground.grid.node_of_rank(), ground.config.longer ? 1024 : most_rounds);
    Measured all = measure_all(ground, rounds);
    // Measure slow ranks and links again before reporting them.
    for (int time = 1; time < tries; ++time) {
        CheckReport trial;
        if (ground.first()) {
            trial.facts = report.facts;
            trial.node_of_rank = report.node_of_rank;
            trial.nodes = report.nodes;
            trial.rates = all.rates;
            trial.links = all.links;
            judge_shares(trial);
            judge_rates(trial, ground.config.slow_rank, ground.config.slow_link);
        }
        if (agree(ground.world, trial.findings.empty() ? 0 : 1) == 0)
            break;
        const Measured again = measure_all(ground, rounds);
        keep_best(all.rates, again.rates);
        for (std::size_t i = 0; i < all.links.size(); ++i)
            keep_best(all.links[i], again.links[i]);
        for (std::size_t rank = 0; rank < all.wrong.size(); ++rank)
            all.wrong[rank].insert(all.wrong[rank].end(), again.wrong[rank].begin(), again.wrong[rank].end());
    }
    if (ground.config.ops && !computes_on_device()) {
        const bool near = ground.grid.node_of_rank()[static_cast<std::size_t>(ground.world.rank())] ==
                          ground.grid.node_of_rank().front();
        OpRates own = measure_ops(ground);
        std::vector<OpRates> of_node;
        for (auto& [is_near, rates] :
             gather_records_to_first(ground.world, std::pair(near, near ? std::move(own) : OpRates{})))
            if (is_near) {
                report.ops.insert(report.ops.end(), rates.samples.begin(), rates.samples.end());
                of_node.push_back(std::move(rates));
            }
        report.stragglers = stragglers_of(of_node);
    }
    if (!ground.first())
        return;
    report.rates = all.rates;
    report.links = all.links;
    for (std::size_t rank = 0; rank < all.wrong.size(); ++rank)
        if (!all.wrong[rank].empty())
            report.findings.push_back({CheckPart::rates,
                                       Severity::fault,
                                       {static_cast<int>(rank)},
                                       "received bytes differ from those sent",
                                       "every byte unchanged",
                                       all.wrong[rank].front(),
                                       "check the network card and the memory of both nodes, and the "
                                       "MPI library; exclude the node"});
    judge_shares(report);
    judge_rates(report, ground.config.slow_rank, ground.config.slow_link);
    report.parts.push_back(fmt::format("rates        products, memory and {} in {}, in {}",
                                       counted(report.links.size(), "link"), counted(rounds.size(), "round"),
                                       format_seconds(now() - begin)));
}

} // namespace trivium
