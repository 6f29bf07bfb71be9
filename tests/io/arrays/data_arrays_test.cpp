// `trivium data arrays | show | verify` with arrays.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/arrays/array_file.hpp"
#include "io/arrays/raw_hdf5.hpp"
#include "io/data_command.hpp"
#include "io/foreign_files.hpp"
#include "io/temporary_folder.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

using namespace trivium;

namespace {

/// A .npy file of the numbers first, first + 1, …, `per` to a sample.
template <class T>
void put_npy(const std::string& path, const std::string& type, i64 samples, i64 per, i64 first = 0)
{
    std::string bytes;
    for (i64 i = 0; i < samples * per; ++i) {
        const T value = static_cast<T>(first + i);
        std::string number(reinterpret_cast<const char*>(&value), sizeof value);
        if (type[0] == '>')
            std::reverse(number.begin(), number.end());
        bytes += number;
    }
    put(path, foreign::numpy_header(type, str("(", samples, ", ", per, ")")) + bytes);
}

std::vector<float> sample(const ArrayFile& file, const std::string& name, i64 at)
{
    const std::size_t a = file.find(name);
    REQUIRE(a < file.arrays().size());
    const Shape& shape = file.arrays()[a].shape;
    std::vector<float> numbers(static_cast<std::size_t>(element_count(shape)));
    file.read(a, at, {Shape(shape.size(), 0), shape}, DType::f32, numbers.data());
    return numbers;
}

std::vector<float> counting(float first, std::size_t count)
{
    std::vector<float> numbers;
    for (std::size_t i = 0; i < count; ++i)
        numbers.push_back(first + static_cast<float>(i));
    return numbers;
}

std::string diagnostic(const std::vector<std::string>& arguments)
{
    return message_of<UserError>([&] { data(arguments); });
}

} // namespace

TEST_CASE("NumPy files become a file of arrays: several files, types, byte orders, scales")
{
    const TemporaryFolder folder;
    put_npy<float>(folder / "x0.npy", "<f4", 4, 6);
    put_npy<float>(folder / "x1.npy", "<f4", 3, 6, 24);
    put_npy<double>(folder / "y.npy", ">f8", 7, 2, 100);
    put_npy<std::int16_t>(folder / "z.npy", ">i2", 7, 1, -3);
    put(folder / "h.npy", foreign::numpy_header("<u2", "(7,)") +
                              foreign::packed<std::uint16_t>({0x3f80, 0x4000, 0x4040, 0, 0, 0, 0xbf80}));
    for (const std::string chunks : {"", "2"}) {
        INFO("chunks " << chunks);
        std::vector<std::string> arguments{"arrays",
                                           "x=" + (folder / "x*.npy"),
                                           "y=" + (folder / "y.npy"),
                                           "z=" + (folder / "z.npy"),
                                           "h=" + (folder / "h.npy"),
                                           "-o",
                                           folder / "f.h5",
                                           "--scale",
                                           "z=0.5",
                                           "--offset",
                                           "z=10",
                                           "--bf16",
                                           "h",
                                           "--force"};
        if (!chunks.empty())
            arguments.insert(arguments.end(), {"--chunks", chunks});
        CHECK(has(data(arguments), "f.h5: 4 arrays, 7 samples"));
        const ArrayFile file = ArrayFile::open(folder / "f.h5");
        for (i64 i = 0; i < 7; ++i) {
            CHECK(sample(file, "x", i) == counting(static_cast<float>(6 * i), 6));
            CHECK(sample(file, "y", i) == counting(static_cast<float>(100 + 2 * i), 2));
            CHECK(sample(file, "z", i)[0] == static_cast<float>(i - 3) * 0.5f + 10);
        }
        CHECK(file.arrays()[file.find("y")].type == DType::f64);
        CHECK(sample(file, "h", 2)[0] == 3);
        CHECK(sample(file, "h", 6)[0] == -1);
        const std::string shown = data({"show", folder / "f.h5"});
        CHECK(has(shown, "f32[6]"));
        CHECK(has(shown, "0 to 41, mean 20.5"));
        CHECK(has(shown, "8.5 to 11.5, mean 10"));
        const auto report = nlohmann::json::parse(data({"show", folder / "f.h5", "--json"}));
        CHECK(report["arrays"].size() == 4);
        CHECK(report["arrays"][0]["name"] == "h");
        CHECK(report["arrays"][3]["scale"] == 0.5);
        int status = -1;
        CHECK(has(data({"verify", folder / "f.h5"}, &status), "good, 4 arrays, 7 samples"));
        CHECK(status == 0);
    }
    data({"arrays", str("x=", folder / "x1.npy", ",", folder / "x0.npy"), "-o", folder / "order.h5"});
    CHECK(sample(ArrayFile::open(folder / "order.h5"), "x", 0)[0] == 24);
}

TEST_CASE("samples that are held out are in the other file, spread evenly, and in the same order")
{
    const TemporaryFolder folder;
    put_npy<float>(folder / "x.npy", "<f4", 50, 3);
    put_npy<std::uint8_t>(folder / "y.npy", "|u1", 50, 1);
    CHECK(has(data({"arrays", "x=" + (folder / "x.npy"), "y=" + (folder / "y.npy"), "-o", folder / "t.h5",
                    "--valid", folder / "v.h5", "--valid-fraction", "0.1"}),
              "v.h5: 2 arrays, 5 samples"));
    std::set<float> seen;
    for (const char* name : {"t.h5", "v.h5"}) {
        const ArrayFile file = ArrayFile::open(folder / name);
        float last = -1;
        for (i64 i = 0; i < file.arrays()[0].samples; ++i) {
            const float y = sample(file, "y", i)[0];
            CHECK(sample(file, "x", i) == counting(3 * y, 3));
            CHECK(y > last);
            if (std::string(name) == "v.h5" && last >= 0)
                CHECK(y - last == 10);
            last = y;
            CHECK(seen.insert(y).second);
        }
    }
    CHECK(seen.size() == 50);
}

TEST_CASE("what cannot be an array is refused, and no file changes")
{
    const TemporaryFolder folder;
    put_npy<float>(folder / "x.npy", "<f4", 4, 6);
    put_npy<float>(folder / "five.npy", "<f4", 4, 5);
    put_npy<float>(folder / "three.npy", "<f4", 3, 6);
    put_npy<double>(folder / "double.npy", "<f8", 4, 6);
    put_npy<std::uint16_t>(folder / "half.npy", "|V2", 4, 6);
    const std::string good = get(folder / "x.npy");
    put(folder / "short.npy", good.substr(0, good.size() - 1));
    put(folder / "long.npy", good + "x");
    put(folder / "fortran.npy", foreign::numpy_header("<f4", "(1, 1)", "True") + "1234");
    put(folder / "scalar.npy", foreign::numpy_header("<f4", "()") + "1234");
    put(folder / "none.npy", foreign::numpy_header("<f4", "(0, 3)"));
    put(folder / "huge.npy", foreign::numpy_header("<f4", "(4000000000, 4000000000, 4000000000)"));
    put(folder / "text.npy", "not NumPy, but long enough");
    std::string nan = good;
    nan.replace(nan.size() - 8, 4, std::string("\0\0\xc0\x7f", 4));
    put(folder / "nan.npy", nan);
    put(folder / "out.h5", "old");
    const auto refused = [&](const std::string& input, const auto&... parts) {
        INFO(input);
        const std::string message = diagnostic({"arrays", input, "-o", folder / "out.h5", "--force"});
        INFO(message);
        CHECK(says(message, parts...));
        CHECK(get(folder / "out.h5") == "old");
    };
    const auto x = [&](const std::string& name) { return "x=" + (folder / name); };
    refused("x", "is not NAME=FILE.npy");
    refused(x("missing.npy"), "missing.npy");
    refused(x("other*.npy"), "other*.npy");
    refused(x("short.npy"), "is truncated");
    refused(x("long.npy"), "is longer");
    refused(x("fortran.npy"), "Fortran", "ascontiguousarray");
    refused(x("scalar.npy"), "no dimension for the samples");
    refused(x("none.npy"), "has no samples");
    refused(x("huge.npy"), "is truncated");
    refused(x("text.npy"), "is not a NumPy file");
    refused(x("half.npy"), "does not have plain numbers", "--bf16");
    refused(x("nan.npy"), "has NaN in its sample 3");
    refused(x("x.npy") + "," + (folder / "five.npy"), "five.npy", "is not like");
    refused(x("x.npy") + "," + (folder / "double.npy"), "double.npy", "is not like", "f64");
    refused("a/b=" + (folder / "x.npy"), "'a/b'");
    const auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), {"arrays", x("x.npy"), "-o", folder / "out.h5"});
        return diagnostic(more);
    };
    CHECK(says(with({}), "exists already", "--force"));
    CHECK(says(with({"--force", "y=" + (folder / "three.npy")}), "'y' has 3 samples", "'x' has 4"));
    CHECK(says(with({"--force", "--scale", "y=1"}), "--scale", "'y'"));
    CHECK(says(with({"--force", "--scale", "x=much"}), "'much'"));
    CHECK(says(with({"--force", "--bf16", "x"}), "does not have the bits of bf16"));
    CHECK(says(with({"--force", "--valid", folder / "out.h5"}), "both input and output"));
    CHECK(says(with({"--force", "--valid", folder / "v.h5", "--valid-fraction", "1"}), "between 0 and 1"));
    CHECK(get(folder / "out.h5") == "old");
    CHECK(names(folder.path()).size() == 14); // and no remains
}

TEST_CASE("data verify finds NaN and infinities in files of other programs")
{
    const TemporaryFolder folder;
    {
        raw::File file(folder / "x.h5");
        std::vector<float> all(40);
        all[5] = std::nanf("");
        all[6] = INFINITY;
        all[33] = -INFINITY;
        file.dataset("x", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {10, 4}, all.data());
        file.dataset("y", H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, {10, 4}, all.data(), {3, 4});
        file.dataset("z", H5T_STD_I32LE, H5T_NATIVE_INT32, {9}, std::vector<int>(9).data());
    }
    int status = 0;
    const std::string bad = data({"verify", folder / "x.h5"}, &status);
    CHECK(status == 1);
    CHECK(has(bad, "'x': 3 in 2 samples: 1, 8"));
    CHECK(has(bad, "'y': 3 in 2 samples: 1, 8"));
    CHECK(has(data({"show", folder / "x.h5"}), "1 NaN, 2 infinities (all of 40 numbers)"));
}
