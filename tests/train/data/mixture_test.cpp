// Several training stores: shares, orders, changes of the weights, and resumed runs.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "io/checkpoint/checkpoint.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/sample_order.hpp"
#include "train/data/store_samples.hpp"
#include "train/data/training_data.hpp"
#include "train/tiny_run.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

using namespace trivium;

namespace {

constexpr i64 window = 7; // tokens of a sample

MixtureHistory fresh(const std::vector<double>& weights)
{
    MixtureHistory history;
    for (std::size_t i = 0; i < weights.size(); ++i)
        history.sources.push_back({str("s", i), str("content ", i), 0});
    history.segments.push_back({0, integer_weights(weights), std::vector<i64>(weights.size(), 0)});
    return history;
}

/// A store whose window w begins with the digits of w.
std::string numbered_store(const std::string& path, i64 windows, i32 mark)
{
    std::vector<i32> ids(static_cast<std::size_t>(windows * window), mark);
    for (i64 w = 0; w < windows; ++w) {
        ids[static_cast<std::size_t>(w * window)] = static_cast<i32>(w % 200);
        ids[static_cast<std::size_t>(w * window + 1)] = static_cast<i32>(w / 200);
    }
    TokenStoreWriter store(path, *make_tokenizer("bytes"));
    store.add(ids, windows);
    store.finish();
    return path;
}

Batches open_batches(const RunConfig& config)
{
    SampleSources stores;
    for (const DataSource& source : config.data.train.list)
        stores.push_back(
            std::make_unique<StoreSamples>(TokenStore::open(source.path), config.model.seq, config.data));
    return {std::move(stores), static_cast<u64>(config.train.seed)};
}

/// (mark of the store, window) of samples [first, end).
std::vector<std::pair<i32, i64>> windows_read(const Batches& data, i64 first, i64 end)
{
    std::vector<std::pair<i32, i64>> all;
    const Batch batch = data.at(first);
    for (i64 sample = first; sample < end; ++sample) {
        i32 ids[window];
        batch.arrays.at("tokens").read(sample, {{0}, {window}}, ids);
        all.emplace_back(ids[2], ids[0] + 200 * i64{ids[1]});
    }
    return all;
}

} // namespace

TEST_CASE("before every sample the share of each source is within one sample of its weight")
{
    std::mt19937 random(1);
    std::vector<std::vector<double>> mixtures{
        {0.7, 0.3}, {1, 1, 1},       {0.25, 0.75}, {1e-3, 1, 1e3}, {0.9, 0.09, 0.009, 0.001},
        {5, 0, 2},  {1 / 3., 2 / 3.}};
    for (const std::size_t sources : {3, 7, 20}) {
        std::vector<double> weights(sources);
        for (double& weight : weights)
            weight = std::exp(std::normal_distribution<>(0, 2)(random));
        mixtures.push_back(weights);
    }
    for (const std::vector<double>& weights : mixtures) {
        double sum = 0;
        for (const double weight : weights)
            sum += weight;
        const MixtureOrder order(fresh(weights), 0);
        std::vector<i64> counts(weights.size(), 0);
        double worst = 0;
        bool in_order = true;
        for (i64 k = 0; k < 10000; ++k) {
            const MixtureOrder::Place place = order.at(k);
            in_order &= place.index == counts[place.source]++;
            for (std::size_t i = 0; i < weights.size(); ++i)
                worst = std::max(worst, std::abs(static_cast<double>(counts[i]) -
                                                 static_cast<double>(k + 1) * weights[i] / sum));
        }
        INFO(weights.size() << " sources, the first with weight " << weights[0]);
        CHECK(in_order);
        CHECK(worst < 1);
        CHECK(order.counts_before(10000) == counts);
    }
}

TEST_CASE("weights become integers, exactly where they are decimals")
{
    CHECK(integer_weights(std::vector<double>{0.7, 0.3}) == std::vector<i64>{7, 3});
    CHECK(integer_weights(std::vector<double>{50, 25, 0, 25}) == std::vector<i64>{2, 1, 0, 1});
    CHECK(integer_weights(std::vector<double>{1e300}) == std::vector<i64>{1});
    const std::vector<i64> thirds = integer_weights(std::vector<double>{1 / 3., 2 / 3.});
    CHECK(static_cast<double>(thirds[1]) / static_cast<double>(thirds[0]) == Approx(2).epsilon(1e-11));
}

TEST_CASE("a mixture continues anywhere as if it had not stopped")
{
    const MixtureHistory history = fresh({0.5, 0.3, 0.2});
    const MixtureOrder whole(history, 0);
    for (const i64 stop : {1, 4095, 4096, 9999}) {
        MixtureHistory later = history;
        const std::vector<i64> counts = whole.counts_before(stop);
        for (std::size_t i = 0; i < counts.size(); ++i)
            later.sources[i].samples = counts[i];
        const MixtureOrder resumed(later, stop);
        bool same = true;
        for (i64 k = 19999; k >= stop; k -= 7) // in any order
            same &= resumed.at(k).source == whole.at(k).source && resumed.at(k).index == whole.at(k).index;
        CHECK(same);
    }
}

TEST_CASE("changed weights, new and removed stores lose and repeat no sample of any store")
{
    const TemporaryFolder folder;
    RunConfig config;
    config.model.seq = window;
    config.train.seed = 5;
    config.train.global_batch = 1;
    const std::string a = numbered_store(folder / "a.h5", 300, 201),
                      b = numbered_store(folder / "b.h5", 400, 202),
                      c = numbered_store(folder / "c.h5", 100, 203);
    struct Part {
        std::vector<DataSource> list;
        i64 samples;
    };
    const std::vector<Part> parts{{{{a, 0.7}, {b, 0.3}}, 131},
                                  {{{a, 0.2}, {b, 0.4}, {c, 0.4}}, 97},
                                  {{{c, 0.5}, {a, 0.5}}, 50}, // another order, b pauses
                                  {{{a, 1.0}, {b, 3.0}}, 200}};
    RunState state;
    std::map<i32, std::vector<i64>> read;
    i64 end = 0;
    for (const Part& part : parts) {
        config.data.train.list = part.list;
        end += part.samples;
        config.train.steps = end;
        Batches data = open_batches(config);
        const std::vector<std::string> changes = continue_data(state, config, data);
        CHECK(changes.empty() == (state.samples == 0));
        for (const auto& [mark, w] : windows_read(data, state.samples, end))
            read[mark].push_back(w);
        state.samples = state.step = end;
        state.mixture = data.history(end);
    }
    const std::pair<i32, i64> sizes[] = {{201, 300}, {202, 400}, {203, 100}};
    for (const auto& [mark, size] : sizes) {
        const SampleOrder order(size, 5);
        std::vector<i64> expected;
        for (std::size_t i = 0; i < read[mark].size(); ++i)
            expected.push_back(order.at(static_cast<i64>(i)));
        INFO("store " << mark);
        CHECK(!expected.empty());
        CHECK(read[mark] == expected);
    }
    CHECK(std::abs(static_cast<double>(read[201].size()) - (0.7 * 131 + 0.2 * 97 + 0.5 * 50 + 0.25 * 200)) <
          4);
}

TEST_CASE("a run of one store becomes a mixture, in which that store continues")
{
    const TemporaryFolder folder;
    RunConfig config;
    config.model.seq = window;
    config.train.global_batch = 1;
    config.train.steps = 80;
    const std::string a = numbered_store(folder / "a.h5", 100, 201),
                      b = numbered_store(folder / "b.h5", 100, 202);
    config.data.train = a;
    RunState state;
    Batches alone = open_batches(config);
    CHECK(continue_data(state, config, alone).empty());
    CHECK(state.mixture.empty());
    std::set<std::pair<i32, i64>> read;
    for (const auto& each : windows_read(alone, 0, 60))
        CHECK(read.insert(each).second);
    state.samples = state.step = 60;
    state.data = alone.content();
    config.data.train.list = {{a, 1.0}, {b, 1.0}};
    Batches both = open_batches(config);
    CHECK(has(continue_data(state, config, both).at(0), "a.h5 100 %)")); // until now
    CHECK(state.mixture.sources.at(0).samples == 60);
    for (const auto& each : windows_read(both, 60, 80))
        CHECK(read.insert(each).second);
    CHECK(std::ranges::count(read, 201, &std::pair<i32, i64>::first) == 70);
}

TEST_CASE("a store that would end before the run is refused unless it may be repeated")
{
    const TemporaryFolder folder;
    RunConfig config;
    config.model.seq = window;
    config.train.steps = 150;
    config.train.global_batch = 2;
    const std::string a = numbered_store(folder / "a.h5", 100, 201),
                      b = numbered_store(folder / "b.h5", 200, 202);
    const auto start = [&](std::vector<DataSource> list) {
        config.data.train.list = std::move(list);
        return message_of<UserError>([&] {
            validate(config.data);
            Batches data = open_batches(config);
            RunState state;
            continue_data(state, config, data);
            if (!has(describe_data(state, config, data).back(), "epochs"))
                throw UserError({"", "no epochs are printed", "", ""});
        });
    };
    CHECK(start({{a}, {b}}).empty()); // one epoch of each, exactly
    CHECK(has(start({{a, 0.5}, {b, 0.5, 0, true}}),
              "a.h5 has 100 samples, but the run reads 150 of it, 1.5 epochs"));
    CHECK(has(start({{a, 0.5}, {b, 0.5}}), "epochs = 1.5 or repeat = true"));
    CHECK(start({{a, 0.5, 1.5}, {b, 0.5}}).empty());
    CHECK(has(start({{a, 0.5, 1.49}, {b, 0.5}}), "its epochs are 1.49"));
    CHECK(start({{a, 0.5, 0, true}, {b, 0.5}}).empty());
    CHECK(has(start({{a, 0.5}, {b}}), "has no weight"));
    CHECK(has(start({{a, 0.5}, {a, 0.5}}), "twice"));
    CHECK(has(start({{a, 0.0}, {b, 0.0}}), "no store has a share"));
    CHECK(has(start({{a, -1.0}, {b, 1.0}}), "weight = -1"));
    CHECK(has(start({{a, 1.0, 2, true}}), "both epochs and repeat"));
    config.train.steps = 151;
    CHECK(has(start({{a}, {b}}), "epochs"));
    CHECK(start(TrainingStores(a).list).empty()); // a string: no limit
}

TEST_CASE("runs of mixtures: 6 ranks stop, 4 continue, with the same weights or others")
{
    const TemporaryFolder folder;
    const tiny::Ground ground(folder.path());
    const std::string a = numbered_store(folder / "a.h5", 90, 201),
                      b = numbered_store(folder / "b.h5", 60, 202);
    const tiny::Layout six{3, 2, 1, 1, "1f1b", true, 2}, four{2, 2, 1, 0, "gpipe", true, 3},
        one{1, 1, 1, 0, "1f1b", true, 12};
    const auto config_of = [&](const tiny::Layout& layout, const std::string& name, double share) {
        RunConfig config = ground.config(tiny::model_of(0), Precision::f32, layout, name);
        config.data.train.list = {{a, share}, {b, 1 - share}};
        return config;
    };
    const std::vector<double> whole = tiny::train(config_of(one, "whole", 0.7), 1);
    REQUIRE(whole.size() == 8);
    for (const double later : {0.7, 0.25}) {
        const std::string name = later == 0.7 ? "same" : "other";
        RunConfig first = config_of(six, name, 0.7);
        first.train.stop_after = 4;
        tiny::train(first, 1);
        const std::vector<double> losses = tiny::train(config_of(four, name, later), 1);
        REQUIRE(losses.size() == 8);
        for (std::size_t i = 0; i < 8; ++i)
            if (later == 0.7 || i < 4)
                CHECK(losses[i] == Approx(whole[i]).epsilon(1e-4));
        if (later != 0.7)
            CHECK(losses[4] != Approx(whole[4]).epsilon(1e-5)); // other samples
        // What was read, from the histories that the checkpoints have.
        std::map<i32, std::set<i64>> read;
        i64 samples = 0;
        for (const i64 step : {4, 8}) {
            const RunState state =
                CheckpointReader::open(str(folder / name, "/", checkpoint_name(step))).state();
            RunConfig config = config_of(one, name, step == 4 ? 0.7 : later);
            Batches data = open_batches(config);
            RunState begin; // before these steps
            if (step == 8)
                begin = CheckpointReader::open(str(folder / name, "/", checkpoint_name(4))).state();
            continue_data(begin, config, data);
            CHECK(state.samples == 12 * step);
            CHECK(data.history(state.samples) == state.mixture);
            for (const auto& [mark, w] : windows_read(data, samples, state.samples))
                CHECK(read[mark].insert(w).second);
            samples = state.samples;
            CHECK(state.mixture.sources[0].samples == static_cast<i64>(read[201].size()));
            CHECK(state.mixture.sources[1].samples == static_cast<i64>(read[202].size()));
        }
        CHECK(std::abs(static_cast<double>(read[201].size()) - 48 * (0.7 + later)) < 2);
    }
}
