#include "passes/sharding/elimination.hpp"

#include "catch.hpp"
#include "draw.hpp"

#include <algorithm>

using namespace trivium;

namespace {

void add_table(CostProblem& problem, Draw& draw, std::vector<std::size_t> variables)
{
    CostTable table{std::move(variables), {}};
    std::size_t entries = 1;
    for (const std::size_t v : table.variables)
        entries *= problem.sizes[v];
    for (std::size_t e = 0; e < entries; ++e)
        table.costs.push_back(static_cast<double>(below(draw, 100)));
    problem.tables.push_back(std::move(table));
}

/// `width` earlier variables at most share a table with a new one.
CostProblem drawn_problem(Draw& draw, std::size_t variables, std::size_t width)
{
    CostProblem problem;
    for (std::size_t v = 0; v < variables; ++v) {
        problem.sizes.push_back(1 + below(draw, 4));
        std::vector<std::size_t> around;
        for (std::size_t u = v > width + 1 ? v - width - 1 : 0; u < v && around.size() < width; ++u)
            if (below(draw, 2))
                around.push_back(u);
        around.push_back(v);
        add_table(problem, draw, std::move(around));
    }
    return problem;
}

double cost_of_choice(const CostProblem& problem, const std::vector<std::size_t>& choice)
{
    double sum = 0;
    for (const CostTable& table : problem.tables) {
        std::size_t at = 0, stride = 1;
        for (const std::size_t v : table.variables) {
            at += choice[v] * stride;
            stride *= problem.sizes[v];
        }
        sum += table.costs[at];
    }
    return sum;
}

/// Tries every combination.
double least_cost(const CostProblem& problem)
{
    std::vector<std::size_t> choice(problem.sizes.size(), 0);
    double least = cost_of_choice(problem, choice);
    for (;;) {
        std::size_t v = 0;
        while (v < choice.size() && ++choice[v] == problem.sizes[v])
            choice[v++] = 0;
        if (v == choice.size())
            return least;
        least = std::min(least, cost_of_choice(problem, choice));
    }
}

} // namespace

TEST_CASE("elimination finds the cheapest choice where tables stay small")
{
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        INFO("seed " << seed);
        Draw draw(seed);
        const CostProblem problem = drawn_problem(draw, 1 + below(draw, 8), 1 + below(draw, 3));
        const std::vector<std::size_t> start(problem.sizes.size(), 0);
        CHECK(cost_of_choice(problem, cheapest(problem, start)) == least_cost(problem));
    }
}

TEST_CASE("with a small limit elimination never makes a choice worse, and improves most")
{
    int better = 0, could = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
        INFO("seed " << seed);
        Draw draw(seed);
        const CostProblem problem = drawn_problem(draw, 8, 3);
        std::vector<std::size_t> start;
        for (const std::size_t size : problem.sizes)
            start.push_back(below(draw, size));
        const double before = cost_of_choice(problem, start),
                     after = cost_of_choice(problem, cheapest(problem, start, 8));
        CHECK(after <= before);
        could += least_cost(problem) < before;
        better += after < before;
    }
    CHECK(could > 100);
    CHECK(better >= could * 9 / 10);
}

TEST_CASE("a long chain of choices is solved exactly")
{
    Draw draw(1);
    CostProblem problem;
    problem.sizes.assign(10'000, 3);
    for (std::size_t v = 1; v < problem.sizes.size(); ++v)
        add_table(problem, draw, {v - 1, v});
    // From the first variable on: the least cost of all before it, by its value.
    std::vector<double> least(3, 0);
    for (const CostTable& table : problem.tables) {
        std::vector<double> next(3, 1e9);
        for (std::size_t a = 0; a < 3; ++a)
            for (std::size_t b = 0; b < 3; ++b)
                next[b] = std::min(next[b], least[a] + table.costs[a + 3 * b]);
        least = next;
    }
    const std::vector<std::size_t> start(problem.sizes.size(), 0);
    CHECK(cost_of_choice(problem, cheapest(problem, start)) == *std::min_element(least.begin(), least.end()));
}
