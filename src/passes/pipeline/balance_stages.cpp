#include "passes/pipeline/balance_stages.hpp"

#include "base/check.hpp"
#include "base/counted.hpp"
#include "ir/ops/op_table.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <utility>

namespace trivium {

namespace {

/// Moves boundaries between stages by one block as long as the most expensive rank gets cheaper, or among
/// equals the most expensive stage. Returns the costs of both.
std::pair<double, double> even_out(std::vector<int>& stage_of, const std::vector<double>& cost,
                                   const std::vector<int>& rank_of_stage)
{
    const std::size_t stages = rank_of_stage.size();
    std::vector<double> stage(stages, 0), rank(stages, 0);
    std::vector<std::size_t> begin(stages + 1, cost.size()); // the first block of each stage
    const auto move = [&](std::size_t block, std::size_t to) {
        const auto from = static_cast<std::size_t>(stage_of[block]);
        stage[from] -= cost[block];
        rank[static_cast<std::size_t>(rank_of_stage[from])] -= cost[block];
        stage[to] += cost[block];
        rank[static_cast<std::size_t>(rank_of_stage[to])] += cost[block];
        stage_of[block] = static_cast<int>(to);
        (to > from ? --begin[to] : ++begin[from]);
    };
    for (std::size_t b = cost.size(); b-- > 0;) {
        const auto s = static_cast<std::size_t>(stage_of[b]);
        stage[s] += cost[b];
        rank[static_cast<std::size_t>(rank_of_stage[s])] += cost[b];
        begin[s] = b;
    }
    const auto score = [&] {
        return std::pair(*std::ranges::max_element(rank), *std::ranges::max_element(stage));
    };
    auto best = score();
    for (bool better = true; better;) {
        better = false;
        for (std::size_t s = 0; s + 1 < stages; ++s)
            for (const bool up : {true, false}) {
                const std::size_t from = up ? s : s + 1, to = up ? s + 1 : s;
                if (begin[from + 1] - begin[from] < 2)
                    continue;
                const std::size_t block = up ? begin[to] - 1 : begin[from];
                move(block, to);
                if (const auto now = score(); now < best) {
                    best = now;
                    better = true;
                } else {
                    move(block, from);
                }
            }
    }
    return best;
}

/// Stages in a V, two per rank, from both ends of the model: after each rank its share of the costs is
/// assigned, half of it from each end, as nearly as blocks allow. So the way through the ranks and the way
/// back cost the same, which schedules in a V assume. \pre at least two blocks per rank
std::vector<int> stages_in_v(const std::vector<double>& sum, std::size_t ranks)
{
    std::vector<int> stage_of(sum.size() - 1);
    const auto nearest = [&](std::size_t first, std::size_t last, double target) { // of the sums
        std::size_t best = first;
        for (std::size_t at = first; at <= last; ++at)
            if (std::abs(sum[at] - target) < std::abs(sum[best] - target))
                best = at;
        return best;
    };
    const auto assign = [&](std::size_t begin, std::size_t end, std::size_t stage) {
        std::fill(stage_of.begin() + static_cast<std::ptrdiff_t>(begin),
                  stage_of.begin() + static_cast<std::ptrdiff_t>(end), static_cast<int>(stage));
    };
    std::size_t front = 0, back = stage_of.size(); // the blocks between them are not assigned
    for (std::size_t r = 0; r < ranks; ++r) {
        const std::size_t others = 2 * (ranks - 1 - r); // stages that still need a block
        const double share = sum.back() * static_cast<double>(r + 1) / static_cast<double>(ranks);
        const std::size_t middle = nearest(front + 1, back - 1 - others, share / 2);
        assign(front, middle, r);
        const std::size_t end =
            others == 0 ? middle : nearest(middle + others, back - 1, sum[middle] + sum.back() - share);
        assign(end, back, 2 * ranks - 1 - r);
        front = middle;
        back = end;
    }
    return stage_of;
}

/// How far the begins of stages are from even parts of the costs, in all.
double unevenness(const std::vector<int>& stage_of, const std::vector<double>& sum, std::size_t stages)
{
    double all = 0;
    for (std::size_t i = 1; i < stage_of.size(); ++i)
        if (stage_of[i] != stage_of[i - 1])
            all += std::abs(sum[i] - sum.back() * stage_of[i] / static_cast<double>(stages));
    return all;
}

} // namespace

std::vector<int> balance_stages(const Graph& graph, const std::vector<int>& rank_of_stage)
{
    const auto stages = static_cast<i64>(rank_of_stage.size());
    std::vector<double> cost;
    for (const Op& op : graph.ops) {
        cost.resize(std::max(cost.size(), static_cast<std::size_t>(op.block) + 1), 0);
        if (op.region == Region::microbatch && op.phase == Phase::forward)
            cost[static_cast<std::size_t>(op.block)] +=
                flops_of(graph, op) + 8 * static_cast<double>(bytes_of(graph, op));
    }
    const auto blocks = static_cast<i64>(cost.size());
    if (stages > blocks)
        throw UserError(
            {graph.file.empty() ? "parallel.pipeline"
                                : source_place(graph, graph.mesh_line) + "mesh axis pipeline",
             str(counted(stages, "stage"), " for a model of ", counted(blocks, "block")),
             "a stage has at least one block",
             str("set ", graph.file.empty() ? "parallel.pipeline" : "it", " to ", blocks, " or less")});
    // best[n]: the smallest possible cost of the most expensive of k stages over the first n blocks;
    // from[k][n]: the first block of its last stage.
    const auto s = static_cast<std::size_t>(stages), n = cost.size();
    std::vector<double> sum(n + 1, 0);
    for (std::size_t i = 0; i < n; ++i)
        sum[i + 1] = sum[i] + cost[i];
    std::vector<double> best = sum, next(n + 1, 0);
    std::vector<std::vector<std::uint32_t>> from(s + 1, std::vector<std::uint32_t>(n + 1, 0));
    for (std::size_t k = 2; k <= s; ++k) {
        for (std::size_t end = k; end <= n; ++end) {
            // As `begin` grows, the stages before it cost more and the last one costs less: the optimum is
            // where they cross.
            const auto first = [&](auto&& holds) {
                std::size_t low = k - 1, high = end;
                while (low < high)
                    holds((low + high) / 2) ? high = (low + high) / 2 : low = (low + high) / 2 + 1;
                return low;
            };
            const std::size_t cross =
                first([&](std::size_t begin) { return best[begin] >= sum[end] - sum[begin]; });
            std::size_t begin = cross;
            if (cross == end || (cross > k - 1 && sum[end] - sum[cross - 1] <= best[cross])) {
                const double least = sum[end] - sum[cross - 1];
                begin = first([&](std::size_t at) { return sum[end] - sum[at] <= least; });
            }
            next[end] = std::max(best[begin], sum[end] - sum[begin]);
            from[k][end] = static_cast<std::uint32_t>(begin);
        }
        std::swap(best, next);
    }
    std::vector<int> stage_of(n);
    for (std::size_t k = s, end = n; k > 0; end = from[k][end], --k)
        std::fill(stage_of.begin() + static_cast<std::ptrdiff_t>(from[k][end]),
                  stage_of.begin() + static_cast<std::ptrdiff_t>(end), static_cast<int>(k - 1));
    const std::size_t ranks = std::set<int>(rank_of_stage.begin(), rank_of_stage.end()).size();
    if (ranks == s)
        return stage_of;
    const auto found = even_out(stage_of, cost, rank_of_stage);
    if (s == 2 * ranks && rank_of_stage.front() == rank_of_stage.back()) {
        std::vector<int> in_v = stages_in_v(sum, ranks);
        const auto other = even_out(in_v, cost, rank_of_stage);
        constexpr double equal = 1 + 1e-9;
        if (other.first <= found.first * equal && other.second <= found.second * equal &&
            unevenness(in_v, sum, s) < unevenness(stage_of, sum, s))
            return in_v;
    }
    return stage_of;
}

} // namespace trivium
