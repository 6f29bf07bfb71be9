#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/folders.hpp"
#include "io/hugging_face/safetensors.hpp"
#include "io/limited_files.hpp"
#include "io/temporary_folder.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

using namespace trivium;
namespace fs = std::filesystem;

namespace {

/// A file in the format: length, header, data.
std::string file_of(const std::string& header, const std::string& data)
{
    u64 length = header.size();
    std::string bytes(8, '\0');
    std::memcpy(bytes.data(), &length, 8);
    return bytes + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values)
{
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<float> values_of(const SafetensorsReader& reader, const std::string& name)
{
    const SafetensorsEntry* entry = reader.find(name);
    REQUIRE(entry);
    std::vector<float> values(static_cast<std::size_t>(element_count(entry->shape)));
    reader.read(*entry, i64{0}, std::span(values));
    return values;
}

std::vector<float> some_values(std::size_t count)
{
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i)
        values[i] = std::sin(static_cast<float>(i)) * 3e-3f;
    return values;
}

/// The error for a file with these bytes.
std::string refusal(const std::string& bytes)
{
    const TemporaryFolder folder;
    put(folder / "x.safetensors", bytes);
    return message_of<UserError>([&] { (void)SafetensorsReader::open(folder / "x.safetensors"); });
}

std::string refusal(const std::string& header, const std::string& data)
{
    return refusal(file_of(header, data));
}

const std::string entry_of_8 = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";

} // namespace

TEST_CASE("files of other programs can be read: types, shapes, parts, metadata, order")
{
    const TemporaryFolder folder;
    const std::string data =
        bytes_of<float>({1.5f, -2, 3, 4, 5, 6}) + bytes_of<std::uint16_t>({0x3fc0, 0xc000}) // bf16 1.5, -2
        + bytes_of<std::uint16_t>({0x3e00, 0x0001}) + bytes_of<double>({0.1}) + "\x01\x02\x03";
    put(folder / "x.safetensors",
        file_of(
            R"({"mask":{"dtype":"U8","shape":[3],"data_offsets":[40,43]},"b":{"dtype":"BF16","shape":[2],"data_offsets":[24,28]},)"
            R"("__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
            R"("half":{"dtype":"F16","shape":[2,1],"data_offsets":[28,32]},"wide":{"dtype":"F64","shape":[],"data_offsets":[32,40]},)"
            R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[24,24]}}   )",
            data));
    const SafetensorsReader reader = SafetensorsReader::open(folder / "x.safetensors");
    std::vector<std::string> found;
    for (const SafetensorsEntry& entry : reader.tensors())
        found.push_back(entry.name);
    CHECK(found == std::vector<std::string>{"a", "b", "half", "mask", "none", "wide"});
    CHECK(reader.bytes() == 43);
    CHECK(reader.find("a")->shape == Shape{2, 3});
    CHECK(reader.find("c") == nullptr);
    CHECK(values_of(reader, "a") == std::vector<float>{1.5f, -2, 3, 4, 5, 6});
    CHECK(values_of(reader, "b") == std::vector<float>{1.5f, -2});
    CHECK(values_of(reader, "half") == std::vector<float>{1.5f, 0x1p-24f});
    CHECK(values_of(reader, "wide") == std::vector<float>{0.1f});
    CHECK(values_of(reader, "none").empty());
    std::vector<float> part(2);
    reader.read(*reader.find("a"), i64{3}, std::span(part));
    CHECK(part == std::vector<float>{4, 5});
    std::byte middle[2];
    reader.read(*reader.find("mask"), Bytes{1}, std::span<std::byte>(middle));
    CHECK(middle[1] == std::byte{3});
    CHECK(
        says(message_of<UserError>([&] { (void)values_of(reader, "mask"); }), "\"mask\"", "U8", "quantised"));
}

TEST_CASE("every half-precision number is read exactly")
{
    std::vector<std::uint16_t> all(1 << 16);
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::uint16_t>(i);
    const TemporaryFolder folder;
    put(folder / "x.safetensors",
        file_of(R"({"x":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})", bytes_of(all)));
    const std::vector<float> values = values_of(SafetensorsReader::open(folder / "x.safetensors"), "x");
    i64 wrong = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
        const int exponent = static_cast<int>(i >> 10 & 31), fraction = static_cast<int>(i & 1023);
        double expected =
            exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
        if (exponent == 31)
            expected = fraction == 0 ? INFINITY : NAN;
        const double value = values[i];
        wrong += std::signbit(value) != (i >> 15 == 1) ||
                 (std::isnan(expected) ? !std::isnan(value) : std::abs(value) != expected);
    }
    CHECK(wrong == 0);
}

TEST_CASE("written tensors read back bit for bit, from one file or from shards")
{
    const std::vector<float> values = some_values(600'000);
    const std::vector<SafetensorsEntry> tensors{{"z", "F32", {300, 1000}},
                                                {"empty", "F32", {0}},
                                                {"a", "BF16", {299'999}},
                                                {"one", "F32", {}},
                                                {"last", "BF16", {0, 3}}};
    for (const Bytes shard : {Bytes{1} << 40, Bytes{600'000}, Bytes{1}}) {
        const TemporaryFolder folder;
        SafetensorsWriter writer(folder.path(), tensors, shard);
        for (std::size_t at = 0; at < values.size(); at += 70'001)
            writer.write(std::span(values).subspan(at, std::min<std::size_t>(70'001, values.size() - at)));
        writer.close();
        CHECK(writer.bytes() == 300'000 * 4 + 299'999 * 2 + 4);
        // Tensors without elements join the previous shard.
        CHECK(writer.shards() == (shard > 600'000 ? 1 : 3));
        CHECK(fs::exists(folder / "model.safetensors.index.json") == (writer.shards() > 1));
        const SafetensorsReader reader = SafetensorsReader::open(folder.path());
        CHECK(reader.tensors().size() == tensors.size());
        CHECK(bytes_of(values_of(reader, "z")) ==
              bytes_of(std::vector(values.begin(), values.begin() + 300'000)));
        CHECK(values_of(reader, "one") == std::vector{values.back()});
        const std::vector<float> narrow = values_of(reader, "a");
        for (std::size_t i = 0; i < narrow.size(); i += 997) {
            const float exact = values[300'000 + i];
            CHECK(std::abs(narrow[i] - exact) <= std::abs(exact) * 0x1p-8f);
            CHECK((std::bit_cast<std::uint32_t>(narrow[i]) & 0xffff) == 0);
        }
        for (const auto& entry : fs::directory_iterator(folder.path())) // the data is aligned for every type
            if (entry.path().extension() == ".safetensors")
                CHECK(get(entry.path().string())[0] % 8 == 0);
    }
}

TEST_CASE("values are rounded to the nearest even bf16; bf16 values are unchanged")
{
    const auto bits = [](std::uint32_t value) { return std::bit_cast<float>(value); };
    const std::vector<float> values{bits(0x3f808000),
                                    bits(0x3f818000),
                                    bits(0x3f808001),
                                    bits(0x3f807fff),
                                    bits(0x7f7fffff),
                                    INFINITY,
                                    -0.0f,
                                    bits(0x00010000)};
    const TemporaryFolder folder;
    SafetensorsWriter writer(folder.path(), {{"x", "BF16", {8}}}, 1000);
    writer.write(values);
    writer.close();
    CHECK(bytes_of(values_of(SafetensorsReader::open(folder.path()), "x")) ==
          bytes_of<std::uint32_t>({0x3f800000, 0x3f820000, 0x3f810000, 0x3f800000, 0x7f800000, 0x7f800000,
                                   0x80000000, 0x00010000}));
}

TEST_CASE("files that violate the format are refused")
{
    const std::string data(8, 'x');
    REQUIRE(refusal(R"({"x":)" + entry_of_8 + "}", data).empty());
    CHECK(says(refusal(""), "x.safetensors", "0 bytes"));
    CHECK(says(refusal("1234567"), "7 bytes"));
    CHECK(says(refusal(std::string(8, '\xff')), "claims a header"));
    CHECK(says(refusal(file_of("{}", "").substr(0, 9)), "claims a header"));
    std::string large(100, '\0');
    large[4] = 1; // 4 GiB
    CHECK(says(refusal(large), "claims a header of 4294967296 bytes"));
    CHECK(says(refusal("{", data), "not valid JSON"));
    CHECK(says(refusal("[]", ""), "not an object"));
    CHECK(says(refusal("{} {}", ""), "not valid JSON"));
    CHECK(says(refusal("{\"\xff\":1}", ""), "not valid JSON"));
    CHECK(says(refusal(std::string(100'000, '['), ""), "nested too deeply"));
    CHECK(says(refusal(R"({"x":)" + entry_of_8 + R"(,"x":)" + entry_of_8 + "}", data), "\"x\" twice"));
    CHECK(says(refusal(R"({"x":)" + entry_of_8 + "}", data + "y"), "9 bytes of data", "need 8"));
    CHECK(says(refusal(R"({"x":)" + entry_of_8 + "}", data.substr(1)), "7 bytes of data"));
    CHECK(says(refusal(R"({"x":)" + entry_of_8 + R"(,"y":)" + entry_of_8 + "}", data), "begins at 0",
               "ends at 8")); // overlap
    CHECK(says(refusal(R"({"x":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})", data), "begins at 4",
               "ends at 0")); // hole
    CHECK(says(refusal(R"({"__metadata__":{"a":1}})", ""), "metadata"));
    CHECK(says(refusal(R"({"__metadata__":[]})", ""), "metadata"));
    for (const char* entry : {R"(1)",
                              R"([])",
                              R"({})",
                              R"({"dtype":"F32","shape":[2]})",
                              R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"more":1})",
                              R"({"dtype":"F99","shape":[2],"data_offsets":[0,8]})",
                              R"({"dtype":5,"shape":[2],"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":2,"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":[2.0],"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":[-2],"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":[3],"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":[2],"data_offsets":[0,8,8]})",
                              R"({"dtype":"F32","shape":[2],"data_offsets":[8,0]})",
                              R"({"dtype":"F32","shape":[2],"data_offsets":[-8,0]})",
                              R"({"dtype":"F32","shape":[2],"data_offsets":[18446744073709551608,0]})",
                              R"({"dtype":"F32","shape":[2],"data_offsets":[0,1e99]})",
                              R"({"dtype":"F32","shape":["2"],"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":[4294967296,4294967296,2],"data_offsets":[0,8]})",
                              R"({"dtype":"F32","shape":[2305843009213693954],"data_offsets":[0,8]})",
                              R"({"dtype":"F4","shape":[3],"data_offsets":[0,1]})",
                              R"({"dtype":null,"shape":[2],"data_offsets":[0,8]})"}) {
        INFO(entry);
        CHECK(says(refusal(std::string(R"({"x":)") + entry + "}", data), "tensor \"x\""));
    }
    // A name with control characters, which must not reach a terminal or a log.
    const std::string message = refusal(R"({"\u001b[31m)" + std::string(5000, 'n') + R"(":1})", "");
    CHECK(says(message, "\\u001b[31m"));
    CHECK(message.size() < 500);
}

TEST_CASE("folders whose index and shards disagree are refused")
{
    const TemporaryFolder folder;
    const auto index = [&](const std::string& map) {
        put(folder / "model.safetensors.index.json", R"({"metadata":{},"weight_map":)" + map + "}");
    };
    const auto message = [&] {
        return message_of<UserError>([&] { (void)SafetensorsReader::open(folder.path()); });
    };
    const std::string data(8, 'x');
    CHECK(says(message(), "neither model.safetensors"));
    put(folder / "1.safetensors", file_of(R"({"x":)" + entry_of_8 + "}", data));
    put(folder / "2.safetensors", file_of(R"({"y":)" + entry_of_8 + "}", data));
    index(R"({"x":"1.safetensors","y":"2.safetensors"})");
    CHECK(message().empty());
    index(R"({"x":"1.safetensors","y":"3.safetensors"})");
    CHECK(says(message(), "3.safetensors", "is missing"));
    index(R"({"x":"1.safetensors","y":"2.safetensors","z":"2.safetensors"})");
    CHECK(says(message(), "2.safetensors", "no tensor \"z\""));
    index(R"({"x":"1.safetensors"})"); // the other shard is not read
    CHECK(message().empty());
    index(R"({"x":"2.safetensors"})");
    CHECK(says(message(), "\"y\"", "does not list it"));
    index(R"({"x":"1.safetensors","x":"2.safetensors"})");
    CHECK(says(message(), "\"x\" twice"));
    put(folder / "2.safetensors", file_of(R"({"x":)" + entry_of_8 + "}", data)); // in both shards
    index(R"({"x":"1.safetensors","y":"2.safetensors"})");
    CHECK(says(message(), "\"x\"", "1.safetensors"));
    for (const char* map :
         {R"({"x":"../1.safetensors"})", R"({"x":"/etc/passwd"})", R"({"x":5})", R"({"x":".safetensors"})",
          R"({"x":"1.safetensors\u0000"})", "[]", "{}", "{\"x\"", "null"}) {
        INFO(map);
        index(map);
        CHECK(says(message(), "model.safetensors.index.json"));
    }
    fs::create_directory(folder / "4.safetensors");
    index(R"({"x":"4.safetensors"})");
    CHECK(says(message(), "not a regular file"));
}

TEST_CASE("links are followed within a folder and into the cache of huggingface_hub, not elsewhere")
{
    const TemporaryFolder folder;
    const std::string file = file_of(R"({"x":)" + entry_of_8 + "}", std::string(8, 'x'));
    put(folder / "elsewhere/model.safetensors", file);
    put(folder / "cache/blobs/0a1b", file);
    fs::create_directories(folder / "cache/snapshots/main");
    const std::string model = folder / "cache/snapshots/main";
    const auto link_to = [&](const std::string& target) {
        fs::remove(model + "/model.safetensors");
        fs::create_symlink(target, model + "/model.safetensors");
    };
    const auto message = [&] { return message_of<UserError>([&] { (void)SafetensorsReader::open(model); }); };
    link_to("../../blobs/0a1b");
    CHECK(message().empty());
    link_to(folder / "elsewhere/model.safetensors");
    CHECK(says(message(), "link out of its folder", "cp -rL"));
    put(model + "/real", file);
    link_to("real");
    CHECK(message().empty());
    link_to("nowhere");
    CHECK(says(message(), "not a regular file"));
}

TEST_CASE("make_whole_folder is atomic")
{
    const TemporaryFolder folder;
    const auto write = [](const std::string& dir) {
        SafetensorsWriter writer(dir, {{"x", "F32", {100'000}}}, 1 << 20);
        writer.write(some_values(100'000));
        writer.close();
    };
    {
        const LimitedFiles full(100'000);
        CHECK(says(message_of<IoError>([&] { make_whole_folder(folder / "model", write); }),
                   "model.safetensors", "cannot write"));
    }
    CHECK(names(folder.path()).empty());
    make_whole_folder(folder / "model/", write);
    CHECK(names(folder.path()) == std::vector<std::string>{"model"});
    CHECK(values_of(SafetensorsReader::open(folder / "model"), "x") == some_values(100'000));
    CHECK(says(message_of<UserError>([&] { make_whole_folder(folder / "model", write); }), "not empty"));
    fs::create_directory(folder / "there");
    make_whole_folder(folder / "there", write); // an empty one is filled
    CHECK(names(folder / "there") == std::vector<std::string>{"model.safetensors"});
    put(folder / "file", "");
    CHECK(says(message_of<UserError>([&] { make_whole_folder(folder / "file", write); }), "not a folder"));
    CHECK(says(message_of<UserError>([&] { make_whole_folder("/proc/x/model", write); }), "cannot make"));
}
