// How documents become samples: best-fit packing, begins of documents, positions, and losses that do not
// count, against plain loops.
#include "base/check.hpp"
#include "catch.hpp"
#include "compile/forward.hpp"
#include "io/temporary_folder.hpp"
#include "train/data/batches.hpp"
#include "train/data/store_samples.hpp"
#include "train/evaluator.hpp"
#include "train/tiny_run.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

using namespace trivium;

namespace {

/// Documents of 1 to 60 tokens and end of document, of which the first tokens tell them apart.
std::vector<std::vector<i32>> documents_of(int count, unsigned seed)
{
    std::mt19937 random(seed);
    std::vector<std::vector<i32>> documents;
    for (int d = 0; d < count; ++d) {
        std::vector<i32> ids(random() % 10 == 0 ? 1 + random() % 60 : 1 + random() % 9);
        for (i32& id : ids)
            id = static_cast<i32>(random() % 256);
        documents.push_back(ids);
    }
    return documents;
}

TokenStore store_of(const std::string& path, std::vector<std::vector<i32>>& documents)
{
    TokenStoreWriter writer(path, *make_tokenizer("bytes"));
    for (const std::vector<i32>& ids : documents)
        writer.add(ids, static_cast<Bytes>(ids.size()));
    writer.finish();
    TokenStore store = TokenStore::open(path);
    for (std::vector<i32>& ids : documents)
        ids.push_back(store.eos());
    return store;
}

DataConfig config_of(SamplePacking packing, SampleAttention attention,
                     BoundaryLoss loss = BoundaryLoss::automatic)
{
    DataConfig config;
    config.packing = packing;
    config.attention = attention;
    config.boundary_loss = loss;
    return config;
}

std::vector<i32> row(const StoreSamples& samples, SampleInput input, i64 sample)
{
    std::vector<i32> numbers(static_cast<std::size_t>(samples.seq()));
    samples.read(input, sample, 0, samples.seq(), numbers.data());
    // The same in parts, as ranks with a part of the sequence read it.
    std::vector<i32> parts(numbers.size());
    for (i64 begin = 0; begin < samples.seq(); begin += 3)
        samples.read(input, sample, begin, std::min<i64>(3, samples.seq() - begin), parts.data() + begin);
    CHECK(parts == numbers);
    return numbers;
}

} // namespace

TEST_CASE("best-fit decreasing fills bins as a plain search does")
{
    std::mt19937 random(3);
    for (int round = 0; round < 200; ++round) {
        const i64 capacity = 2 + static_cast<i64>(random() % 40);
        std::vector<i64> lengths(random() % 120);
        for (i64& length : lengths)
            length = 1 + static_cast<i64>(random()) % capacity;
        std::vector<bool> placed(lengths.size());
        std::vector<std::vector<std::size_t>> bins;
        std::vector<i64> room;
        for (std::size_t n = 0; n < lengths.size(); ++n) {
            std::size_t longest = lengths.size();
            for (std::size_t i = 0; i < lengths.size(); ++i)
                if (!placed[i] && (longest == lengths.size() || lengths[i] > lengths[longest]))
                    longest = i;
            placed[longest] = true;
            std::size_t best = bins.size();
            for (std::size_t b = 0; b < bins.size(); ++b)
                if (room[b] >= lengths[longest] && (best == bins.size() || room[b] < room[best]))
                    best = b;
            if (best == bins.size()) {
                bins.emplace_back();
                room.push_back(capacity);
            }
            bins[best].push_back(longest);
            room[best] -= lengths[longest];
        }
        CHECK(best_fit(lengths, capacity) == bins);
    }
}

TEST_CASE("best-fit packing loses no token, and documents stay apart")
{
    const TemporaryFolder folder;
    constexpr i64 seq = 11;
    std::vector<std::vector<i32>> documents = documents_of(8000, 1); // several chunks
    TokenStore store = store_of(folder / "a.h5", documents);
    const i32 eos = store.eos();
    const StoreSamples samples(std::move(store), seq,
                               config_of(SamplePacking::best_fit, SampleAttention::document));
    std::map<std::vector<i32>, int> expected, found; // pieces of documents
    i64 tokens = 0, targets = 0, counted = 0;
    for (const std::vector<i32>& ids : documents) {
        tokens += static_cast<i64>(ids.size());
        targets += static_cast<i64>(ids.size()) - 1; // all but the first
        for (std::size_t begin = 0; begin == 0 || begin + 1 < ids.size(); begin += seq)
            ++expected[{ids.begin() + static_cast<i64>(begin),
                        ids.begin() + static_cast<i64>(std::min(begin + seq + 1, ids.size()))}];
    }
    for (i64 s = 0; s < samples.samples(); ++s) {
        const std::vector<i32> ids = row(samples, SampleInput::tokens, s),
                               next = row(samples, SampleInput::targets, s),
                               starts = row(samples, SampleInput::starts, s),
                               positions = row(samples, SampleInput::positions, s);
        for (std::size_t i = 0; i < seq;) {
            std::size_t end = i; // of the document
            bool counts = false;
            for (; end < seq && starts[end] == static_cast<i32>(i); ++end) {
                CHECK(positions[end] == static_cast<i32>(end - i));
                counts |= next[end] >= 0;
                counted += next[end] >= 0;
                if (end + 1 < seq && starts[end + 1] == static_cast<i32>(i) && next[end] >= 0)
                    CHECK(next[end] == ids[end + 1]);
            }
            REQUIRE(end > i);
            std::vector<i32> piece(ids.begin() + static_cast<i64>(i), ids.begin() + static_cast<i64>(end));
            if (end == seq && next[seq - 1] >= 0)
                piece.push_back(next[seq - 1]);
            else
                CHECK(next[end - 1] == -1);
            if (counts)
                ++found[piece];
            else // padding
                CHECK(std::ranges::all_of(piece, [&](i32 id) { return id == eos; }));
            i = end;
        }
    }
    CHECK(found == expected);
    CHECK(counted == targets);
    CHECK(samples.samples() * (seq + 1) < tokens + tokens / 4); // tightly
}

TEST_CASE("the loss of packed documents is that of each document alone")
{
    const tiny::Ground ground(TemporaryFolder().path()); // starts Kokkos
    const TemporaryFolder folder;
    std::vector<std::vector<i32>> documents = documents_of(40, 4);
    store_of(folder / "all.h5", documents);
    for (std::vector<i32>& ids : documents)
        ids.pop_back();               // its end
    for (const int family : {0, 1}) { // rotary and learned positions
        RunConfig config = ground.config(tiny::model_of(family), Precision::f64, {}, "x");
        config.model.seq = 13; // documents of up to 60 tokens are divided
        config.data = config_of(SamplePacking::best_fit, SampleAttention::document);
        config.train.global_batch = config.train.micro_batch = 3;
        resolve_and_validate(config);
        Engine engine(compile_evaluation(config, {}));
        engine.initialise(0);
        draw_parameters(engine.program(only_program), engine.arenas(), 1, "test", 0.3);
        const auto loss_of = [&](const std::string& path, LossSum& sum) {
            const Batches data(
                std::make_unique<StoreSamples>(TokenStore::open(path), config.model.seq, config.data));
            const Evaluation e = evaluate(engine, data, 0, {.program = only_program});
            sum.sum += e.loss * static_cast<double>(e.tokens);
            sum.tokens += static_cast<double>(e.tokens);
        };
        LossSum packed, alone;
        loss_of(folder / "all.h5", packed);
        for (const std::vector<i32>& ids : documents) {
            std::vector<std::vector<i32>> one{ids};
            store_of(folder / "one.h5", one);
            loss_of(folder / "one.h5", alone);
        }
        CHECK(packed.tokens == alone.tokens);
        CHECK(packed.sum == Approx(alone.sum).epsilon(1e-9));
        config.data.attention = SampleAttention::causal; // for comparison: it looks at other documents
        config.data.boundary_loss = BoundaryLoss::ignore;
        Engine causal(compile_evaluation(config, {}));
        causal.initialise(0);
        draw_parameters(causal.program(only_program), causal.arenas(), 1, "test", 0.3);
        const Batches data(std::make_unique<StoreSamples>(TokenStore::open(folder / "all.h5"),
                                                          config.model.seq, config.data));
        CHECK(std::abs(evaluate(causal, data, 0, {.program = only_program}).loss / alone.mean() - 1) > 1e-6);
    }
}

TEST_CASE("training on documents is the same on grids")
{
    const TemporaryFolder folder;
    const tiny::Ground ground(folder.path());
    std::vector<std::vector<i32>> documents = documents_of(600, 5);
    store_of(folder / "documents.h5", documents);
    const auto losses = [&](const tiny::Layout& layout, const std::string& name, const DataConfig& data) {
        RunConfig config = ground.config(tiny::model_of(0), Precision::f32, layout, name);
        config.data = data;
        config.data.train = folder / "documents.h5";
        return tiny::train(config, 1);
    };
    for (const SamplePacking packing : {SamplePacking::concatenate, SamplePacking::best_fit}) {
        const DataConfig data = config_of(packing, SampleAttention::document);
        const std::string name(name_of(packing));
        const std::vector<double> one = losses({1, 1, 1, 0, "1f1b", true, 12}, name + "1", data);
        REQUIRE(one.size() == 8);
        const std::vector<double> many =
            losses(packing == SamplePacking::concatenate ? tiny::Layout{2, 1, 2, 1, "1f1b", true, 3}
                                                         : tiny::Layout{1, 2, 2, 0, "gpipe", false, 6},
                   name + "4", data);
        for (std::size_t i = 0; i < one.size(); ++i)
            CHECK(many[i] == Approx(one[i]).epsilon(1e-4));
        DataConfig causal = data;
        causal.attention = SampleAttention::causal;
        causal.boundary_loss = BoundaryLoss::ignore;
        CHECK(losses({1, 1, 1, 0, "1f1b", true, 12}, name + "causal", causal)[0] !=
              Approx(one[0]).epsilon(1e-6));
    }
}

TEST_CASE("windows of documents in a row: begins, positions and losses")
{
    const TemporaryFolder folder;
    constexpr i64 seq = 10;
    std::vector<std::vector<i32>> documents = documents_of(60, 2);
    const std::string path = folder / "a.h5";
    const i32 eos = store_of(path, documents).eos();
    std::vector<i32> all;
    for (const std::vector<i32>& ids : documents)
        all.insert(all.end(), ids.begin(), ids.end());
    for (const SampleAttention attention : {SampleAttention::causal, SampleAttention::document})
        for (const BoundaryLoss loss : {BoundaryLoss::automatic, BoundaryLoss::count, BoundaryLoss::ignore}) {
            const StoreSamples samples(TokenStore::open(path), seq,
                                       config_of(SamplePacking::concatenate, attention, loss));
            const bool document = attention == SampleAttention::document,
                       ignores =
                           loss == BoundaryLoss::ignore || (loss == BoundaryLoss::automatic && document);
            REQUIRE(samples.samples() == (static_cast<i64>(all.size()) - 1) / seq);
            for (i64 s = 0; s < samples.samples(); ++s) {
                std::vector<i32> ids, next, starts, positions;
                i32 start = 0;
                for (i64 i = 0; i < seq; ++i) {
                    const auto at = static_cast<std::size_t>(s * seq + i);
                    if (i > 0 && all[at - 1] == eos)
                        start = static_cast<i32>(i);
                    ids.push_back(all[at]);
                    next.push_back(ignores && all[at] == eos ? -1 : all[at + 1]);
                    starts.push_back(start);
                    positions.push_back(static_cast<i32>(document ? i - start : i));
                }
                CHECK(row(samples, SampleInput::tokens, s) == ids);
                CHECK(row(samples, SampleInput::targets, s) == next);
                CHECK(row(samples, SampleInput::starts, s) == starts);
                CHECK(row(samples, SampleInput::positions, s) == positions);
            }
        }
}
