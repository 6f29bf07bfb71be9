// What decide() makes of the estimator's answers; nothing is compiled.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/decide.hpp"

#include <algorithm>
#include <cmath>
#include <map>

using namespace trivium;

namespace {

/// Answers by formulas, and counts the questions.
class Formulas : public Estimator {
public:
    std::function<Bytes(const RunConfig&)> arena = [](const RunConfig&) { return Bytes{1000}; };
    std::function<Seconds(const Candidate&)> step = [](const Candidate&) { return 1.0; };
    int questions = 0;
    Machine on = machine_called("cpu");

    const Machine& machine() const override { return on; }
    std::optional<StagesNeed> needs(const Candidate& candidate, const StageLimits& limits) override
    {
        ++questions;
        StagesNeed need;
        need.largest.arena = need.bytes = arena(candidate.config);
        if ((limits.arena > 0 && need.bytes > limits.arena) ||
            (limits.bytes > 0 && need.bytes > limits.bytes))
            return std::nullopt;
        need.rank = 0;
        need.buckets.mode = "greedy";
        return need;
    }
    ChosenBuckets buckets(const Candidate& candidate) override
    {
        const ParallelConfig& p = candidate.config.parallel;
        return {p.bucket == "auto" ? "greedy" : p.bucket, {}};
    }
    Score score(const Candidate& candidate, const Machine&, const StageLimits&) override
    {
        ++questions;
        return {step(candidate), arena(candidate.config)};
    }
    Score rough_score(const Candidate& candidate, const Machine& clock, const StageLimits& limits) override
    {
        return score(candidate, clock, limits);
    }
    double growth(const Candidate&) override { return 1; }
    BlockCosts block_costs(const Candidate& candidate, const Machine&) override
    {
        ++questions;
        BlockCosts costs;
        costs.blocks.assign(static_cast<std::size_t>(candidate.config.model.layers + 2), StageCost{});
        return costs;
    }
};

RunConfig on_grid(i64 data, i64 pipeline)
{
    RunConfig c;
    c.model.preset = "toy";
    c.model.layers = 14;
    c.model.vocab = 256;
    c.data.train = "x.h5";
    c.train.global_batch = 16 * data;
    c.train.micro_batch = 1;
    c.parallel.data = data;
    c.parallel.pipeline = pipeline;
    resolve_and_validate(c);
    return c;
}

/// Less with each step of a policy: what gathers and reductions keep, then the layers that keep activations.
Bytes arena_of_policy(const RunConfig& c)
{
    const ParallelConfig& p = c.parallel;
    const i64 layers = p.recompute_layers > 0 ? p.recompute_layers : c.model.layers;
    const std::map<GatherEvery, Bytes> kept{
        {GatherEvery::step, 400}, {GatherEvery::microbatch, 300}, {GatherEvery::pass, 200}};
    const Bytes activations = p.recompute == Recompute::selective ? 100 * c.model.layers - 40 * layers
                              : p.recompute == Recompute::full    ? 60 * c.model.layers - 50 * layers
                                                                  : 100 * c.model.layers;
    return kept.at(p.gather_every) + (p.reduce_every == ReduceEvery::step ? 50 : 0) + activations;
}

} // namespace

TEST_CASE("a config without auto and without a limit is taken as it is, and nothing is asked")
{
    Formulas formulas;
    RunConfig c = on_grid(2, 2);
    c.parallel.bucket = "block";
    const Choices choices = decide(c, formulas);
    CHECK(formulas.questions == 0);
    CHECK(choices.config.parallel.bucket == "block");
    CHECK(choices.order.shape.ranks == 2);
    CHECK(choices.order.shape.microbatches == 16);
    c.parallel.bucket = "auto";
    CHECK(decide(c, formulas).config.parallel.bucket == "greedy");
}

TEST_CASE("context ranks get keys and values in the form with the shorter step")
{
    Formulas formulas;
    const auto form_of = [&](i64 context, i64 heads, ContextForm given) {
        RunConfig c = on_grid(2, 1);
        c.parallel.context = context;
        c.parallel.context_heads = heads;
        c.parallel.context_form = given;
        const Choices choices = decide(c, formulas);
        CHECK(choices.recorded.parallel.context_form == given);
        return choices.config.parallel.context_form;
    };
    for (const ContextForm faster : {ContextForm::gather, ContextForm::ring}) {
        formulas.step = [=](const Candidate& c) {
            return c.config.parallel.context_form == faster ? 1.0 : 2.0;
        };
        CHECK(form_of(4, 2, ContextForm::automatic) == faster);
        CHECK(form_of(4, 0, ContextForm::gather) == ContextForm::gather);
        CHECK(form_of(4, 0, ContextForm::ring) == ContextForm::ring);
        CHECK(form_of(4, 4, ContextForm::automatic) == ContextForm::gather); // by heads alone
    }
    formulas.on = machine_called("h100"); // rings between devices are not built
    CHECK(form_of(4, 2, ContextForm::automatic) == ContextForm::gather);
    CHECK(form_of(4, 0, ContextForm::ring) == ContextForm::ring); // plans show it
}

TEST_CASE("within a limit, context ranks get keys and values in the form that fits")
{
    Formulas formulas;
    RunConfig c = on_grid(2, 1);
    c.parallel.context = 4;
    c.parallel.memory_limit = 1000;
    for (const ContextForm fits : {ContextForm::gather, ContextForm::ring}) {
        formulas.step = [=](const Candidate& asked) { // the faster form is the larger
            return asked.config.parallel.context_form == fits ? 2.0 : 1.0;
        };
        formulas.arena = [=](const RunConfig& asked) {
            return Bytes{asked.parallel.context_form == fits ? 1000 : 1001};
        };
        c.parallel.context_form = ContextForm::automatic;
        const Choices choices = decide(c, formulas);
        CHECK(choices.config.parallel.context_form == fits);
        CHECK(choices.recorded.parallel.context_form == ContextForm::automatic);
        c.parallel.context_form = fits == ContextForm::ring ? ContextForm::gather : ContextForm::ring;
        CHECK_THROWS_AS(decide(c, formulas), UserError);
    }
    c.parallel.context_form = ContextForm::automatic;
    formulas.arena = [](const RunConfig&) { return Bytes{1001}; };
    CHECK_THROWS_AS(decide(c, formulas), UserError);
}

TEST_CASE("within a limit: the fewest transfers, then the least recomputation, found with few questions")
{
    Formulas formulas;
    formulas.arena = arena_of_policy;
    RunConfig c = on_grid(4, 1);
    c.parallel.zero = 3;
    c.parallel.recompute = Recompute::automatic;
    const i64 layers = c.model.layers;
    for (Bytes limit = 350; limit <= 1900; limit += 25) {
        INFO(limit);
        c.parallel.memory_limit = limit;
        // In the order of docs/config.md, one after the other.
        std::optional<RunConfig> want;
        const auto consider = [&](GatherEvery gather, ReduceEvery reduce, Recompute again, i64 some) {
            RunConfig one = c;
            one.parallel.gather_every = gather;
            one.parallel.reduce_every = reduce;
            one.parallel.recompute = again;
            one.parallel.recompute_layers = some;
            if (!want && arena_of_policy(one) <= limit)
                want = one;
        };
        for (const GatherEvery gather : {GatherEvery::step, GatherEvery::microbatch, GatherEvery::pass})
            for (const ReduceEvery reduce : {ReduceEvery::step, ReduceEvery::microbatch})
                consider(gather, reduce, Recompute::none, 0);
        for (const Recompute again : {Recompute::selective, Recompute::full})
            for (i64 some = 1; some <= layers; ++some)
                consider(GatherEvery::pass, ReduceEvery::microbatch, again, some == layers ? 0 : some);
        formulas.questions = 0;
        if (!want) {
            CHECK_THROWS_AS(decide(c, formulas), UserError);
            continue;
        }
        const ParallelConfig found = decide(c, formulas).config.parallel, &w = want->parallel;
        CHECK(found.gather_every == w.gather_every);
        CHECK(found.reduce_every == w.reduce_every);
        CHECK(found.recompute == w.recompute);
        CHECK(found.recompute_layers == w.recompute_layers);
        CHECK(formulas.questions <= 6 + 5 + 1); // six ways, a search among 28, and what is compiled
    }
}

TEST_CASE("what a checkpoint records leaves to a resumed run what depends on its grid")
{
    Formulas formulas;
    formulas.arena = arena_of_policy;
    RunConfig c = on_grid(4, 1);
    c.parallel.zero = 3;
    c.parallel.recompute = Recompute::automatic;
    c.parallel.memory_limit = 1100;
    const Choices choices = decide(c, formulas);
    CHECK(choices.config.parallel.recompute == Recompute::selective);
    CHECK(choices.recorded.parallel.recompute == Recompute::automatic);
    CHECK(choices.recorded.parallel.gather_every == GatherEvery::automatic);
}

TEST_CASE("updates are post-validated where that is 1 % shorter and fits")
{
    RunConfig c = on_grid(1, 4);
    c.parallel.update = UpdateMode::automatic;
    for (const auto& [seconds, arena, limit, want] :
         {std::tuple(0.98, Bytes{1000}, Bytes{0}, UpdateMode::post_validated),
          {0.995, 1000, 0, UpdateMode::synchronous},
          {0.5, 1100, 1050, UpdateMode::synchronous},
          {0.5, 1040, 1050, UpdateMode::post_validated}}) {
        Formulas formulas;
        formulas.step = [s = seconds](const Candidate& candidate) {
            return candidate.config.parallel.update == UpdateMode::post_validated ? s : 1.0;
        };
        formulas.arena = [a = arena](const RunConfig& config) {
            return config.parallel.update == UpdateMode::post_validated ? a : Bytes{1000};
        };
        c.parallel.memory_limit = limit;
        INFO(seconds << " s, " << arena << " of " << limit);
        CHECK(decide(c, formulas).config.parallel.update == want);
    }
}

TEST_CASE("schedule and microbatch are those with the shortest step that fits")
{
    RunConfig c = on_grid(1, 4);
    c.parallel.schedule = "auto";
    c.train.micro_batch = 0;
    Formulas formulas;
    formulas.step = [](const Candidate& candidate) { // least at 4 sequences
        const auto micro = static_cast<double>(candidate.config.train.micro_batch);
        return 10 / micro + micro;
    };
    const Choices choices = decide(c, formulas);
    CHECK(choices.config.train.micro_batch == 4);
    CHECK(choices.order.shape.microbatches == 4);
    CHECK(choices.recorded.parallel.schedule == "auto");

    c.train.micro_batch = 2;
    std::vector<std::pair<double, PipelineOrder>> seen;
    formulas.step = [&](const Candidate& candidate) { // anything, but different
        const double seconds = 1 + 0.37 * static_cast<double>((seen.size() * 7) % 5);
        seen.emplace_back(seconds, candidate.order);
        return seconds;
    };
    const PipelineOrder found = decide(c, formulas).order;
    REQUIRE(seen.size() > 2);
    const auto least = std::min_element(seen.begin(), seen.end(),
                                        [](const auto& a, const auto& b) { return a.first < b.first; });
    CHECK(found == least->second);
}

TEST_CASE("a larger microbatch is not chosen if it then has to recompute")
{
    RunConfig c = on_grid(1, 4);
    c.parallel.schedule = "auto";
    c.parallel.recompute = Recompute::automatic;
    c.train.micro_batch = 0;
    Formulas formulas;
    formulas.arena = [](const RunConfig& config) { // 4 sequences fit with full recomputation alone
        return config.train.micro_batch * (config.parallel.recompute == Recompute::full ? 10 : 100);
    };
    for (const double recomputed : {1.1, 1.4}) { // times as long; twice the microbatch saves 7 %
        formulas.step = [=](const Candidate& candidate) {
            const auto micro = static_cast<double>(candidate.config.train.micro_batch);
            return std::pow(micro, -0.1) *
                   (candidate.config.parallel.recompute == Recompute::full ? recomputed : 1);
        };
        c.parallel.memory_limit = 250;
        const Choices choices = decide(c, formulas);
        INFO(recomputed);
        CHECK(choices.config.train.micro_batch == (recomputed < 1.2 ? 16 : 2));
        CHECK((choices.config.parallel.recompute == Recompute::full) == (recomputed < 1.2));
    }
}

TEST_CASE("a limit that nothing meets names the settings that would meet it")
{
    Formulas formulas;
    RunConfig c = on_grid(2, 1);
    c.train.micro_batch = 4;
    c.parallel.memory_limit = 500;
    formulas.arena = [](const RunConfig& config) {
        return config.parallel.zero == 3       ? Bytes{450}
               : config.train.micro_batch == 1 ? Bytes{480}
                                               : Bytes{900};
    };
    std::string said;
    try {
        decide(c, formulas);
    } catch (const UserError& error) {
        said = error.what();
    }
    INFO(said);
    CHECK(said.find("parallel.zero=3") != std::string::npos);
    CHECK(said.find("train.micro_batch=1") != std::string::npos);
    CHECK(said.find("parallel.zero=2") == std::string::npos);
}
