// Losses of the tokens that a store's mask says: against PyTorch, over microbatches and grids, and in batches
// that have none.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/metrics/metrics.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/token_store.hpp"
#include "train/data/store_samples.hpp"
#include "train/tiny_run.hpp"

#include <algorithm>
#include <cmath>

using namespace trivium;

namespace {

constexpr i64 seq = 16, samples = 12;

/// Documents of 5 to 27 tokens until there are `windows` windows; as in masked_losses.py.
void write_store(const std::string& path, i64 windows = samples)
{
    TokenStoreWriter writer(path, *make_tokenizer("bytes"));
    for (i64 d = 0; writer.tokens() < seq * windows + 1; ++d) {
        const i64 n = 5 + 7 * d % 23;
        std::vector<i32> ids;
        for (i64 i = 0; i < n; ++i)
            ids.push_back(static_cast<i32>((31 * d + 17 * i) % 256));
        const TokenSpan trained = d % 3 == 0   ? TokenSpan{n / 2, n}
                                  : d % 3 == 1 ? TokenSpan{n - 1, n}
                                               : TokenSpan{1, n - 2};
        writer.add_whole(ids, {&trained, 1}, n);
    }
    writer.finish();
}

struct Runs {
    TemporaryFolder folder;
    tiny::Ground ground{folder.path()};

    RunConfig config(const std::string& name, const tiny::Layout& layout, Precision precision) const
    {
        RunConfig config = ground.config(tiny::model_of(0), precision, layout, name);
        config.model.seq = seq;
        config.data.train = folder / "masked.h5";
        config.data.attention = SampleAttention::document;
        config.train.steps = 20;
        config.train.schedule = RateSchedule::constant;
        config.train.warmup = 0;
        return config;
    }
};

} // namespace

TEST_CASE("losses of 20 steps on masked tokens are those of PyTorch", "[release]")
{
    // masked_losses.py: each step reads all samples, so their order does not matter.
    const std::vector<double> expected{5.5854134574, 5.3039636493, 5.1151058049, 4.9648666682, 4.8248100707,
                                       4.6932553717, 4.5610220362, 4.4337966223, 4.3121858282, 4.1947813706,
                                       4.0801586360, 3.9656935823, 3.8503586374, 3.7364039104, 3.6205267942,
                                       3.5045232296, 3.3878608563, 3.2712408249, 3.1544294700, 3.0375671186};
    const Runs runs;
    write_store(runs.folder / "masked.h5");
    int number = 0;
    for (const tiny::Layout& layout :
         {tiny::Layout{1, 1, 1, 0, "1f1b", true, 12}, tiny::Layout{1, 1, 1, 0, "1f1b", true, 2},
          tiny::Layout{2, 2, 2, 1, "1f1b", true, 1}}) {
        const std::vector<double> losses =
            tiny::train(runs.config(str("f32-", ++number), layout, Precision::f32));
        INFO(layout.text());
        REQUIRE(losses.size() == expected.size());
        for (std::size_t step = 0; step < losses.size(); ++step)
            CHECK(std::abs(losses[step] - expected[step]) < 1e-4);
    }
}

TEST_CASE("the mean is over the trained tokens of the whole batch, however they are spread", "[release]")
{
    const Runs runs;
    write_store(runs.folder / "masked.h5", 50);
    // Counts of the 12 samples of a batch differ by a factor of ten.
    DataConfig data;
    const StoreSamples all(TokenStore::open(runs.folder / "masked.h5"), seq, data);
    std::vector<i64> counts;
    for (i64 s = 0; s < all.samples(); ++s) {
        std::vector<i32> targets(seq);
        all.read(SampleInput::targets, s, 0, seq, targets.data());
        counts.push_back(std::ranges::count_if(targets, [](i32 id) { return id >= 0; }));
    }
    CHECK(*std::ranges::max_element(counts) >= 10 * *std::ranges::min_element(counts));

    std::vector<double> first;
    int number = 0;
    for (const SamplePacking packing : {SamplePacking::concatenate, SamplePacking::best_fit})
        for (const tiny::Layout& layout :
             {tiny::Layout{1, 1, 1, 0, "1f1b", true, 12}, tiny::Layout{1, 1, 1, 0, "1f1b", true, 1},
              tiny::Layout{4, 1, 1, 2, "1f1b", true, 1}, tiny::Layout{1, 2, 2, 0, "1f1b", true, 3}}) {
            RunConfig config = runs.config(str("f64-", ++number), layout, Precision::f64);
            config.data.packing = packing;
            config.train.steps = 4;
            const std::vector<double> losses = tiny::train(config);
            REQUIRE(losses.size() == 4);
            if (layout.ranks() == 1 && layout.micro_batch == 12)
                first = losses;
            INFO(layout.text());
            for (std::size_t step = 0; step < losses.size(); ++step)
                CHECK(losses[step] == Approx(first[step]).epsilon(1e-9));
        }
}

TEST_CASE("a rank without trained tokens adds nothing; a step without any is skipped")
{
    const Runs runs;
    {
        TokenStoreWriter writer(runs.folder / "masked.h5", *make_tokenizer("bytes"));
        for (i64 d = 0; d < 96; ++d) { // one window each; two samples have trained tokens
            std::vector<i32> ids(static_cast<std::size_t>(seq), static_cast<i32>(d));
            const TokenSpan trained{4, d == 17 || d == 60 ? 9 : 4};
            writer.add_whole(ids, {&trained, 1}, seq);
        }
        writer.add_whole(std::vector<i32>{1}, {}, 1);
        writer.finish();
    }
    std::vector<double> expected;
    for (const auto& [name, layout, update] :
         {std::tuple("one", tiny::Layout{1, 1, 1, 0, "1f1b", true, 12}, UpdateMode::automatic),
          std::tuple("four", tiny::Layout{4, 1, 1, 1, "1f1b", true, 1}, UpdateMode::automatic),
          std::tuple("pipeline", tiny::Layout{1, 2, 1, 0, "1f1b", true, 3}, UpdateMode::post_validated)}) {
        RunConfig config = runs.config(name, layout, Precision::f64);
        config.train.steps = 8; // an epoch
        config.parallel.update = update;
        const std::vector<double> losses = tiny::train(config);
        if (expected.empty())
            expected = losses;
        REQUIRE(losses.size() == 8);
        int steps = 0;
        for (std::size_t i = 0; i < losses.size(); ++i) {
            steps += std::isfinite(losses[i]) ? 1 : 0;
            CHECK(std::isfinite(losses[i]) == std::isfinite(expected[i]));
            if (std::isfinite(losses[i]))
                CHECK(losses[i] == Approx(expected[i]).epsilon(1e-9));
        }
        CHECK((steps == 1 || steps == 2));
        for (const MetricsRecord& record : read_metrics(config.log.dir)) {
            CHECK(record.has("skipped") == !std::isfinite(record.value("loss")));
            CHECK(record.value("trained_tokens") >= 0);
        }
    }
}
