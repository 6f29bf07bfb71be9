#include "check/arithmetic.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "check/kernels.hpp"
#include "io/files/hash.hpp"
#include "mpi/records.hpp"

#include <fmt/format.h>
#include <map>

namespace trivium {

namespace {

/// The faults of one rank.
struct Wrong {
    std::vector<std::string> kernels;
    std::string expected, seen; ///< of the first fault

    void note(const std::string& kernel, const std::string& should, const std::string& is)
    {
        if (kernels.empty()) {
            expected = should;
            seen = is;
        }
        if (std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
            kernels.push_back(kernel);
    }
};

/// Ranks with equal keys should compute the same bits.
std::string kind_of(const RankFacts& facts)
{
    return facts.processor + "\n" + facts.build + "\n" + facts.libraries;
}

/// Compares the bits of one kernel on similar ranks: the majority is right; of two that differ, neither.
void vote(const std::string& kernel, const std::vector<int>& ranks, const std::vector<std::string>& bits,
          std::map<int, Wrong>& wrong)
{
    const auto groups = group_ranks(bits);
    const bool majority = 2 * groups[0].second.size() > bits.size();
    for (std::size_t i = majority ? 1 : 0; i < groups.size() && groups.size() > 1; ++i)
        for (const int place : groups[i].second)
            wrong[ranks[static_cast<std::size_t>(place)]].note(
                kernel,
                majority ? str(kernel, ": the bits of ", groups[0].second.size(), " of ", bits.size(),
                               " similar ranks")
                         : str(kernel, ": the same bits on similar ranks"),
                majority ? "different bits"
                         : str(groups.size(), " different results on ", bits.size(),
                               " ranks; which is right is unknown"));
}

} // namespace

std::string bits_of(const std::vector<double>& numbers)
{
    return hex(hash_block(numbers.data(), static_cast<Bytes>(numbers.size() * sizeof(double))));
}

void judge_arithmetic(CheckReport& report, const std::vector<std::vector<KernelRecord>>& records)
{
    TRV_EXPECT(records.size() <= report.facts.size(), "facts of ", report.facts.size(), " ranks");
    std::map<int, Wrong> wrong;
    std::map<std::string, std::map<std::string, std::pair<std::vector<int>, std::vector<std::string>>>>
        ballots; // by kernel and kind
    for (std::size_t r = 0; r < records.size(); ++r) {
        const int rank = static_cast<int>(r);
        for (const KernelRecord& w : records[r]) {
            if (!(w.error <= w.tolerance)) { // not counted for the comparison with others
                wrong[rank].note(
                    w.kernel, fmt::format("{}: within {:.0e} of simple loops in f64", w.kernel, w.tolerance),
                    fmt::format("off by {:.2g}", w.error));
                continue;
            }
            if (!w.stable)
                wrong[rank].note(w.kernel, w.kernel + ": the same bits each time",
                                 "different bits when repeated");
            auto& [ranks, bits] = ballots[w.kernel][kind_of(report.facts[r])];
            ranks.push_back(rank);
            bits.push_back(w.bits);
        }
    }
    for (const auto& [kernel, kinds] : ballots)
        for (const auto& [kind, ballot] : kinds)
            vote(kernel, ballot.first, ballot.second, wrong);
    for (const auto& [rank, what] : wrong) {
        std::string kernels;
        for (std::size_t i = 0; i < std::min<std::size_t>(3, what.kernels.size()); ++i)
            kernels += (i == 0 ? "" : ", ") + what.kernels[i];
        if (what.kernels.size() > 3)
            kernels += str(" and ", what.kernels.size() - 3, " more");
        report.findings.push_back(
            {CheckPart::arithmetic,
             Severity::fault,
             {rank},
             "wrong arithmetic: " + kernels,
             what.expected,
             what.seen,
             "exclude the node and have its processor and memory tested; if a whole node differs, "
             "compare its CPU (lscpu) and its environment (ONEDNN_*)"});
    }
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(KernelRecord, kernel, bits, error, tolerance, stable)

void compare_arithmetic(const CheckGround& ground, const std::vector<KernelRecord>& own, CheckReport& report)
{
    const std::vector<std::vector<KernelRecord>> records = gather_records_to_first(ground.world, own);
    if (ground.first())
        judge_arithmetic(report, records);
}

void check_arithmetic(const CheckGround& ground, CheckReport& report)
{
    const Seconds begin = now();
    const int times = ground.config.longer ? 50 : 3;
    std::vector<KernelRecord> own;
    std::string failure;
    try {
        for (int time = 0; time < times; ++time) {
            std::size_t at = 0;
            run_kernels(ground.facts.threads, 1, [&](KernelResult& result) {
                if (ground.config.hooks.computed)
                    ground.config.hooks.computed(result.kernel, result.got);
                KernelRecord record{result.kernel, bits_of(result.got), result.error(), result.tolerance,
                                    true};
                if (time == 0) {
                    own.push_back(record);
                    return;
                }
                KernelRecord& first = own[at++];
                first.stable = first.stable && first.bits == record.bits;
                first.error = std::max(first.error, record.error); // infinity stays
            });
        }
    } catch (const std::exception& error) { // the others continue, so that the report names the rank
        failure = error.what();
    }
    const std::vector<std::string> failures = gather_to_first(ground.world, failure);
    for (std::size_t rank = 0; ground.first() && rank < failures.size(); ++rank)
        if (!failures[rank].empty())
            report.findings.push_back({CheckPart::arithmetic,
                                       Severity::fault,
                                       {static_cast<int>(rank)},
                                       "a kernel fails",
                                       "kernels that run on every rank",
                                       failures[rank],
                                       "compare the node's processor (lscpu), memory and environment "
                                       "(ONEDNN_*) with the others; exclude the node"});
    compare_arithmetic(ground, own, report);
    if (ground.first())
        report.parts.push_back(fmt::format("arithmetic   {} kernels, {} times on each rank, against simple "
                                           "loops in f64 and between ranks, in {}",
                                           own.size(), times, format_seconds(now() - begin)));
}

} // namespace trivium
