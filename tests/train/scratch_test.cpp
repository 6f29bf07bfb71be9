// The op table's minimum scratch, on which the memory plan relies, is enough for the kernels.
#include "base/rng.hpp"
#include "catch.hpp"
#include "ir/builder.hpp"
#include "kernels/attention.hpp"
#include "kernels/optimizer.hpp"

using namespace trivium;

TEST_CASE("the planned scratch of attention and norms is enough for one thread")
{
    const RandomStream random(3, "scratch");
    u64 at = 0;
    const auto draw = [&](i64 most) {
        return 1 + static_cast<i64>(random.bits_at(at++) % static_cast<u64>(most));
    };
    for (int round = 0; round < 200; ++round) {
        const i64 b = draw(3), s = draw(round < 100 ? 70 : 5000), g = draw(4), r = draw(6),
                  e = draw(round % 2 ? 300 : 20);
        for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
            Graph graph;
            Builder build(graph);
            const ValueId q = build.value("q", {type, {b, s, g, r, e}}, Role::input),
                          k = build.value("k", {type, {b, s, g, e}}, Role::input);
            const std::vector<ValueId> o = build.op(OpKind::attention, {q, k, k});
            build.op(OpKind::attention_grad, {o[0], q, k, k, o[0], o[1]});
            const kernels::AttentionShape shape{b, s, s, g, r, e};
            const auto need = [&](auto t) {
                return std::pair{kernels::attention_scratch<decltype(t)>(shape, 1),
                                 kernels::attention_grad_scratch<decltype(t)>(shape, 1)};
            };
            const auto [forward, backward] = type == DType::f64   ? need(double{})
                                             : type == DType::f32 ? need(float{})
                                                                  : need(bf16{});
            INFO("b " << b << " s " << s << " g " << g << " r " << r << " e " << e);
            REQUIRE(least_scratch_of(graph, graph.ops[0]) >= forward);
            REQUIRE(least_scratch_of(graph, graph.ops[1]) >= backward);
        }
        Graph graph;
        Builder build(graph);
        build.op1(OpKind::sum_squares, {build.value("x", {DType::f32, {s, 1000, g}}, Role::input)});
        REQUIRE(least_scratch_of(graph, graph.ops[0]) >= kernels::sum_squares_scratch(s * 1000 * g));
    }
}
