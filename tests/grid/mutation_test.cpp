// The comparison with one rank can fail: it detects programs with an omitted collective or a scaled
// reduction. Tests all of them if requested, otherwise as many as the time allows, drawn by the seed.
#include "base/check.hpp"
#include "catch.hpp"
#include "grid/cases.hpp"
#include "grid/mutants.hpp"
#include "soak_settings.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <set>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// Together they have every kind of collective on every axis.
std::vector<Case> mutated_cases()
{
    const auto of = [](reference::Model model, i64 data, i64 pipeline, i64 tensor, int zero, bool sequence,
                       const char* bucket) {
        Case c;
        c.model = model;
        c.micro_batch = c.rows / data / 2;
        c.parallel.data = data;
        c.parallel.pipeline = pipeline;
        c.parallel.tensor = tensor;
        c.parallel.zero = zero;
        c.parallel.sequence = sequence;
        c.parallel.bucket = bucket;
        return c;
    };
    return {
        of({true, 2, 6, 3, 3, 7, 11, 5, false}, 2, 2, 2, 1, true, "none"),
        of({false, 2, 6, 3, 3, 7, 11, 5, true}, 2, 2, 2, 0, true, "none"),
        of({true, 2, 8, 4, 1, 7, 11, 5, true}, 2, 1, 4, 1, false, "none"),
        of({false, 2, 6, 3, 3, 7, 13, 5, false}, 2, 3, 1, 1, true, "auto"),
        of({true, 3, 6, 3, 3, 7, 11, 5, true}, 1, 3, 2, 0, true, "block"),
    };
}

enum class Verdict { killed, survived };

/// A key's bias shifts all scores of a query equally, to which softmax is invariant: its gradient is zero up
/// to rounding, and so is its double.
bool changes_only_rounding(const Mutant& mutant, const Outcome& want)
{
    double largest = 0;
    for (const auto& [name, values] : want.gradients)
        for (const double x : values)
            largest = std::max(largest, std::abs(x));
    for (const auto& [name, values] : want.gradients)
        if (mutant.scaled && mutant.tensors == 1 && mutant.value.find("." + name) != std::string::npos)
            return std::all_of(values.begin(), values.end(),
                               [&](double x) { return std::abs(x) < 1e-13 * largest; });
    return false;
}

Verdict verdict(const Case& c, const Mutant& mutant, const Outcome& want)
{
    try {
        const Outcome got = train_on_threads(c, meddle_for(c, mutant));
        const Differences d = differences(got, want);
        return std::max({d.losses, d.norms, d.gradients, d.parameters, d.moments}) < 1e-9 ? Verdict::survived
                                                                                          : Verdict::killed;
    } catch (const InternalError& e) {
        const bool replicas = std::string(e.what()).find("differs between ranks") != std::string::npos;
        if (!replicas)
            FAIL(mutant.text() << ": " << e.what());
        return Verdict::killed;
    }
}

} // namespace

TEST_CASE("the cases to be mutated have every kind of collective")
{
    std::set<std::string> kinds;
    for (const Case& c : mutated_cases())
        for (const Mutant& m : mutants_of(c))
            if (!m.scaled)
                kinds.insert(m.kind + " " + m.axis);
    for (const char* kind :
         {"all_gather tensor", "reduce_scatter tensor", "all_reduce tensor", "all_gather data",
          "reduce_scatter data", "all_reduce data", "all_reduce world", "recv pipeline"})
        CHECK(kinds.count(kind) == 1);
}

TEST_CASE("no mutant survives")
{
    std::vector<std::pair<Case, Mutant>> all;
    const bool whole = soak::whole();
    const std::size_t least = contracts_on ? 3 : 12; // sanitizers take their time
    for (const Case& c : mutated_cases()) {
        if (contracts_on && !whole && !all.empty())
            break;
        // Without a mutation they agree.
        const Differences d = differences(train_on_threads(c), alone_outcome(c));
        INFO(c.text() << ": " << d.text());
        REQUIRE(d.most() < 1e-9);
        for (const Mutant& m : mutants_of(c))
            all.emplace_back(c, m);
    }
    std::mt19937_64 random(soak::seed());
    std::shuffle(all.begin(), all.end(), random);
    const soak::Budget budget;
    std::size_t tried = 0, left_out = 0, rounding = 0;
    for (const auto& [c, mutant] : all) {
        if (!whole && tried >= least && !budget.left())
            break;
        INFO(c.text() << "; " << mutant.text());
        const Outcome& want = alone_outcome(c);
        if (changes_only_rounding(mutant, want)) {
            ++rounding;
            continue;
        }
        CHECK(verdict(c, mutant, want) == Verdict::killed);
        ++tried;
        left_out += mutant.scaled ? 0 : 1;
    }
    std::printf("%zu of %zu mutants tried: %zu without a collective or a message, %zu with a scaled "
                "reduction; %zu more scale nothing but "
                "rounding\n",
                tried, all.size(), left_out, tried - left_out, rounding);
}
