// Files of arrays: any type, layout and box against numbers written with HDF5's own library.
#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/f16.hpp"
#include "catch.hpp"
#include "io/arrays/array_file.hpp"
#include "io/arrays/array_writer.hpp"
#include "io/arrays/raw_hdf5.hpp"
#include "io/temporary_folder.hpp"

#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <thread>

using namespace trivium;

namespace {

constexpr i64 samples = 7;
const Shape shape{3, 5, 4};
const raw::Extents extents{7, 3, 5, 4};
constexpr i64 per_sample = 60;

Box whole(const Shape& extents_of) { return {Shape(extents_of.size(), 0), extents_of}; }

/// Element `index` of sample `sample`: small whole numbers, which every type has.
int number(i64 sample, i64 index) { return static_cast<int>((sample * per_sample + index) * 7 % 120); }

template <class T>
std::vector<T> numbers()
{
    std::vector<T> all;
    for (i64 i = 0; i < samples * per_sample; ++i)
        all.push_back(static_cast<T>(number(i / per_sample, i % per_sample)));
    return all;
}

/// The elements in `box` of a sample as they should be read.
template <class T>
std::vector<T> expected(i64 sample, const Box& box, double scale = 1, double offset = 0)
{
    std::vector<T> elements;
    for (i64 i = 0; i < box.shape[0]; ++i)
        for (i64 j = 0; j < box.shape[1]; ++j)
            for (i64 k = 0; k < box.shape[2]; ++k)
                elements.push_back(static_cast<Acc<T>>(
                    number(sample, ((box.offset[0] + i) * shape[1] + box.offset[1] + j) * shape[2] +
                                       box.offset[2] + k) *
                        scale +
                    offset));
    return elements;
}

template <class T>
std::vector<T> read(const ArrayFile& file, const std::string& name, i64 sample, const Box& box)
{
    std::vector<T> elements(static_cast<std::size_t>(element_count(box.shape)));
    file.read(file.find(name), sample, box, dtype_of<T>, elements.data());
    return elements;
}

Box random_box(std::mt19937& random)
{
    Box box;
    for (const i64 extent : shape) {
        const i64 begin = std::uniform_int_distribution<i64>(0, extent - 1)(random);
        box.offset.push_back(begin);
        box.shape.push_back(std::uniform_int_distribution<i64>(1, extent - begin)(random));
    }
    return box;
}

template <class T>
bool reads_as(const ArrayFile& file, const std::string& name, double scale = 1, double offset = 0)
{
    std::mt19937 random(3);
    bool good = read<T>(file, name, 2, whole(shape)) == expected<T>(2, whole(shape), scale, offset);
    for (int i = 0; i < 20; ++i) {
        const i64 sample = std::uniform_int_distribution<i64>(0, samples - 1)(random);
        const Box box = random_box(random);
        good &= read<T>(file, name, sample, box) == expected<T>(sample, box, scale, offset);
    }
    return good;
}

template <class T>
std::string refused(const ArrayFile& file, const std::string& name, i64 sample)
{
    return message_of<UserError>(
        [&] { read<T>(file, name, sample, whole(file.arrays()[file.find(name)].shape)); });
}

std::string not_opened(const std::string& path)
{
    return message_of<UserError>([&] { ArrayFile::open(path); });
}

/// A file of two arrays, with hashes; x is f32[300, 1000], so that it has several blocks.
std::string written(const std::string& path, i64 chunk)
{
    ArrayWriter writer(path, {{"x", DType::f32, 5, {300, 1000}}, {"y", DType::i16, 5, {}, 0.5, -1}}, chunk);
    std::vector<float> x(300000);
    for (std::int16_t sample = 0; sample < 5; ++sample) {
        for (std::size_t i = 0; i < x.size(); ++i)
            x[i] = static_cast<float>(static_cast<std::size_t>(sample) * x.size() + i);
        writer.append(0, 1, x.data());
        writer.append(1, 1, &sample);
    }
    writer.finish();
    return path;
}

void flip(const std::string& path, std::size_t at)
{
    std::string bytes = get(path);
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    put(path, bytes);
}

} // namespace

TEST_CASE("numbers of every type and layout are read as numbers of every type of input")
{
    const TemporaryFolder folder;
    struct Type {
        std::string name;
        hid_t stored;
        bool whole;
    };
    const hid_t half = raw::half(), truth = raw::truth(), big_half = H5Tcopy(half);
    H5Tset_order(big_half, H5T_ORDER_BE);
    const std::vector<Type> types{
        {"i8", H5T_STD_I8LE, true},       {"u8", H5T_STD_U8BE, true},       {"i16", H5T_STD_I16LE, true},
        {"u16", H5T_STD_U16LE, true},     {"i32", H5T_STD_I32LE, true},     {"u32", H5T_STD_U32LE, true},
        {"i64", H5T_STD_I64LE, true},     {"u64", H5T_STD_U64LE, true},     {"f16", half, false},
        {"f32", H5T_IEEE_F32LE, false},   {"f64", H5T_IEEE_F64LE, false},   {"big16", H5T_STD_I16BE, true},
        {"big32", H5T_IEEE_F32BE, false}, {"big64", H5T_IEEE_F64BE, false}, {"bighalf", big_half, false}};
    const std::vector<double> all = numbers<double>();
    {
        raw::File file(folder / "all.h5");
        file.group("sub");
        file.dataset("scalar", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {}, all.data());
        for (const Type& type : types) {
            file.dataset(type.name, type.stored, H5T_NATIVE_DOUBLE, extents, all.data());
            file.dataset(type.name + "chunks", type.stored, H5T_NATIVE_DOUBLE, extents, all.data(),
                         {3, 2, 5, 3});
            file.dataset(type.name + "scaled", type.stored, H5T_NATIVE_DOUBLE, extents, all.data());
            file.number(type.name + "scaled", type.name[0] == 'i' ? "scale_factor" : "scale", 0.25);
            file.number(type.name + "scaled", type.name[0] == 'i' ? "add_offset" : "offset", -10);
        }
        std::vector<std::int8_t> yes(extents[0]);
        yes[3] = 1;
        file.dataset("mask", truth, truth, {extents[0]}, yes.data());
        std::vector<std::uint16_t> bits;
        for (const double each : all)
            bits.push_back(bf16(static_cast<float>(each)).bits);
        file.dataset("bf16", H5T_STD_U16LE, H5T_NATIVE_UINT16, extents, bits.data());
        file.text("bf16", "type", "bf16");
        file.dataset("never", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, extents, nullptr);
    }
    const ArrayFile file = ArrayFile::open(folder / "all.h5");
    CHECK(file.find("scalar") == file.arrays().size()); // no dimension for samples
    CHECK(file.find("sub") == file.arrays().size());
    CHECK(file.arrays().size() == 3 * types.size() + 3);
    for (const Type& type : types) {
        INFO(type.name);
        for (const std::string layout : {"", "chunks"}) {
            CHECK(file.arrays()[file.find(type.name + layout)].in_place ==
                  (layout.empty() && !type.name.starts_with("big")));
            CHECK(reads_as<float>(file, type.name + layout));
            CHECK(reads_as<double>(file, type.name + layout));
            CHECK(reads_as<bf16>(file, type.name + layout));
            if (type.whole)
                CHECK(reads_as<std::int32_t>(file, type.name + layout));
        }
        CHECK(reads_as<float>(file, type.name + "scaled", 0.25, -10));
        CHECK(reads_as<double>(file, type.name + "scaled", 0.25, -10));
    }
    CHECK(file.arrays()[file.find("bf16")].type == DType::bf16);
    CHECK(reads_as<float>(file, "bf16"));
    CHECK(read<float>(file, "mask", 3, {})[0] == 1);
    CHECK(read<std::int32_t>(file, "mask", 2, {})[0] == 0);
    for (const StoredArray& array : file.arrays())
        CHECK(array.defect.empty() == (array.name != "never"));
    CHECK(says(message_of<UserError>([&] { file.verify(file.find("never")); }), "'never' was never written"));
}

TEST_CASE("a number that training cannot use is named with its sample and place")
{
    const TemporaryFolder folder;
    const double infinity = std::numeric_limits<double>::infinity();
    {
        raw::File file(folder / "bad.h5");
        std::vector<double> f(60);
        f[2 * 20 + 1] = -infinity;
        f[1 * 20 + 4] = 1e300;
        for (const raw::Extents& chunk : {raw::Extents{}, raw::Extents{1, 4, 5}}) {
            const std::string layout = chunk.empty() ? "" : "chunks";
            file.dataset("f64" + layout, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, {3, 4, 5}, f.data(), chunk);
            file.dataset("f32" + layout, H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, {3, 4, 5}, f.data(), chunk);
        }
        const std::vector<std::int64_t> i{1, -5, std::int64_t{1} << 31, -(std::int64_t{1} << 31)};
        file.dataset("i64", H5T_STD_I64LE, H5T_NATIVE_INT64, {4}, i.data());
    }
    const ArrayFile file = ArrayFile::open(folder / "bad.h5");
    for (const std::string layout : {"", "chunks"}) {
        INFO(layout);
        CHECK(says(refused<double>(file, "f64" + layout, 2), "bad.h5", "dataset 'f64" + layout + "'",
                   "minus infinity", "sample 2 at [0, 1]"));
        CHECK(says(refused<float>(file, "f64" + layout, 1), "1e+300, which does not fit f32",
                   "sample 1 at [0, 4]"));
        CHECK(read<double>(file, "f64" + layout, 1, {{0, 4}, {1, 1}})[0] == 1e300);
        CHECK(says(refused<float>(file, "f32" + layout, 1), "has infinity", "sample 1 at [0, 4]"));
        CHECK(says(refused<bf16>(file, "f32" + layout, 2), "minus infinity"));
        // Only what is read counts.
        CHECK(read<float>(file, "f32" + layout, 1, {{1, 0}, {3, 5}}) == std::vector<float>(15));
        CHECK(says(message_of<UserError>([&] { file.verify(file.find("f64" + layout)); }), "minus infinity",
                   "sample 2"));
    }
    CHECK(says(refused<std::int32_t>(file, "i64", 2), "2.14748e+09, which does not fit i32", "in sample 2"));
    CHECK(read<std::int32_t>(file, "i64", 3, {})[0] == std::numeric_limits<std::int32_t>::min());
}

TEST_CASE("long rows, distant rows and several threads read the same numbers")
{
    const TemporaryFolder folder;
    const Shape large{40, 50000}; // rows of 200 kB, and gaps that are read over or left out
    {
        raw::File file(folder / "large.h5");
        std::vector<float> all(3 * 40 * 50000);
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = static_cast<float>(i);
        file.dataset("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {3, 40, 50000}, all.data());
    }
    const ArrayFile file = ArrayFile::open(folder / "large.h5");
    const auto good = [&](const Box& box, i64 sample) {
        const std::vector<float> found = read<float>(file, "x", sample, box);
        bool same = true;
        for_each_run(large, box, [&](i64 in_sample, i64 local, i64 count) {
            for (i64 i = 0; i < count; ++i)
                same &= found[static_cast<std::size_t>(local + i)] ==
                        static_cast<float>(sample * 2000000 + in_sample + i);
        });
        return same;
    };
    const std::vector<Box> boxes{{{0, 0}, {40, 50000}},
                                 {{3, 10}, {20, 49000}},
                                 {{0, 0}, {40, 1}},
                                 {{1, 49998}, {39, 2}},
                                 {{5, 7}, {1, 49000}}};
    std::vector<int> results(boxes.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < boxes.size(); ++i)
        threads.emplace_back([&, i] {
            for (i64 sample = 0; sample < 3; ++sample) {
                file.will_read(0, sample, boxes[i]);
                results[i] += good(boxes[i], sample) ? 1 : 0;
            }
        });
    for (std::thread& thread : threads)
        thread.join();
    CHECK(results == std::vector<int>(boxes.size(), 3));
}

TEST_CASE("a written file is read back; damage is found when it is read, or before HDF5 sees it")
{
    const TemporaryFolder folder;
    for (const i64 chunk : {0, 2}) {
        INFO("chunks of " << chunk);
        const std::string path = written(folder / "a.h5", chunk);
        const std::string bytes = get(path);
        {
            const ArrayFile file = ArrayFile::open(path);
            CHECK(file.arrays().size() == 2);
            CHECK(file.arrays()[0].hashed);
            CHECK(file.arrays()[0].in_place == (chunk == 0));
            CHECK(read<float>(file, "x", 4, {{299, 999}, {1, 1}})[0] == 1499999);
            CHECK(read<float>(file, "y", 3, {})[0] == 0.5f);
            file.verify(0);
            file.verify(1);
            CHECK(bytes == get(written(folder / "same.h5", chunk)));
            CHECK(file.hash(0) == ArrayFile::open(folder / "same.h5").hash(0));
            CHECK(file.hash(0) != file.hash(1));
        }
        if (chunk == 0) {
            // Bytes of x: found where they are read, in the block of 256 KiB alone.
            const std::size_t begin = bytes.find(std::string("\0\0\0\0\0\0\x80\x3f", 8)); // 0, 1
            flip(path, begin + 3 * 1200000);
            const ArrayFile file = ArrayFile::open(path);
            CHECK(read<float>(file, "x", 1, {{0, 0}, {1, 1000}}).size() == 1000);
            CHECK(says(refused<float>(file, "x", 3), "dataset 'x'", "sample 3", "hash differs"));
            CHECK(says(message_of<UserError>([&] { file.verify(0); }), "hash differs"));
            // All other bytes: the file is refused.
            put(path, bytes);
            i64 opened = 0;
            for (std::size_t at = 0; at < begin; at += 397) {
                flip(path, at);
                opened += not_opened(path).starts_with(path) ? 0 : 1;
                put(path, bytes);
            }
            CHECK(opened == 0);
        } else {
            std::size_t found = 0;
            for (std::size_t at = bytes.size() / 2; at < bytes.size() / 2 + 5; ++at) {
                flip(path, at);
                const ArrayFile file = ArrayFile::open(path);
                found += message_of<UserError>([&] { file.verify(0); }).starts_with("other") ? 0u : 1u;
                put(path, bytes);
            }
            CHECK(found == 5);
        }
        for (const std::size_t length :
             {bytes.size() - 1, bytes.size() / 2, std::size_t{600}, std::size_t{3}}) {
            put(path, bytes.substr(0, length));
            INFO("cut to " << length);
            CHECK(says(not_opened(path), "a.h5"));
        }
    }
    put(folder / "empty.h5", "");
    CHECK(says(not_opened(folder / "empty.h5"), "is empty"));
    put(folder / "text.h5", "no such thing, but long enough");
    CHECK(says(not_opened(folder / "text.h5"), "is not a file of arrays"));
    CHECK(says(not_opened(folder / "missing.h5"), "missing.h5"));
    {
        raw::File file(folder / "none.h5");
        file.group("sub");
        file.dataset("scalar", H5T_NATIVE_FLOAT, H5T_NATIVE_FLOAT, {}, nullptr);
        file.dataset("names", H5T_C_S1, H5T_C_S1, {2, 3}, nullptr);
    }
    CHECK(says(not_opened(folder / "none.h5"), "has no arrays"));
}

TEST_CASE("a file that is cut while it is open is an error, not a crash")
{
    const TemporaryFolder folder;
    {
        raw::File file(folder / "x.h5");
        const std::vector<double> all = numbers<double>();
        file.dataset("x", H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE, extents, all.data());
    }
    const ArrayFile file = ArrayFile::open(folder / "x.h5");
    std::filesystem::resize_file(folder / "x.h5", 2500);
    CHECK(says(refused<double>(file, "x", 6), "now ends after 2500 bytes"));
}

TEST_CASE("a damaged file of another program is refused or read, without a crash")
{
    const TemporaryFolder folder;
    const std::string path = folder / "x.h5";
    {
        raw::File file(path);
        const std::vector<double> all = numbers<double>();
        file.dataset("x", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, extents, all.data(), {2, 3, 5, 4});
        file.dataset("y", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, extents, all.data());
    }
    const std::string bytes = get(path);
    std::mt19937 random(8);
    i64 others = 0;
    for (int turn = 0; turn < 60; ++turn) {
        std::string damaged = bytes;
        const std::size_t at = random() % 4000; // HDF5's metadata for the most part
        damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
        put(path, damaged);
        others += message_of<UserError>([&] {
                      const ArrayFile file = ArrayFile::open(path);
                      for (std::size_t a = 0; a < file.arrays().size(); ++a)
                          file.verify(a);
                  }).starts_with("other")
                      ? 1
                      : 0;
    }
    CHECK(others == 0);
    {
        raw::File file(path);
        file.dataset("x", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, {1 << 20, 1 << 20}, nullptr, {1, 1 << 10});
        file.dataset("y", H5T_IEEE_F32LE, H5T_NATIVE_DOUBLE, {2}, std::vector<double>(2).data());
    }
    const ArrayFile file = ArrayFile::open(path);
    CHECK(says(message_of<UserError>([&] { file.verify(0); }), "'x' was never written whole"));
    file.verify(1);
}

TEST_CASE("200 GB open at once, and samples are read from anywhere")
{
    const TemporaryFolder folder;
    const hsize_t count = 50000;
    {
        raw::File file(folder / "sparse.h5"); // 200 GB of holes
        file.dataset("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {count, 1000, 1000}, nullptr, {}, true);
        file.dataset("late", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {count, 1000, 1000}, nullptr);
    }
    CHECK(std::filesystem::file_size(folder / "sparse.h5") > 200'000'000'000);
    const Seconds begin = now();
    const ArrayFile file = ArrayFile::open(folder / "sparse.h5");
    CHECK(now() - begin < 1);
    CHECK(read<float>(file, "x", 49999, {{999, 990}, {1, 10}}) == std::vector<float>(10));
    CHECK(has(file.arrays()[file.find("late")].defect, "never written"));
    CHECK(file.hash(file.find("x")) != 0); // of a few pieces
}

TEST_CASE("a writer refuses names that a dataset cannot have")
{
    const TemporaryFolder folder;
    const auto refuses = [&](std::vector<NewArray> arrays) {
        return message_of<UserError>([&] { ArrayWriter(folder / "w.h5", std::move(arrays)); });
    };
    CHECK(says(refuses({{"a/b", DType::f32, 1, {}}}), "'a/b'"));
    CHECK(says(refuses({{"", DType::f32, 1, {}}}), "''"));
    CHECK(says(refuses({{"trivium_hashes", DType::f32, 1, {}}}), "trivium_hashes"));
    CHECK(says(refuses({{"a", DType::f32, 1, {}}, {"a", DType::f32, 1, {}}}), "two arrays called 'a'"));
}
