// On grids, to the bit: a token has no effect on those before it, nor on other documents. That their losses
// and gradients are those of each document alone is in same_answer_test.cpp.
#include "catch.hpp"
#include "grid/cases.hpp"

#include <algorithm>

using namespace trivium;
using namespace trivium::grids;

namespace {

/// A case with two documents in each sequence. Each data rank has one microbatch of two sequences.
Case two_documents(int number, int grid)
{
    std::vector<int> levels(factor_count, 0);
    levels[f_grid] = grid;
    levels[f_family] = number % 4;
    levels[f_schedule] = number / 3 % 4;
    levels[f_zero] = number / 2 % 4;
    levels[f_sequence] = number % 2;
    levels[f_heads] = levels[f_recompute] = number % 3;
    Case c = case_of(levels);
    c.packing = SamplePacking::concatenate;
    c.model.seq += 6;
    if (c.mixed == OptionSet::groups) // has a capacity, of a sequence whatever its documents
        c.mixed = OptionSet::experts;
    c.rows = 2 * batch_ranks(c.parallel);
    c.micro_batch = 2;
    c.parallel.update = UpdateMode::synchronous;
    return c;
}

/// The losses of batches, with the same parameters.
std::vector<double> losses_of(Case c, const std::vector<runs::TokenBatch>& batches)
{
    c.batches = batches;
    c.steps = static_cast<int>(batches.size());
    for (int step = 0; step < c.steps; ++step)
        c.refused.insert(step);
    return train_on_threads(c).losses;
}

void require_no_leak(const Case& c)
{
    INFO(c.text());
    const auto seq = static_cast<std::size_t>(c.model.seq), second = seq / 2;
    runs::TokenBatch batch = runs::random_batch(c.model, c.rows, 3);
    for (std::size_t i = 0; i < batch.tokens.size(); ++i)
        batch.starts.push_back(static_cast<std::int32_t>(i % seq < second ? 0 : second));
    // As they are, then with one token of the first sequence changed: each time, its tokens count alone, and
    // then all of the second sequence.
    const std::vector<std::size_t> changes{seq, 0, second - 1, second, seq - 2};
    std::vector<runs::TokenBatch> batches;
    for (const std::size_t changed : changes)
        for (std::size_t counted = 0; counted <= seq; ++counted) {
            batches.push_back(batch);
            reference::Ids& targets = batches.back().targets;
            std::fill(targets.begin(), targets.end(), -1);
            for (std::size_t i = counted; i < (counted < seq ? counted + 1 : 2 * seq); ++i)
                targets[i] = std::max(batch.targets[i], 0);
            if (changed < seq)
                batches.back().tokens[changed] = (batch.tokens[changed] + 1) % c.model.vocab;
        }
    const std::vector<double> losses = losses_of(c, batches);
    for (std::size_t n = 1; n < changes.size(); ++n) {
        const std::size_t changed = changes[n];
        const double* const now = &losses[n * (seq + 1)];
        INFO("token " << changed);
        for (std::size_t i = 0; i <= seq; ++i)
            if (i < changed || i == seq || (changed < second && i >= second))
                CHECK(now[i] == losses[i]);
        CHECK(now[changed] != losses[changed]);
    }
}

} // namespace

TEST_CASE("a token has no effect on those before it, nor on other documents, on any grid")
{
    int number = 0;
    for (std::size_t grid = 0; grid < all_grids().size(); ++grid)
        if (const i64 ranks = rank_count(all_grids()[grid]); ranks == 4 || ranks == 8)
            if (number++ % (contracts_on ? 5 : 1) == 0) // sanitizers take their time
                require_no_leak(two_documents(number, static_cast<int>(grid)));
}
