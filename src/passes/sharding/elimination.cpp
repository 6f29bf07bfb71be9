#include "passes/sharding/elimination.hpp"

#include "base/check.hpp"

#include <algorithm>
#include <set>

namespace trivium {

namespace {

using Values = std::vector<std::size_t>;

/// The position in a table of the variables' current values.
std::size_t position(const CostTable& table, const Values& sizes, const Values& values)
{
    std::size_t at = 0;
    for (std::size_t i = table.variables.size(); i-- > 0;)
        at = at * sizes[table.variables[i]] + values[table.variables[i]];
    return at;
}

double cost_of(const CostProblem& problem, const Values& values)
{
    double sum = 0;
    for (const CostTable& table : problem.tables)
        sum += table.costs[position(table, problem.sizes, values)];
    return sum;
}

class Elimination {
public:
    /// `kept`: how often a variable kept its value in earlier rounds.
    Elimination(const CostProblem& problem, Values start, std::size_t limit, std::vector<int>& kept)
        : sizes_(problem.sizes), values_(std::move(start)), limit_(limit), kept_(kept),
          tables_(problem.tables), of_(sizes_.size()), done_(sizes_.size(), false),
          entries_(sizes_.size(), 0), scratch_(sizes_.size(), 0)
    {
        for (std::size_t t = 0; t < tables_.size(); ++t)
            for (const std::size_t v : tables_[t].variables)
                of_[v].push_back(t);
        for (std::size_t v = 0; v < sizes_.size(); ++v)
            queue_.emplace(entries_[v] = next_to(v), v);
    }

    Values run()
    {
        while (!queue_.empty()) {
            const auto [entries, v] = *queue_.begin();
            if (entries > limit_)
                keep();
            else
                eliminate(v);
        }
        for (auto step = steps_.rbegin(); step != steps_.rend(); ++step)
            values_[step->first] =
                static_cast<std::size_t>(step->second.costs[position(step->second, sizes_, values_)]);
        return values_;
    }

private:
    /// All variables that share a table with v, and v; ascending.
    std::vector<std::size_t> around(std::size_t v) const
    {
        std::vector<std::size_t> all{v};
        for (const std::size_t t : of_[v])
            all.insert(all.end(), tables_[t].variables.begin(), tables_[t].variables.end());
        std::ranges::sort(all);
        all.erase(std::unique(all.begin(), all.end()), all.end());
        return all;
    }

    /// The entries of the table of all of them, at most a little above the limit.
    std::size_t next_to(std::size_t v) const
    {
        std::size_t entries = 1;
        for (const std::size_t u : around(v))
            entries = std::min(entries * sizes_[u], limit_ + 1);
        return entries;
    }

    /// How far the entries of table t for neighbouring values of v are apart; 0 if v is none of its
    /// variables.
    std::size_t step_of(std::size_t t, std::size_t v) const
    {
        std::size_t step = 1;
        for (const std::size_t u : tables_[t].variables) {
            if (u == v)
                return step;
            step *= sizes_[u];
        }
        return 0;
    }

    /// Replaces the tables of v by one without it.
    void eliminate(std::size_t v)
    {
        const std::vector<std::size_t> all = around(v);
        change(all, [&] {
            CostTable rest{all, {}};
            std::erase(rest.variables, v);
            CostTable best{rest.variables, {}};
            std::size_t entries = 1;
            for (const std::size_t u : rest.variables)
                entries *= sizes_[u];
            const std::vector<std::size_t> mine(of_[v].begin(), of_[v].end());
            // By table: its entry for the current values of the others and the first of v, and by variable
            // how far that moves with the next value.
            Values first(mine.size(), 0), own(mine.size()), steps(rest.variables.size() * mine.size());
            for (std::size_t t = 0; t < mine.size(); ++t) {
                own[t] = step_of(mine[t], v);
                for (std::size_t i = 0; i < rest.variables.size(); ++i)
                    steps[i * mine.size() + t] = step_of(mine[t], rest.variables[i]);
            }
            Values& values = scratch_;
            std::vector<double> sums(sizes_[v]);
            rest.costs.reserve(entries);
            best.costs.reserve(entries);
            for (std::size_t e = 0; e < entries; ++e) {
                std::ranges::fill(sums, 0);
                for (std::size_t t = 0; t < mine.size(); ++t) {
                    const double* costs = tables_[mine[t]].costs.data() + first[t];
                    for (std::size_t a = 0; a < sums.size(); ++a)
                        sums[a] += costs[a * own[t]];
                }
                // Of equals, the current value, otherwise the first.
                auto arg = static_cast<std::size_t>(std::ranges::min_element(sums) - sums.begin());
                if (sums[values_[v]] == sums[arg])
                    arg = values_[v];
                rest.costs.push_back(sums[arg]);
                best.costs.push_back(static_cast<double>(arg));
                for (std::size_t i = 0; i < rest.variables.size(); ++i) {
                    const std::size_t u = rest.variables[i], n = sizes_[u];
                    const bool more = ++values[u] < n;
                    for (std::size_t t = 0; t < mine.size(); ++t) {
                        const std::size_t step = steps[i * mine.size() + t];
                        first[t] += more ? step : step - n * step;
                    }
                    if (more)
                        break;
                    values[u] = 0;
                }
            }
            for (const std::size_t t : mine)
                remove(t);
            if (!rest.variables.empty())
                add(std::move(rest));
            steps_.emplace_back(v, std::move(best));
            done_[v] = true;
        });
    }

    /// The variable with the most values among those that kept theirs least often keeps its value now.
    void keep()
    {
        std::size_t chosen = sizes_.size();
        for (const auto& [entries, v] : queue_)
            if (chosen == sizes_.size() || kept_[v] < kept_[chosen] ||
                (kept_[v] == kept_[chosen] && of_[v].size() > of_[chosen].size()))
                chosen = v;
        ++kept_[chosen];
        change(around(chosen), [&] {
            const std::vector<std::size_t> mine(of_[chosen].begin(), of_[chosen].end());
            for (const std::size_t t : mine) {
                CostTable rest{tables_[t].variables, {}};
                std::erase(rest.variables, chosen);
                Values& values = scratch_;
                values[chosen] = values_[chosen];
                std::size_t entries = 1;
                for (const std::size_t u : rest.variables)
                    entries *= sizes_[u];
                for (std::size_t e = 0; e < entries; ++e) {
                    rest.costs.push_back(tables_[t].costs[position(tables_[t], sizes_, values)]);
                    for (const std::size_t u : rest.variables) {
                        if (++values[u] < sizes_[u])
                            break;
                        values[u] = 0;
                    }
                }
                values[chosen] = 0;
                remove(t);
                if (!rest.variables.empty())
                    add(std::move(rest));
            }
            done_[chosen] = true;
        });
    }

    void add(CostTable table)
    {
        for (const std::size_t u : table.variables)
            of_[u].push_back(tables_.size());
        tables_.push_back(std::move(table));
    }
    void remove(std::size_t t)
    {
        for (const std::size_t u : tables_[t].variables)
            std::erase(of_[u], t);
        tables_[t] = {};
    }

    /// Changes tables of these variables, and what the queue knows of the variables next to them.
    template <class Change>
    void change(const std::vector<std::size_t>& variables, Change&& change)
    {
        for (const std::size_t u : variables)
            if (!done_[u])
                queue_.erase({entries_[u], u});
        change();
        for (const std::size_t u : variables)
            if (!done_[u])
                queue_.emplace(entries_[u] = next_to(u), u);
    }

    const Values& sizes_;
    Values values_;
    std::size_t limit_;
    std::vector<int>& kept_;
    std::vector<CostTable> tables_;
    std::vector<std::vector<std::size_t>> of_; ///< by variable: its tables
    std::vector<bool> done_;
    std::vector<std::size_t> entries_;                     ///< by variable: next_to()
    Values scratch_;                                       ///< all 0 but while a table is made
    std::set<std::pair<std::size_t, std::size_t>> queue_;  ///< entries of its next table, variable
    std::vector<std::pair<std::size_t, CostTable>> steps_; ///< the best value, by those eliminated later
};

} // namespace

std::vector<std::size_t> cheapest(const CostProblem& problem, std::vector<std::size_t> start,
                                  std::size_t limit)
{
    std::vector<int> kept(problem.sizes.size(), 0);
    double least = cost_of(problem, start);
    for (int round = 0; round < 4; ++round) {
        const std::vector<int> before = kept;
        Values made = Elimination(problem, start, limit, kept).run();
        const double cost = cost_of(problem, made);
        TRV_CHECK(cost <= least * (1 + 1e-9) + 1e-9, "elimination made a choice worse");
        const bool changed = cost < least;
        if (changed) {
            least = cost;
            start = std::move(made);
        }
        if (kept == before || (!changed && round > 0))
            break;
    }
    return start;
}

} // namespace trivium
