// The trainings of a check, and how far correct ones are from the one-rank result.
#include "base/check.hpp"
#include "catch.hpp"
#include "check/composition.hpp"
#include "check/kernels.hpp"
#include "faulty_comm.hpp"

#include <cmath>
#include <cstdio>
#include <map>
#include <set>

using namespace trivium;

namespace {

std::set<std::string> traits_in(const std::vector<CheckCase>& cases)
{
    std::set<std::string> all;
    for (const CheckCase& c : cases)
        for (const std::string& trait : traits_of(c.config))
            all.insert(trait);
    return all;
}

} // namespace

TEST_CASE("the cases have every grid with every level")
{
    const std::vector<CheckCase> eight = check_cases(8, false);
    std::set<std::string> grids, with_zero, with_schedule;
    for (const CheckCase& c : eight) {
        const ParallelConfig& p = c.config.parallel;
        const std::string grid = str(p.data * p.context, " ", p.pipeline, " ", p.tensor);
        CHECK(c.ranks() == 8);
        grids.insert(grid);
        if (shard_ranks(p) > 1)
            with_zero.insert(str(grid, " ", p.zero));
        if (p.pipeline > 1)
            with_schedule.insert(str(grid, " ", p.schedule));
    }
    CHECK(grids.size() == 10);
    CHECK(with_zero.size() >= 6 * 2); // at least two implemented stages
    CHECK(with_schedule.size() == 6 * 4);
    const std::set<std::string> traits = traits_in(eight);
    for (const char* trait : {"data > 1",
                              "context > 1",
                              "pipeline > 1",
                              "tensor > 1",
                              "zero 1",
                              "data > 1 without zero",
                              "schedule 1f1b",
                              "schedule gpipe",
                              "sequence parallel",
                              "tensor > 1 without sequence",
                              "overlap",
                              "bucket auto",
                              "bucket block",
                              "bucket none",
                              "bucket 700",
                              "several microbatches",
                              "gradients reduced in bf16",
                              "precision f32",
                              "precision bf16",
                              "precision f64",
                              "family llama",
                              "family gpt2",
                              "norms post",
                              "norms sandwich",
                              "norms parallel"})
        CHECK(traits.count(trait) == 1);
    std::set<std::string> zero_settings;
    for (const CheckCase& c : eight)
        if (const ParallelConfig& p = c.config.parallel; shard_ranks(p) > 1) {
            if (p.zero == 3)
                zero_settings.insert(str("gather ", name_of(p.gather_every)));
            if (p.zero >= 2)
                zero_settings.insert(str("reduce ", name_of(p.reduce_every)));
            if (shards_in_groups(p))
                zero_settings.insert(str("groups with zero ", p.zero));
        }
    CHECK(zero_settings == std::set<std::string>{"gather microbatch", "gather pass", "gather step",
                                                 "groups with zero 1", "groups with zero 2",
                                                 "groups with zero 3", "reduce microbatch", "reduce step"});
    for (i64 zero = 1; zero <= 3; ++zero)
        CHECK(traits.count(str("zero ", zero)) == 1);
}

TEST_CASE("the usual settings are checked on every grid, in f32")
{
    for (const int ranks : {2, 3, 4, 8}) {
        std::set<std::string> grids, usual;
        for (const CheckCase& c : check_cases(ranks, false)) {
            const ParallelConfig &p = c.config.parallel, without;
            const std::string grid = str(p.data * p.context, " x ", p.pipeline, " x ", p.tensor);
            grids.insert(grid);
            if (c.config.train.precision == Precision::f32 && p.zero == without.zero &&
                p.schedule == without.schedule && p.sequence == without.sequence &&
                p.overlap == without.overlap && p.bucket == without.bucket && p.reduce == without.reduce &&
                p.recompute == without.recompute && p.accumulate == without.accumulate &&
                p.tile == without.tile && p.context == 1 && p.offload == without.offload &&
                c.config.train.optimizer == OptimizerKind::adamw &&
                c.config.model.placement == Placement::pre &&
                (p.pipeline == 1 || microbatch_count(c.config) > 1))
                usual.insert(grid + " " + std::string(name_of(c.config.model.family)));
        }
        CHECK(usual.size() == grids.size() * 2);
    }
}

TEST_CASE("any two compatible traits occur in a case whose numbers show small errors")
{
    using Pairs = std::set<std::pair<std::string, std::string>>;
    const auto pairs_in = [](const std::vector<CheckCase>& cases) {
        Pairs all;
        for (const CheckCase& c : cases) {
            const std::vector<std::string> traits = traits_of(c.config);
            if (c.config.train.precision != Precision::bf16 &&
                c.config.parallel.accumulate == GradientType::f32 &&
                (gradient_ranks(c.config.parallel) == 1 || c.config.parallel.reduce == GradientType::f32))
                for (const std::string& a : traits)
                    for (const std::string& b : traits)
                        all.insert({a, b});
        }
        return all;
    };
    for (const int ranks : {2, 3, 4, 8}) {
        const std::vector<CheckCase> few = check_cases(ranks, false);
        const Pairs met = pairs_in(few);
        for (const auto& [a, b] :
             pairs_in(check_cases(ranks, true))) { // every grid with every stage, schedule and family
            CAPTURE(ranks, a, b);
            CHECK(met.count({a, b}) == 1);
        }
        if (ranks >= 4) {
            for (const char* schedule : {"schedule 1f1b", "schedule gpipe"})
                for (const char* other : {"family llama", "family gpt2", "overlap", "no overlap", "zero 1",
                                          "data > 1 without zero", "bucket block", "several microbatches"})
                    CHECK(met.count({schedule, other}) == 1);
            for (const char* bucket : {"bucket auto", "bucket none", "bucket block", "bucket 700"})
                for (const char* other : {"family gpt2", "zero 1", "pipeline > 1", "tensor > 1", "no overlap",
                                          "several microbatches"})
                    CHECK(met.count({bucket, other}) == 1);
        }
        CHECK(few.size() <= std::size_t(ranks == 8 ? 97 : ranks == 4 ? 85 : 92));
        std::printf("%d ranks: %zu trainings\n", ranks, few.size());
    }
}

TEST_CASE("few ranks, odd numbers of ranks, many ranks")
{
    const std::vector<CheckCase> one = check_cases(1, false);
    CHECK(one.size() >= 4);
    const std::vector<CheckCase> seven = check_cases(7, false);
    std::set<int> sizes, firsts;
    for (const CheckCase& c : seven) {
        sizes.insert(c.ranks());
        firsts.insert(c.first);
        CHECK(c.first + c.ranks() <= 7);
    }
    CHECK(sizes == std::set<int>{6, 7});
    CHECK(firsts == std::set<int>{0, 1}); // no rank is idle in all cases
    for (const int ranks : {96, 1009}) {
        const std::vector<CheckCase> many = check_cases(ranks, false);
        CHECK(many.size() < 400);
        for (const CheckCase& c : many)
            CHECK((c.config.parallel.tensor <= 8 && c.config.parallel.pipeline <= 8));
    }
    CHECK(check_cases(4, true).size() > 2 * check_cases(4, false).size());
}

TEST_CASE("correct trainings stay far below the tolerances", "[release]")
{
    std::map<Precision, TinyDifference> worst;
    std::map<std::string, TinyOutcome> answers;
    const std::vector<CheckCase> all = check_cases(4, false);
    for (const bool reduced : {false, true})
        for (const CheckCase& c : all) {
            if ((c.config.parallel.reduce == GradientType::bf16 && c.config.parallel.data > 1) != reduced)
                continue;
            const RankFacts facts{"n", "p", "b", "", "", 1, 0};
            const auto [known, unknown] = answers.try_emplace(answer_key(c.config));
            const TinyOutcome& alone = known->second;
            if (unknown)
                run_on_threads(1, [&, known = known](Comm& world) {
                    known->second = train_tiny(world, facts, on_one_rank(c.config),
                                               compile_tiny(on_one_rank(c.config), 0));
                });
            run_on_threads(4, [&](Comm& world) {
                const TinyDifference d =
                    compare(train_tiny(world, facts, c.config, compile_tiny(c.config, world.rank())), alone,
                            c.config);
                succeed_together(world, [&] {
                    TRV_CHECK(d.initial.empty(), d.initial);
                    const CheckTolerance t = tolerance_of(c.config);
                    TRV_CHECK(std::max(d.losses, d.norms) < 0.4 * t.losses &&
                                  d.parameters < 0.6 * t.parameters,
                              c.text(), ": losses ", d.losses, ", norms ", d.norms, ", parameters ",
                              d.parameters, " ", d.parameter);
                });
                if (world.rank() == 0 && !reduced) {
                    TinyDifference& w = worst[c.config.train.precision];
                    w.losses = std::max(w.losses, d.losses);
                    w.norms = std::max(w.norms, d.norms);
                    w.parameters = std::max(w.parameters, d.parameters);
                }
            });
        }
    for (const auto& [precision, d] : worst)
        std::printf("%s: losses %.1e, norms %.1e, parameters %.1e\n", std::string(name_of(precision)).c_str(),
                    d.losses, d.norms, d.parameters);
}

TEST_CASE("kernels are close to simple loops")
{
    std::size_t kernels = 0;
    run_kernels(2, 3, [&](KernelResult& result) {
        INFO(result.kernel << ": " << result.error());
        CHECK(result.error() < 0.5 * result.tolerance);
        CHECK_FALSE(result.expected.empty());
        const double error = result.error();
        result.got.back() += 1 + std::abs(result.got.back());
        CHECK(result.error() > error);
        ++kernels;
    });
    CHECK(kernels >= 10);
}
