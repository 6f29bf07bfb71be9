// Arrays as the data of a run: what ranks read, orders, mixtures, padding, and files that do not fit a graph.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/arrays/array_writer.hpp"
#include "io/arrays/raw_hdf5.hpp"
#include "io/temporary_folder.hpp"
#include "ir/names.hpp"
#include "mpi/comm.hpp"
#include "mpi/grid.hpp"
#include "train/data/array_samples.hpp"
#include "train/data/training_data.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <set>
#include <thread>

using namespace trivium;

namespace {

const Shape shape{4, 6};
const SampleTypes inputs{{"x", {DType::f32, shape}}, {"y", {DType::i32, {}}}};

/// Element `index` of `x` in a sample that is marked by `mark`.
float element(i64 mark, i64 index) { return static_cast<float>(mark * 24 + index); }

/// Samples that are marked first, first + 1, …: y is the mark, x as element().
std::string marked_file(const std::string& path, i64 count, i64 first = 0, i64 chunk = 0)
{
    ArrayWriter writer(
        path, {{"x", DType::f32, count, shape}, {"y", DType::i16, count, {}}, {"z", DType::f64, count, {2}}},
        chunk);
    for (i64 mark = first; mark < first + count; ++mark) {
        std::vector<float> x;
        for (i64 i = 0; i < 24; ++i)
            x.push_back(element(mark, i));
        const auto y = static_cast<std::int16_t>(mark);
        const double z[] = {0, 1};
        writer.append(0, 1, x.data());
        writer.append(1, 1, &y);
        writer.append(2, 1, z);
    }
    writer.finish();
    return path;
}

RunConfig config_of(TrainingStores train, i64 batch = 3)
{
    RunConfig config;
    config.data.train = std::move(train);
    config.train.seed = 9;
    config.train.global_batch = batch;
    config.train.steps = 1000;
    return config;
}

TrainingData open_data(const RunConfig& config, const SampleTypes& types = inputs)
{
    const auto comm = make_self_comm();
    const Grid grid(*comm, {{{"data", 1}}}, "node");
    return open_training_data(config, grid, types);
}

template <class T>
std::vector<T> read(const Batch& batch, const std::string& name, i64 sample)
{
    const SampleArray& array = batch.arrays.at(name);
    std::vector<T> numbers(static_cast<std::size_t>(array.type.elements()));
    array.read(sample, {Shape(array.type.shape.size(), 0), array.type.shape}, numbers.data());
    return numbers;
}

std::vector<i64> marks(const Batches& data, i64 first, i64 end)
{
    std::vector<i64> all;
    for (i64 sample = first; sample < end; ++sample)
        all.push_back(read<i32>(data.at(first), "y", sample)[0]);
    return all;
}

std::string refused(const RunConfig& config, const SampleTypes& types = inputs)
{
    return message_of<UserError>([&] { open_data(config, types); });
}

} // namespace

TEST_CASE("each epoch reads each sample once, in an order that depends on the seed alone")
{
    const TemporaryFolder folder;
    for (const i64 chunk : {0, 3}) {
        const RunConfig config = config_of(marked_file(folder / "a.h5", 20, 0, chunk));
        const TrainingData data = open_data(config);
        CHECK(data.train.samples() == 20);
        const std::vector<i64> order = marks(data.train, 0, 40);
        CHECK(std::set(order.begin(), order.begin() + 20).size() == 20);
        CHECK(std::set(order.begin() + 20, order.end()).size() == 20);
        CHECK(!std::ranges::is_sorted(order.begin(), order.begin() + 20));
        const SampleOrder expected(20, 9);
        for (i64 i = 0; i < 40; ++i)
            CHECK(order[static_cast<std::size_t>(i)] == expected.at(i));
        for (i64 i = 0; i < 20; ++i) {
            const std::vector<float> x = read<float>(data.train.at(0), "x", i);
            CHECK(x[0] == element(order[static_cast<std::size_t>(i)], 0));
            CHECK(x[23] == element(order[static_cast<std::size_t>(i)], 23));
        }
    }
}

TEST_CASE("the ranks of any grid read equal slices of the same batch")
{
    const TemporaryFolder folder;
    const TrainingData data = open_data(config_of(marked_file(folder / "a.h5", 20)));
    const Shape whole{6, 4, 6};
    const i64 first = 12;
    std::vector<float> expected;
    for (i64 row = 0; row < 6; ++row)
        for (const float number : read<float>(data.train.at(first), "x", first + row))
            expected.push_back(number);
    for (const auto& [samples, rows, columns] :
         std::vector<std::array<i64, 3>>{{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {1, 1, 4}, {2, 2, 2}, {3, 1, 5}}) {
        Graph graph;
        graph.mesh.axes = {{"data", samples}, {"rows", rows}, {"columns", columns}};
        std::vector<float> all(expected.size(), -1);
        for (i64 rank = 0; rank < graph.mesh.ranks(); ++rank) {
            graph.at = graph.mesh.coordinates(rank);
            Value x;
            x.name = "x";
            x.role = Role::input;
            x.sharding.edit().dims = {{{"data"}}, {{"rows"}}, {{"columns"}}};
            x.whole = whole;
            x.type = {DType::f32, {}};
            const Box box = box_of(graph, x);
            x.type.shape = box.shape;
            std::vector<float> shard(static_cast<std::size_t>(x.type.elements()));
            fill_input(graph, x, data.train.at(first), 0, shard.data());
            for_each_run(whole, box, [&](i64 at, i64 local, i64 count) {
                std::copy_n(shard.begin() + local, count, all.begin() + at);
            });
        }
        CHECK(all == expected);
    }
}

TEST_CASE("padding is zeros, and the batch says which rows are samples")
{
    const TemporaryFolder folder;
    const Batches data = open_validation(marked_file(folder / "v.h5", 5, 1), inputs);
    const Batch batch = data.at(3, 5);
    for (i64 sample = 3; sample < 8; ++sample) {
        const bool good = sample < 5;
        CHECK(read<float>(batch, "valid", sample) == std::vector<float>{good ? 1.0f : 0.0f});
        CHECK(read<i32>(batch, "y", sample) == std::vector<i32>{good ? static_cast<i32>(sample + 1) : 0});
        CHECK(read<float>(batch, "x", sample)[1] == (good ? element(sample + 1, 1) : 0));
        CHECK(read<i32>(batch, value_name::samples, sample) == std::vector<i32>{static_cast<i32>(sample), 0});
    }
    // A graph may ask for both; with another type, the file must have it.
    SampleTypes types = inputs;
    types["valid"] = {DType::f32, {}};
    types["samples"] = {DType::i32, {2}};
    CHECK(open_validation(folder / "v.h5", types).samples() == 5);
    types["valid"] = {DType::f32, {3}};
    CHECK(
        says(message_of<UserError>([&] { open_validation(folder / "v.h5", types); }), "no dataset 'valid'"));
}

TEST_CASE("several files are one source; mixtures, epochs and contents work as for token stores")
{
    const TemporaryFolder folder;
    std::filesystem::create_directory(folder / "parts");
    marked_file(folder / "parts/0.h5", 4);
    marked_file(folder / "parts/1.h5", 6, 4, 2);
    const Batches parts = open_validation(folder / "parts/*.h5", inputs);
    CHECK(marks(parts, 0, 10) == std::vector<i64>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
    CHECK(open_validation(folder / "parts", inputs).content() == parts.content());

    const std::string a = marked_file(folder / "a.h5", 30, 100), b = marked_file(folder / "b.h5", 10, 200);
    TrainingStores mixture;
    mixture.list = {{a, 0.75}, {b, 0.25, 0, true}};
    RunConfig config = config_of(mixture, 1);
    config.train.steps = 40;
    config.data.valid = ValidationStores(folder / "parts");
    TrainingData data = open_data(config);
    RunState state;
    CHECK(continue_data(state, config, data.train).empty());
    const std::vector<i64> read = marks(data.train, 0, 40);
    CHECK(std::ranges::count_if(read, [](i64 mark) { return mark < 200; }) == 30);
    CHECK(std::set(read.begin(), read.end()).size() == 40);
    CHECK(has(describe_data(state, config, data.train).front(), "2 stores: 40 samples"));
    config.train.steps = 1000;
    RunState fresh;
    CHECK(says(message_of<UserError>([&] { continue_data(fresh, config, data.train); }),
               "a.h5 has 30 samples"));
    // A moved file has the same content; other numbers, another name, type or scale have not.
    const auto content = [&](const std::string& path) { return open_validation(path, inputs).content(); };
    std::filesystem::copy_file(a, folder / "moved.h5");
    CHECK(content(folder / "moved.h5") == content(a));
    CHECK(content(a).starts_with("30 samples, "));
    CHECK(content(marked_file(folder / "other.h5", 30, 101)) != content(a));
    mixture.list = {{a, 0.5}, {folder / "moved.h5", 0.5}};
    CHECK(says(refused(config_of(mixture)), "have the same samples"));
}

TEST_CASE("files that do not fit the graph are refused before the first step, by name")
{
    const TemporaryFolder folder;
    const std::string good = marked_file(folder / "a.h5", 20);
    const auto with = [&](const std::string& name, const TensorType& type) {
        SampleTypes types = inputs;
        types[name] = type;
        return refused(config_of(good), types);
    };
    CHECK(refused(config_of(good)).empty());
    CHECK(says(with("u", {DType::f32, {}}), "data.train", "a.h5", "no dataset 'u'",
               "'x' (f32[4,6]), 'y' (i16[]), 'z' (f64[2])"));
    CHECK(says(with("x", {DType::f32, {6, 4}}), "'x' has samples of f32[4,6]", "is f32[6,4] per sample"));
    CHECK(says(with("x", {DType::i32, shape}), "'x'", "no integers", "i32[4,6]"));
    CHECK(says(refused(config_of("")), "data.train", "is not given", "data arrays"));
    CHECK(says(refused(config_of(folder / "missing.h5")), "missing.h5"));
    put(folder / "text.h5", "Trivium token store\nand more");
    CHECK(says(refused(config_of(folder / "text.h5")), "is not a file of arrays", "the model is a graph"));
    CHECK(says(refused(config_of(good), {}), "is not a token store", "of arrays"));
    {
        ArrayWriter writer(folder / "lengths.h5", {{"x", DType::f32, 2, shape}, {"y", DType::i32, 1, {}}});
        const std::vector<float> x(48);
        const i32 y = 0;
        writer.append(0, 2, x.data());
        writer.append(1, 1, &y);
        writer.finish();
    }
    CHECK(says(refused(config_of(folder / "lengths.h5")), "'y' has 1 sample", "'x' has 2"));
    {
        ArrayWriter writer(folder / "none.h5", {{"x", DType::f32, 0, shape}, {"y", DType::i32, 0, {}}});
        writer.finish();
    }
    CHECK(says(refused(config_of(folder / "none.h5")), "none.h5", "has no samples"));
    {
        ArrayWriter writer(folder / "scaled.h5",
                           {{"x", DType::f32, 1, shape}, {"y", DType::i16, 1, {}, 0.5}});
        const std::vector<float> x(24);
        const std::int16_t y = 0;
        writer.append(0, 1, x.data());
        writer.append(1, 1, &y);
        writer.finish();
    }
    CHECK(says(refused(config_of(folder / "scaled.h5")), "'y'", "with scale 0.5"));
    {
        raw::File file(folder / "names.h5");
        const float x[24]{};
        file.dataset("x", H5T_NATIVE_FLOAT, H5T_NATIVE_FLOAT, {1, 4, 6}, x);
        file.dataset("y", H5T_C_S1, H5T_C_S1, {1}, "a");
    }
    CHECK(says(refused(config_of(folder / "names.h5")), "names.h5", "its dataset 'y'", "type", "complex"));
    const std::string bytes = get(good);
    put(folder / "cut.h5", bytes.substr(0, bytes.size() - 1));
    CHECK(says(refused(config_of(folder / "cut.h5")), "cut.h5", "is truncated"));
}

TEST_CASE("numbers that cannot be used end the run at its start, or at the step that reads them")
{
    const TemporaryFolder folder;
    const auto file_with = [&](double number, DType type) {
        ArrayWriter writer(folder / "bad.h5", {{"x", type, 4, {2}}});
        std::vector<double> f64(8);
        f64[5] = number;
        std::vector<float> f32(f64.begin(), f64.end());
        writer.append(0, 4, type == DType::f64 ? static_cast<const void*>(f64.data()) : f32.data());
        writer.finish();
        return config_of(folder / "bad.h5", 4);
    };
    const SampleTypes x{{"x", {DType::f32, {2}}}};
    CHECK(says(refused(file_with(std::nan(""), DType::f32), x), "data.train",
               "dataset 'x' has NaN in sample 2 at [1]"));
    CHECK(says(refused(file_with(1e300, DType::f64), x), "1e+300, which does not fit f32", "sample 2"));
    CHECK(refused(file_with(1e30, DType::f64), x).empty());
    // What the first batch does not have is found later.
    RunConfig config = file_with(1e300, DType::f64);
    config.train.global_batch = 1;
    const SampleOrder order(4, static_cast<u64>(config.train.seed));
    i64 bad = 0;
    while (order.at(bad) != 2)
        ++bad;
    if (bad == 0) // the first sample: another order
        config.train.seed += 1;
    const TrainingData data = open_data(config, x);
    i64 found = 0;
    for (i64 sample = 0; sample < 4; ++sample)
        found +=
            message_of<UserError>([&] { read<float>(data.train.at(sample), "x", sample); }).empty() ? 0 : 1;
    CHECK(found == 1);
}

TEST_CASE("the samples that come next are read ahead, with the same numbers and errors")
{
    const TemporaryFolder folder;
    for (const i64 chunk : {0, 4}) {
        const RunConfig config = config_of(marked_file(folder / "a.h5", 20, 0, chunk));
        const TrainingData plain = open_data(config);
        TrainingData data = open_data(config);
        data.train.read_ahead(3);
        // Steps of two microbatches of three samples; then samples in an order that was not announced.
        for (i64 first = 0; first < 60; first += 6)
            for (i64 sample = first; sample < first + 6; ++sample)
                for (const char* name : {"x", "x", "y"}) // "x" is read twice: announced once, taken once
                    if (*name == 'x')
                        CHECK(read<float>(data.train.at(first), name, sample) ==
                              read<float>(plain.train.at(first), name, sample));
                    else
                        CHECK(read<i32>(data.train.at(first), name, sample) ==
                              read<i32>(plain.train.at(first), name, sample));
        for (const i64 sample : {5, 50, 2})
            CHECK(marks(data.train, sample, sample + 4) == marks(plain.train, sample, sample + 4));
    }
}

namespace {

/// Numbers its samples, notes which thread reads them, and fails at one of them.
class Watched : public SampleSource {
public:
    const std::string& path() const override { return path_; }
    i64 samples() const override { return 100; }
    const std::vector<Array>& arrays() const override { return arrays_; }
    void read(std::size_t, i64 sample, const Box&, void* to) const override
    {
        if (sample == bad)
            throw UserError({"sample 7", "is damaged", "", "replace it"});
        *static_cast<i32*>(to) = static_cast<i32>(sample);
        const std::lock_guard lock(mutex_);
        readers[sample].push_back(std::this_thread::get_id());
    }
    void pad(std::size_t, const Box&, void*) const override {}
    std::string content() const override { return {}; }
    bool has_read(i64 sample) const
    {
        const std::lock_guard lock(mutex_);
        return readers.contains(sample);
    }

    i64 bad = 7;
    mutable std::map<i64, std::vector<std::thread::id>> readers;

private:
    std::string path_ = "watched";
    std::vector<Array> arrays_{{"y", {DType::i32, {}}}};
    mutable std::mutex mutex_;
};

} // namespace

TEST_CASE("a thread reads what was announced, once, and its error is that of the reader")
{
    Watched source;
    ReadAhead reader;
    const auto place = [&](i64 sample) { return ReadAhead::Place{&source, 0, sample, {}}; };
    i32 number = -1;
    for (i64 sample = 0; sample < 7; ++sample) {
        reader.read(place(sample), &number, place(sample + 1));
        CHECK(number == sample);
        while (sample + 1 < 7 && !source.has_read(sample + 1))
            std::this_thread::yield();
    }
    for (i64 sample = 0; sample < 7; ++sample) {
        REQUIRE(source.readers[sample].size() == 1);
        CHECK((source.readers[sample][0] == std::this_thread::get_id()) == (sample == 0));
    }
    CHECK(says(message_of<UserError>([&] { reader.read(place(7), &number, place(8)); }), "sample 7",
               "is damaged"));
    reader.read(place(8), &number, place(9)); // it can be used further
    CHECK(number == 8);
}
