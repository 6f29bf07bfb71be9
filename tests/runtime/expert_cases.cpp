#include "gradient_cases.hpp"

namespace trivium::runs {

namespace {

using A = Attr;
using K = OpKind;
using V = std::vector<ValueId>;

/// Logits of 2 sequences of 3 tokens and 6 experts.
ValueId logits(Builder& b) { return parameter(b, "logits", {2, 3, 6}); }

/// Not a parameter: what its update reads is not the slope of the loss.
ValueId bias(Builder& b)
{
    const ValueId x = b.op1(K::iota, {}, {.dtype = DType::f64, .lists = {{A::shape, {6}}, {A::dims, {0}}}});
    return b.op1(K::affine, {x}, {.alpha = 0.07});
}

GradientCase routed(std::string name, std::vector<i64> routing, bool biased = false)
{
    return {std::move(name), [=](Builder& b) -> V {
                V in = {logits(b)};
                if (biased)
                    in.push_back(bias(b));
                return {b.op(K::route, in,
                             {.sizes = {{"k", 2}}, .scale = 1.7, .lists = {{A::routing, routing}}})[0]};
            }};
}

/// Rows of 4 experts, which the slots name at random: some have none.
struct Rows {
    ValueId rows, slots, counts;

    Rows(Builder& b, std::vector<i64> spread, i64 width, NumberLists more = {})
    {
        more.set(A::spread, std::move(spread));
        more.set(A::count, {4});
        const V all =
            b.op(K::dispatch, {parameter(b, "tokens", {2, 4, width}), ids(b, "experts<4", {2, 4, 2})},
                 {.lists = std::move(more)});
        rows = all[0];
        slots = all[1];
        counts = all[2];
    }
    ValueId product(Builder& b, ValueId from, const std::string& name, i64 i, i64 j, i64 groups) const
    {
        return b.op1(K::grouped_matmul, {from, parameter(b, name, {4, i, j}), counts},
                     {.lists = {{A::groups, {groups}}}});
    }
};

} // namespace

std::vector<GradientCase> expert_cases()
{
    return {
        routed("route by softmax", {0, 0, 1, 1, 0}),
        routed("route by softmax, normalised", {0, 1, 1, 1, 0}),
        routed("route by sigmoid", {1, 0, 1, 1, 0}, true),
        routed("route by sigmoid, normalised, in groups", {1, 1, 3, 2, 0}),
        routed("route by softmax, in groups by two", {0, 1, 2, 1, 1}, true),
        {"router_scores of softmax",
         [](Builder& b) -> V {
             return {b.op1(K::router_scores, {logits(b)}, {.lists = {{A::routing, {0, 0, 1, 1, 0}}}})};
         }},
        {"router_scores of sigmoid",
         [](Builder& b) -> V {
             return {b.op1(K::router_scores, {logits(b)}, {.lists = {{A::routing, {1, 0, 1, 1, 0}}}})};
         }},
        {"router_squares", [](Builder& b) -> V { return {b.op1(K::router_squares, {logits(b)})}; }},
        {"dispatch",
         [](Builder& b) -> V {
             return {Rows(b, {1, 1}, 3).rows};
         }},
        {"dispatch in groups",
         [](Builder& b) -> V {
             return {Rows(b, {2, 2}, 3).rows};
         }},
        {"dispatch with dropped slots, and their combination",
         [](Builder& b) -> V {
             const Rows r(b, {2, 1}, 3, {{A::capacity, {1}}});
             return {b.op1(K::combine, {r.rows, r.slots, parameter(b, "weights", {2, 4, 2})},
                           {.lists = {{A::spread, {2, 1}}}})};
         }},
        {"combine without weights",
         [](Builder& b) -> V {
             const Rows r(b, {1, 2}, 3);
             return {b.op1(K::combine, {r.rows, r.slots}, {.lists = {{A::spread, {1, 2}}}})};
         }},
        {"grouped_matmul",
         [](Builder& b) -> V {
             const Rows r(b, {1, 1}, 3);
             return {r.product(b, r.rows, "w", 3, 5, 1)};
         }},
        {"grouped_matmul of two ranks and two groups of ranks",
         [](Builder& b) -> V {
             const Rows r(b, {2, 2}, 3);
             return {r.product(b, r.rows, "w", 3, 5, 2)};
         }},
        {"experts with biases, from tokens to tokens",
         [](Builder& b) -> V {
             const Rows r(b, {1, 1}, 3);
             const ValueId h =
                 b.op1(K::grouped_bias,
                       {r.product(b, r.rows, "up", 3, 5, 1), parameter(b, "bias", {4, 5}), r.counts},
                       {.lists = {{A::groups, {1}}}});
             const ValueId y = r.product(b, b.op1(K::gelu, {h}), "down", 5, 3, 1);
             return {b.op1(K::combine, {y, r.slots, parameter(b, "weights", {2, 4, 2})},
                           {.lists = {{A::spread, {1, 1}}}})};
         }},
    };
}

} // namespace trivium::runs
