// Tensors of a program: random, partial, from files; differences.
#include "base/bf16.hpp"
#include "base/check.hpp"
#include "catch.hpp"
#include "draw_tensors.hpp"
#include "has.hpp"
#include "io/files/files.hpp"
#include "io/hugging_face/safetensors.hpp"
#include "ir/text/text.hpp"
#include "programs/compare.hpp"
#include "programs/tensor_file.hpp"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>
#include <unistd.h>

using namespace trivium;

namespace {

template <class T>
std::vector<T> numbers(const TensorBytes& bytes)
{
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
}

template <class T>
TensorBytes bytes_of(const std::vector<T>& values)
{
    TensorBytes bytes(values.size() * sizeof(T));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return bytes;
}

template <class T>
double differ(DType type, const std::vector<T>& got, const std::vector<T>& expected)
{
    const auto n = static_cast<i64>(expected.size());
    return difference({type, {n}}, bytes_of(expected).data(), {{0}, {n}}, bytes_of(got).data());
}

const char* const given = "graph g\n"
                          "mesh x=2\n"
                          "input %a : f32[6,8] <x,->\n"
                          "input %h : bf16[3]\n"
                          "input %few : i32[4]\n"
                          "input %i : i32[100]\n"
                          "hyper %d : f64[2]\n"
                          "parameter %table : f32[4,8]\n"
                          "parameter %gain : f32[8] init fill(value=1.5)\n"
                          "state %s : i32[2] init fill(value=7.0)\n"
                          "parameter %w : f32[50] init normal(std=0.02)\n"
                          "%same = reshard(%few) : i32[4]\n"
                          "%e = embedding(%table, %same) : f32[4,8]\n"
                          "output %e\n";

/// A file that is removed with the object.
struct File {
    std::string path = (std::filesystem::temp_directory_path() / str("trivium-tensors-", getpid())).string();
    ~File() { std::filesystem::remove(path); }
};

} // namespace

TEST_CASE("random tensors depend on seed, name and index, and have their types and initial contents")
{
    const Graph graph = parse_graph(given, "given.graph");
    const Tensors all = draw_tensors(graph, 3);
    CHECK(all.size() == 9);
    CHECK((draw_tensors(graph, 3) == all));
    CHECK((draw_tensors(graph, 4).at("a") != all.at("a")));
    CHECK((all.at("gain") == bytes_of(std::vector<float>(8, 1.5f))));
    CHECK((all.at("s") == bytes_of(std::vector<std::int32_t>(2, 7))));
    CHECK(all.at("h").size() == 6);
    CHECK(all.at("d").size() == 16);
    double square = 0;
    for (const float x : numbers<float>(all.at("a")))
        square += x * x / 48;
    CHECK(square == Approx(1).epsilon(0.5));
    for (const float x : numbers<float>(all.at("w")))
        CHECK(std::abs(x) < 0.1f);
    std::int32_t most = 0;
    for (const std::int32_t i : numbers<std::int32_t>(all.at("i"))) {
        CHECK(i >= 0);
        most = std::max(most, i);
    }
    CHECK(most == 9);
    for (const std::int32_t i : numbers<std::int32_t>(all.at("few"))) // it indexes a table of 4 rows
        CHECK((i >= 0 && i < 4));
    // A box has the same numbers as the whole.
    const Box box{{3, 2}, {3, 5}};
    TensorBytes part(15 * 4), cut(15 * 4);
    const Value& a = graph[graph.find("a")];
    drawn_source(graph, 3)(a, box, part.data());
    copy_box(a.type, all.at("a").data(), box, cut.data());
    CHECK((part == cut));
    TensorBytes again = all.at("a");
    std::fill(again.begin() + 4 * (3 * 8 + 2), again.begin() + 4 * (3 * 8 + 7), std::byte{0});
    place_box(a.type, part.data(), box, again.data());
    CHECK((again == all.at("a")));
}

TEST_CASE("partial contributions combine to the whole")
{
    const Mesh mesh{{{"x", 2}, {"y", 3}}};
    for (const Combine combine : {Combine::sum, Combine::product, Combine::max, Combine::min, Combine::lse}) {
        Value value;
        value.type = {DType::f32, {2}};
        value.sharding.edit().partial = {{"y", combine}};
        for (i64 rank = 0; rank < 6; ++rank) {
            std::vector<float> data{3, 4};
            const bool nothing = contributes_nothing(value, mesh, mesh.coordinates(rank),
                                                     reinterpret_cast<std::byte*>(data.data()), 8);
            CHECK(nothing == (rank % 3 != 0));
            const float infinite = std::numeric_limits<float>::infinity();
            const float identity = combine == Combine::sum       ? 0
                                   : combine == Combine::product ? 1
                                   : combine == Combine::min     ? infinite
                                                                 : -infinite;
            if (nothing)
                CHECK((data == std::vector<float>{identity, identity}));
            else
                CHECK((data == std::vector<float>{3, 4}));
        }
    }
    Value value;
    value.type = {DType::i32, {1}};
    value.sharding.edit().partial = {{"x+y", Combine::max}};
    std::int32_t data = 5;
    CHECK(contributes_nothing(value, mesh, {1, 0}, reinterpret_cast<std::byte*>(&data), 4));
    CHECK(data == std::numeric_limits<std::int32_t>::min());
}

TEST_CASE("differences are relative, and NaN and infinity must be where they are expected")
{
    using F = std::vector<float>;
    const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
    CHECK(differ(DType::f32, F{1, 2, nan, infinite}, F{1, 2, nan, infinite}) == 0);
    CHECK(differ(DType::f32, F{2.2f, 100}, F{2, 100}) == Approx(0.1));
    CHECK(differ(DType::f32, F{0.1f, 100}, F{0, 100}) == Approx(0.1)); // of a hundredth of the largest
    CHECK(std::isinf(differ(DType::f32, F{nan}, F{1})));
    CHECK(std::isinf(differ(DType::f32, F{1}, F{infinite})));
    CHECK(std::isinf(differ(DType::f32, F{1}, F{0})));
    CHECK(differ(DType::bf16, std::vector<bf16>{1.5f}, std::vector<bf16>{1.0f}) == Approx(0.5));
    CHECK(differ(DType::f64, std::vector<double>{1 + 1e-12}, std::vector<double>{1}) ==
          Approx(1e-12).epsilon(1e-3));
    using I = std::vector<std::int32_t>;
    CHECK(differ(DType::i32, I{1, 1000}, I{1, 1000}) == 0);
    CHECK(differ(DType::i32, I{1, 1002}, I{1, 1000}) == 2);
}

TEST_CASE("tensors go through a file, and each that does not fit is named")
{
    const File file;
    Graph graph = parse_graph("graph g\n"
                              "input %a : f32[2,3]\n"
                              "input %b : bf16[3]\n"
                              "input %c : f64[2]\n"
                              "input %d : i32[2]\n"
                              "%e = gelu(%a) : f32[2,3]\n"
                              "output %e\n",
                              "g.graph");
    const Tensors all = draw_tensors(graph, 1);
    std::vector<NamedTensor> named;
    for (const auto& [name, bytes] : all)
        named.push_back({name, graph[graph.find(name)].type, bytes});
    write_tensors(file.path, named);
    const TensorSource source = file_source(graph, file.path);
    for (const auto& [name, bytes] : all) {
        const Value& value = graph[graph.find(name)];
        TensorBytes read(bytes.size());
        source(value, {Shape(value.type.shape.size(), 0), value.type.shape}, read.data());
        CHECK((read == bytes));
    }
    const auto refuses = [&](const std::string& name, const TensorType& type, const std::string& words) {
        Graph other = graph;
        other[other.find(name)].type = type;
        const std::string error = message_of<UserError>([&] { file_source(other, file.path); });
        INFO(error);
        CHECK(has(error, words));
        CHECK(has(error, "remedy: "));
    };
    refuses("a", {DType::f32, {3, 2}}, "tensor 'a' is F32 [2, 3], but g.graph:2: %a is F32 [3, 2]");
    refuses("a", {DType::f64, {2, 3}}, "tensor 'a' is F32 [2, 3], but g.graph:2: %a is F64 [2, 3]");
    refuses("d", {DType::f32, {2}}, "tensor 'd' is I32 [2]");
    graph[graph.find("a")].name = "z";
    CHECK(has(message_of<UserError>([&] { file_source(graph, file.path); }), "has no tensor 'z'"));
}

TEST_CASE("half precision in a file becomes the value's type")
{
    const File file;
    const Graph graph =
        parse_graph("graph g\ninput %a : f64[2]\n%e = gelu(%a) : f64[2]\noutput %e\n", "g.graph");
    std::vector<SafetensorsEntry> entries{{"a", "F16", {2}}};
    const std::uint16_t data[] = {0x3e00, 0xc000}; // 1.5, -2
    std::string content = print_safetensors_header(entries, {});
    content.append(reinterpret_cast<const char*>(data), sizeof data);
    write_file(file.path, content);
    TensorBytes read(16);
    file_source(graph, file.path)(graph[graph.find("a")], {{0}, {2}}, read.data());
    CHECK((read == bytes_of(std::vector<double>{1.5, -2})));
}
