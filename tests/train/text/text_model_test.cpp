// Generation, scores and evaluation on grids of ranks, which are threads, against one rank.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "train/data/batches.hpp"
#include "train/data/store_samples.hpp"
#include "train/evaluator.hpp"
#include "train/generator.hpp"
#include "train/rank_engine.hpp"
#include "train/text_model.hpp"
#include "train/tiny_run.hpp"

#include <cmath>
#include <numeric>

using namespace trivium;
using namespace trivium::tiny;

namespace {

/// A run of a few steps with its checkpoint, and configs of other grids for it.
class SavedRun {
public:
    SavedRun(const Model& model, Precision precision)
        : ground_(folder_ / "."), model_(model), precision_(precision)
    {
        train(config({}));
    }

    RunConfig config(const Layout& layout) const
    {
        RunConfig c = ground_.config(model_, precision_, layout, "run");
        c.model.seq = 100;
        c.train.steps = 2;
        c.train.lr = 0.02;
        c.train.global_batch = 12;
        c.checkpoint.every = 0;
        resolve_and_validate(c);
        return c;
    }
    std::string checkpoint() const { return ground_.path("run"); }

private:
    TemporaryFolder folder_;
    Ground ground_;
    Model model_;
    Precision precision_;
};

std::vector<TextRequest> some_requests()
{
    std::vector<TextRequest> requests;
    unsigned random = 3;
    const auto below = [&](unsigned n) {
        return static_cast<i32>((random = random * 1664525u + 1013904223u) >> 8) % static_cast<i32>(n);
    };
    for (const int length : {1, 70, 9, 66, 30}) { // chunks have 64 tokens
        TextRequest r;
        for (int i = 0; i < length; ++i)
            r.prompt.push_back(std::abs(below(200)));
        r.tokens = 6;
        r.top = 2;
        r.ignores_eos = true;
        r.sampler.temperature = 0;
        requests.push_back(r);
    }
    requests[1].sampler = {.temperature = 1, .repetition_penalty = 1.2, .seed = 4};
    requests[2].scored_from = 0;
    requests[3].scored_from = 60;
    requests[4].scored_from = 1;
    requests[4].tokens = 0;
    return requests;
}

struct Answers {
    std::vector<TextResult> results;
    Bytes arena = 0; ///< the largest
};

Answers answers(const RunConfig& config, int ranks, i64 rows, const std::string& checkpoint,
                const std::vector<TextRequest>& requests)
{
    Answers all;
    run_on_threads(ranks, [&](Comm& world) {
        TextModel model(config, world, {checkpoint, rows, 90, true});
        const auto arenas = gather_to_first(world, str(model.arena_bytes()));
        model.lead([&] {
            CHECK(world.rank() == 0);
            all.results = model.complete(requests);
            for (const std::string& arena : arenas)
                all.arena = std::max(all.arena, static_cast<Bytes>(std::stoll(arena)));
        });
        model.lead([] {}); // again
    });
    return all;
}

double difference(const std::vector<TokenScore>& a, const std::vector<TokenScore>& b)
{
    REQUIRE(a.size() == b.size());
    double most = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].token == b[i].token);
        REQUIRE(a[i].top.size() == b[i].top.size());
        if (!std::isnan(a[i].logprob) || !std::isnan(b[i].logprob))
            most = std::max(most, std::abs(a[i].logprob - b[i].logprob));
        for (std::size_t k = 0; k < a[i].top.size(); ++k)
            most = std::max(most, std::abs(a[i].top[k].second - b[i].top[k].second));
    }
    return most;
}

void require_same(const std::vector<TextResult>& got, const std::vector<TextResult>& want, double tolerance)
{
    REQUIRE(got.size() == want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
        INFO("request " << i);
        CHECK(got[i].text == want[i].text);
        CHECK(got[i].finish == want[i].finish);
        CHECK(difference(got[i].prompt, want[i].prompt) <= tolerance);
        CHECK(difference(got[i].sampled, want[i].sampled) <= tolerance);
    }
}

std::vector<Layout> grids()
{
    return {{1, 1, 2},
            {1, 1, 5},
            {1, 3, 1},
            {1, 2, 2},
            {2, 1, 1},
            {2, 1, 1, 3},
            {4, 1, 1, 1},
            {2, 1, 2, 3},
            {2, 2, 1, 2},
            {1, 7, 1, 0, "gpipe"},
            {4, 1, 1, 3, "1f1b", true, 1, 2}};
}

} // namespace

TEST_CASE("text and scores are the same on every grid and with any number of rows")
{
    for (const int number : {0, 3}) {    // llama; GPT-2 with tied embeddings
        if (contracts_on && number == 0) // sanitizers take their time
            continue;
        const SavedRun run(model_of(number), Precision::f64);
        const std::vector<TextRequest> requests = some_requests();
        const Answers want = answers(run.config({}), 1, 1, run.checkpoint(), requests);
        for (const TextResult& result : want.results)
            CHECK(result.finish == "length");
        CHECK(want.results[0].sampled.size() == 6);
        CHECK(want.results[4].prompt.size() == 29);
        require_same(answers(run.config({}), 1, 4, run.checkpoint(), requests).results, want.results, 1e-12);
        for (const Layout& layout : grids()) {
            INFO(layout.text());
            const int ranks = static_cast<int>(layout.ranks());
            const Answers got = answers(run.config(layout), ranks, 3, run.checkpoint(), requests);
            require_same(got.results, want.results, 1e-9);
        }
        // A grid that was not asked for.
        require_same(answers(run.config({2, 1, 2}), 3, 2, run.checkpoint(), requests).results, want.results,
                     1e-9);
    }
}

TEST_CASE("requests that come while others run have the results of each alone, on every grid")
{
    const SavedRun run(model_of(0), Precision::f32);
    const std::vector<TextRequest> requests = some_requests();
    std::vector<TextResult> alone;
    for (const TextRequest& request : requests)
        alone.push_back(answers(run.config({}), 1, 1, run.checkpoint(), {request}).results.at(0));
    for (const Layout& layout : std::vector<Layout>{{1, 1, 1}, {1, 1, 2}, {1, 2, 1}, {2, 1, 1}, {2, 1, 2}}) {
        INFO(layout.text());
        std::vector<TextResult> results(requests.size());
        run_on_threads(static_cast<int>(layout.ranks()), [&](Comm& world) {
            TextModel model(run.config(layout), world, {run.checkpoint(), 2, 90, true});
            std::size_t next = 0, tokens = 0; // one more request after every second token
            model.lead([&] {
                while (next < requests.size())
                    model.complete(
                        {.next = [&]() -> std::optional<TextFlow::Item> {
                             if (next == requests.size() || (next > 0 && tokens < 2 * next))
                                 return {};
                             const std::size_t id = next++;
                             return TextFlow::Item{id, &requests[id]};
                         },
                         .wants = {},
                         .on_token = [&](std::size_t, const TokenScore&, std::string_view) { ++tokens; },
                         .done = [&](std::size_t id,
                                     TextResult result) { results[id] = std::move(result); }});
            });
        });
        require_same(results, alone, layout.ranks() == 1 ? 0 : 1e-4);
    }
}

TEST_CASE("ranks that share a model each need less memory for it")
{
    const SavedRun run(model_of(0), Precision::f32);
    const std::vector<TextRequest> requests = some_requests();
    const Answers alone = answers(run.config({}), 1, 4, run.checkpoint(), requests);
    for (const Layout& layout : std::vector<Layout>{{1, 1, 5}, {1, 3, 1}, {4, 1, 1, 3}}) {
        INFO(layout.text());
        const Answers got =
            answers(run.config(layout), static_cast<int>(layout.ranks()), 4, run.checkpoint(), requests);
        CHECK(got.arena < alone.arena);
        require_same(got.results, alone.results, 1e-4);
    }
}

TEST_CASE("each rank uses the planned bytes")
{
    const SavedRun run(model_of(0), Precision::f32);
    for (const Layout& layout : std::vector<Layout>{{1, 1, 1}, {1, 1, 3}, {1, 3, 1}, {2, 1, 2, 3}}) {
        INFO(layout.text());
        const RunConfig config = run.config(layout);
        run_on_threads(static_cast<int>(layout.ranks()), [&](Comm& world) {
            RankEngine rank(config, world, [](const RunConfig& own, const CompileConfig& options) {
                return compile_generation(own, {rows_on(own.parallel, 3), 8, 32, true}, options);
            });
            RunConfig own = config;
            rank.restore(open_checkpoint_together(world, run.checkpoint(), own));
            Generator generator(rank.engine());
            for (const std::size_t program : {prefill_program, decode_program, score_program}) {
                const auto rows = static_cast<std::size_t>(generator.rows());
                generator.run({program,
                               std::vector<i32>(rows * static_cast<std::size_t>(generator.queries(program))),
                               std::vector<i32>(rows), std::vector<i32>(rows, 1)});
            }
            succeed_together(world, [&] {
                TRV_CHECK(rank.engine().used() == rank.engine().planned(), rank.engine().used(), " of ",
                          rank.engine().planned(), " bytes are used");
            });
        });
    }
}

TEST_CASE("evaluation on every grid has the loss of one rank, which the scores of the samples add up to")
{
    const SavedRun run(model_of(0), Precision::f64);
    const auto evaluation = [&](const RunConfig& config, int ranks) {
        Evaluation result;
        run_on_threads(ranks, [&](Comm& world) {
            RunConfig own = config_on(world, config, compile_evaluation);
            RankEngine rank(own, world, compile_evaluation);
            rank.restore(open_checkpoint_together(world, run.checkpoint(), own));
            const Batches data(std::make_unique<StoreSamples>(TokenStore::open(own.data.train.list[0].path),
                                                              own.model.seq, own.data));
            const Evaluation e = evaluate(rank.engine(), data, 0, {.program = only_program});
            succeed_together(world, [&] {
                TRV_CHECK(rank.engine().used() == rank.engine().planned(), rank.engine().used(), " of ",
                          rank.engine().planned(), " bytes are used");
            });
            if (world.rank() == 0)
                result = e;
        });
        return result;
    };
    const Evaluation want = evaluation(run.config({}), 1);
    CHECK(want.tokens == 2000);
    for (const Layout& layout : grids()) {
        INFO(layout.text());
        const Evaluation got = evaluation(run.config(layout), static_cast<int>(layout.ranks()));
        CHECK(got.tokens == want.tokens);
        CHECK(got.loss == Approx(want.loss).epsilon(1e-9));
    }
    CHECK(evaluation(run.config({2, 1, 2}), 3).loss == Approx(want.loss).epsilon(1e-9));
    CHECK(evaluation(run.config({2, 1, 2}), 1).loss == Approx(want.loss).epsilon(1e-9));

    const RunConfig config = run.config({});
    const TokenStore store = TokenStore::open(config.data.train.list[0].path);
    std::vector<TextRequest> requests;
    for (i64 sample = 0; sample < 20; ++sample) {
        TextRequest r;
        r.prompt.resize(101);
        store.read(100 * sample, 101, r.prompt.data());
        r.scored_from = 1;
        r.top = 0;
        requests.push_back(r);
    }
    double sum = 0;
    run_on_threads(2, [&](Comm& world) {
        TextModel model(run.config({1, 1, 2}), world, {run.checkpoint(), 4, 0, true});
        model.lead([&] {
            for (const TextResult& result : model.complete(requests))
                for (const TokenScore& score : result.prompt)
                    sum -= score.logprob;
        });
    });
    CHECK(sum / 2000 == Approx(want.loss).epsilon(1e-9));
}

TEST_CASE("an error of the work is that of all ranks, and of one rank ends all")
{
    const SavedRun run(model_of(1), Precision::f32);
    const RunConfig config = run.config({1, 1, 2});
    const auto lead = [&](const std::function<void(TextModel&, Comm&)>& work) {
        run_on_threads(2, [&](Comm& world) {
            TextModel model(config, world, {run.checkpoint(), 1, 10, false});
            work(model, world);
        });
    };
    lead([](TextModel& model, Comm&) {
        CHECK_THROWS_AS(model.lead([] { throw UserError({"here", "is an error", "", ""}); }), UserError);
        model.lead([&] { CHECK(model.complete({{.prompt = {1}, .tokens = 2}}).size() == 1); });
    });
    CHECK_THROWS_AS(lead([](TextModel& model, Comm& world) {
                        if (world.rank() == 1)
                            throw IoError({"rank 1", "failed", "", ""});
                        model.lead([&] { model.complete({{.prompt = {1}, .tokens = 2}}); });
                    }),
                    IoError);
    lead([](TextModel& model, Comm&) {
        const auto why = [&](const TextRequest& request) { return model.why_refused(request); };
        CHECK(why({.prompt = {}, .tokens = 1}) == "has no tokens");
        CHECK(why({.prompt = {1, 2, 3}, .tokens = 8}).empty()); // the last one is not read
        CHECK(why({.prompt = {1, 2, 3}, .tokens = 9}) ==
              "has 3 tokens and asks for 9, but the model takes 10");
        CHECK(why({.prompt = std::vector<i32>(12, 1)}) == "has 12 tokens, but the model takes 10");
        CHECK(why({.prompt = {1000}}) == "has the token 1000, but the model has 261");
        CHECK_FALSE(why({.prompt = {1}, .scored_from = 0}).empty());
        CHECK_FALSE(why({.prompt = {1}, .stop = {""}}).empty());
    });
    CHECK_THROWS_AS(run_on_threads(2,
                                   [&](Comm& world) { // positions are learned
                                       TextModel(config, world, {run.checkpoint(), 1, 101, false});
                                   }),
                    UserError);
}

TEST_CASE("programs that are not trained run on any number of ranks")
{
    const auto on = [](const Layout& layout, i64 ranks) {
        RunConfig c = Ground(TemporaryFolder().path()).config(model_of(0), Precision::f32, layout, "x");
        resolve_and_validate(c);
        c = config_on(c, ranks);
        CHECK(rank_count(c.parallel) == ranks);
        CHECK(mesh_of(c.parallel).ranks() == ranks);
        CHECK(mesh_of(generating(c).parallel).ranks() == ranks);
        CHECK(c.train.micro_batch == layout.micro_batch);
        return std::array{c.parallel.data, c.parallel.pipeline, c.parallel.tensor};
    };
    CHECK(on({2, 3, 2, 0, "1f1b", true, 2}, 12) == std::array<i64, 3>{2, 3, 2});
    CHECK(on({2, 3, 2, 0, "1f1b", true, 2}, 1) == std::array<i64, 3>{1, 1, 1});
    CHECK(on({2, 3, 2, 0, "1f1b", true, 2}, 4) == std::array<i64, 3>{2, 1, 2});
    CHECK(on({2, 3, 2, 0, "1f1b", true, 2}, 9) == std::array<i64, 3>{3, 3, 1});
    CHECK(on({1, 1, 4, 0, "1f1b", true, 1}, 6) == std::array<i64, 3>{3, 1, 2});
    CHECK(on({4, 1, 1, 3, "1f1b", true, 1, 2}, 6) == std::array<i64, 3>{6, 1, 1});

    // The first that fits, by fewer data ranks and more tensor ranks.
    RunConfig c = Ground(TemporaryFolder().path()).config(model_of(0), Precision::f32, {}, "x");
    std::vector<std::string> tried;
    c = config_on(c, 4, [&](const RunConfig& other) {
        const ParallelConfig& p = other.parallel;
        tried.push_back(str(p.data, p.pipeline, p.tensor));
        return p.pipeline == 2;
    });
    CHECK(tried == std::vector<std::string>{"411", "411", "212", "221"});
    CHECK(c.parallel.pipeline == 2);
    c = config_on(c, 3, [](const RunConfig&) { return false; });
    CHECK(c.parallel.data == 3);
}

TEST_CASE("a grid that was not asked for is one whose ranks have the memory")
{
    const SavedRun run(model_of(0), Precision::f32);
    RunConfig config = run.config({});
    const Answers alone = answers(config, 1, 1, run.checkpoint(), some_requests());
    const Answers shared = answers(run.config({1, 1, 3}), 3, 1, run.checkpoint(), some_requests());
    config.parallel.memory_limit = (alone.arena + shared.arena) / 2;
    run_on_threads(3, [&](Comm& world) {
        TextModel model(config, world, {run.checkpoint(), 1, 90, true});
        CHECK(model.config().parallel.data == 1);
        model.lead([&] { require_same(model.complete(some_requests()), alone.results, 1e-4); });
    });
    CHECK_THROWS_AS(answers(config, 1, 1, run.checkpoint(), some_requests()), UserError);
}
