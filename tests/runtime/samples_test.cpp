// The shards of named arrays that the ranks of a mesh read.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "runtime/samples.hpp"

using namespace trivium;

namespace {

/// f32[5, 3] per sample: the index of the element in the whole source.
SampleArray numbered()
{
    const TensorType type{DType::f32, {5, 3}};
    return {type, [type](i64 sample, const Box& box, void* to) {
                for_each_run(type.shape, box, [&](i64 whole, i64 local, i64 count) {
                    for (i64 i = 0; i < count; ++i)
                        static_cast<float*>(to)[local + i] =
                            static_cast<float>(sample * type.elements() + whole + i);
                });
            }};
}

Value input(const std::string& name, DType dtype, const Shape& shape)
{
    Value value;
    value.name = name;
    value.type = {dtype, shape};
    value.role = Role::input;
    return value;
}

} // namespace

TEST_CASE("each rank reads its shard, with samples over two axes and a dimension of samples over another")
{
    Graph graph;
    graph.mesh.axes = {{"replica", 2}, {"sequence", 2}, {"data", 2}};
    const Shape whole{7, 5, 3}; // parts differ in size
    const Batch batch{{{"x", numbered()}}, 100};
    const i64 microbatch = 2;
    for (i64 rank = 0; rank < graph.mesh.ranks(); ++rank) {
        INFO("rank " << rank);
        graph.at = graph.mesh.coordinates(rank);
        Value x = input("x", DType::f32, {});
        x.sharding.edit().dims = {{{"replica", "data"}}, {{"sequence"}}, {}};
        x.whole = whole;
        const Box box = box_of(graph, x);
        x.type.shape = box.shape;
        std::vector<float> shard(static_cast<std::size_t>(x.type.elements()));
        fill_input(graph, x, batch, microbatch, shard.data());
        for_each_run(whole, box, [&](i64 from, i64 local, i64 count) {
            for (i64 i = 0; i < count; ++i)
                CHECK(shard[static_cast<std::size_t>(local + i)] ==
                      static_cast<float>((batch.first + microbatch * whole[0]) * 15 + from + i));
        });
    }
}

TEST_CASE("an input without an array of its name and type is an error with the names of the source")
{
    const Batch batch{{{"x", numbered()}, {"positions", sequence_array(4, [](i64, i64 i) { return i; })}}};
    const auto message = [&](const Value& value) {
        return message_of<UserError>([&] { fill_input({}, value, batch, 0, nullptr); });
    };
    const std::string missing = message(input("segments", DType::i32, {2, 4}));
    CHECK(has(missing, "no array 'segments' of i32[4] per sample"));
    CHECK(has(missing, "'positions' (i32[4]), 'x' (f32[5,3])"));
    CHECK(has(message(input("positions", DType::i32, {2, 5})), "'positions' of i32[5]"));
    CHECK(has(message(input("x", DType::f64, {2, 5, 3})), "'x' of f64[5,3]"));
}
