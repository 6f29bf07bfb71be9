// Factor rules: shapes, kinds and gradients of products; and rules that do not fit.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "ir/factors.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/ops/product_form.hpp"

#include <set>

using namespace trivium;

namespace {

FactorKind kind_of(const FactorRule& rule, std::string_view name)
{
    const int at = rule.find(name);
    REQUIRE(at >= 0);
    return rule.factors[static_cast<std::size_t>(at)].kind;
}

FactorRule make_rule(const Rule& rule, const std::vector<Shape>& operands, const FactorSizes& sizes,
                     const std::string& place, bool variadic = false)
{
    std::vector<const Shape*> shapes;
    for (const Shape& shape : operands)
        shapes.push_back(&shape);
    return trivium::make_rule(
        rule, shapes, sizes, [&] { return place; }, variadic);
}

FactorRule product(const std::string& rule, Shape a, Shape b)
{
    return make_rule(rule, {std::move(a), std::move(b)}, {}, "test");
}

std::string rule_error(std::string_view rule, const std::vector<Shape>& operands,
                       const FactorSizes& sizes = {})
{
    return message_of<UserError>([&] { make_rule(rule, operands, sizes, "the place"); });
}

} // namespace

TEST_CASE("a rule gives the shapes of results and the kinds of factors")
{
    const FactorRule matmul = product("b s d, d f -> b s f", {2, 3, 4}, {4, 5});
    CHECK(matmul.shape_of(matmul.results[0]) == Shape{2, 3, 5});
    CHECK(kind_of(matmul, "d") == FactorKind::reduced);
    CHECK(kind_of(matmul, "f") == FactorKind::parallel);
    CHECK(matmul.find("x") == -1);

    const FactorRule norm = make_rule("* d, d -> * d, * | d", {{2, 3, 4}, {4}}, {}, "test");
    CHECK(norm.shape_of(norm.results[0]) == Shape{2, 3, 4});
    CHECK(norm.shape_of(norm.results[1]) == Shape{2, 3});
    CHECK(kind_of(norm, "d") == FactorKind::replicated);
    CHECK(kind_of(norm, "*1") == FactorKind::parallel);

    const FactorRule flat =
        make_rule("* d, d -> * d, * | d", {{4}, {4}}, {}, "test"); // `*` may stand for nothing
    CHECK(flat.shape_of(flat.results[1]) == Shape{});

    const FactorRule embedding = make_rule("v d, * -> * d | v?", {{10, 4}, {2, 3}}, {}, "test");
    CHECK(embedding.shape_of(embedding.results[0]) == Shape{2, 3, 4});
    CHECK(kind_of(embedding, "v") == FactorKind::indexed);

    const FactorRule stats = make_rule("* v, * -> *:lse, * | v?", {{2, 9}, {2}}, {}, "test");
    CHECK(stats.combine == std::vector{Combine::lse, Combine::sum});

    const FactorRule sum = make_rule("* -> .", {{2, 9}}, {}, "test");
    CHECK(sum.shape_of(sum.results[0]) == Shape{});
    CHECK(kind_of(sum, "*0") == FactorKind::reduced);
}

TEST_CASE("a factor that only results have takes its size from an attribute")
{
    const FactorRule grad =
        make_rule("* d, * -> v d | v?", {{2, 3, 4}, {2, 3}}, {{"v", 10}, {"d", 99}}, "test");
    CHECK(grad.shape_of(grad.results[0]) ==
          Shape{10, 4}); // the size of an operand takes precedence over an attribute
    CHECK(has(rule_error("* d, * -> v d", {{2, 4}, {2}}),
              "no operand or attribute determines the size of 'v'"));
    CHECK(has(rule_error("* d, * -> v d", {{2, 4}, {2}}, {{"v", -1}}),
              "the size of 'v' is -1, must be from 0 to 2^48"));
}

TEST_CASE("the last pattern of a variadic rule repeats")
{
    const FactorRule rule = make_rule("., . -> w", {{}, {}, {}, {}}, {{"w", 2}}, "test", true);
    CHECK(rule.operands.size() == 4);
    CHECK(rule.shape_of(rule.results[0]) == Shape{2});
    CHECK_THROWS_AS(make_rule("., . -> w", {{}, {}, {3}}, {{"w", 2}}, "test", true), UserError);
    CHECK_THROWS_AS(make_rule("., . -> w", {{}, {}, {}}, {{"w", 2}}, "test"), UserError);
}

TEST_CASE("operands that do not fit are refused, with the place and the rule")
{
    const std::string wrong = rule_error("m k, k n -> m n", {{2, 3}, {4, 5}});
    CHECK(has(wrong, "the place: dimension 0 of operand 1 is 4, but 'k' is 3"));
    CHECK(has(wrong, "its rule is 'm k, k n -> m n'"));
    CHECK(
        has(rule_error("m k, k n -> m n", {{2, 3}, {3}}), "operand 1 has 1 dimensions, the rule requires 2"));
    CHECK(has(rule_error("m k, k n -> m n", {{2, 3}}), "has 1 operands, the rule requires 2"));
    CHECK(has(rule_error("* d, d -> * d", {{}, {3}}),
              "operand 0 has 0 dimensions, the rule requires 1 or more"));
    CHECK(has(rule_error("*, * -> *", {{2, 3}, {3}}),
              "operand 1 has 1 free dimensions, but another operand has 2"));
    CHECK(has(rule_error("*, * -> *", {{2, 3}, {2, 4}}), "dimension 1 of operand 1 is 4"));
    CHECK(has(rule_error("m k", {{2, 3}}), "the rule has no '->'"));
    CHECK(has(rule_error("* * -> *", {{2, 3}}), "more than one '*'"));
}

TEST_CASE("the rules of a product's gradients swap its sides")
{
    CHECK(to_text(product_gradient_rule("b s d, d f -> b s f", 0)) == "b s f, d f -> b s d");
    CHECK(to_text(product_gradient_rule("b s d, d f -> b s f", 1)) == "b s d, b s f -> d f");
    CHECK(to_text(product_gradient_rule("a,b->a b", 0)) == "a b, b -> a");
    CHECK_THROWS_AS(product_gradient_rule("a b", 0), UserError);
    CHECK_THROWS_AS(product_gradient_rule("a -> b, c", 0), InternalError);
}

TEST_CASE("a product's rule as one matrix product")
{
    struct Case {
        const char* rule;
        Shape a, b;
        ProductForm want; ///< batch, m, n, k, trans_a, trans_b, swapped
    };
    const Case cases[] = {
        {"m k, k n -> m n", {2, 3}, {3, 5}, {1, 2, 5, 3, false, false, false}},
        {"m k, n k -> m n", {2, 3}, {5, 3}, {1, 2, 5, 3, false, true, false}},
        {"k m, k n -> m n", {3, 2}, {3, 5}, {1, 2, 5, 3, true, false, false}},
        {"b s d, d g r e -> b s g r e", {2, 3, 8}, {8, 2, 1, 4}, {1, 6, 8, 8, false, false, false}},
        {"b s g r e, g r e d -> b s d", {2, 3, 2, 1, 4}, {2, 1, 4, 8}, {1, 6, 8, 8, false, false, false}},
        {"b s d, b s f -> d f", {2, 3, 4}, {2, 3, 5}, {1, 4, 5, 6, true, false, false}},
        {"b s d, b s v -> v d", {2, 3, 4}, {2, 3, 7}, {1, 7, 4, 6, true, false, true}},
        {"b m k, b k n -> b m n", {2, 3, 4}, {2, 4, 5}, {2, 3, 5, 4, false, false, false}},
        {"m k, k n -> n m", {2, 3}, {3, 5}, {1, 5, 2, 3, true, true, true}},
    };
    for (const Case& c : cases) {
        INFO(c.rule);
        const ProductForm got = find_product_form(product(c.rule, c.a, c.b)).value();
        CHECK(got.batch == c.want.batch);
        CHECK(got.m == c.want.m);
        CHECK(got.n == c.want.n);
        CHECK(got.k == c.want.k);
        CHECK(got.trans_a == c.want.trans_a);
        CHECK(got.trans_b == c.want.trans_b);
        CHECK(got.swapped == c.want.swapped);
    }
}

TEST_CASE("a rule that is not a single product has no form")
{
    const auto refused = [](const std::string& rule, Shape a, Shape b) {
        CHECK(!find_product_form(product(rule, std::move(a), std::move(b))));
    };
    refused("m k j, k n -> m n", {2, 3, 4}, {3, 5});       // j is in one operand only
    refused("m k p, p n k -> m n", {2, 3, 4}, {4, 5, 3});  // k is not contiguous
    refused("m1 k m2, k n -> m1 m2 n", {2, 3, 4}, {3, 5}); // m is not
    refused("m k, b k n -> m b n", {2, 3}, {4, 3, 5});     // n is not
    refused("m1 m2 k, k n -> m1 n m2", {2, 3, 4}, {4, 5}); // m of the result is not
    CHECK_THROWS_AS(find_product_form(make_rule("* -> *", {{2}}, {}, "test")), InternalError);
}

TEST_CASE("the op table: unique names, rows in order, rules that parse")
{
    std::set<std::string> names;
    const std::vector<std::string> all = op_names();
    for (std::size_t i = 0; i < all.size(); ++i) {
        INFO(all[i]);
        CHECK(names.insert(all[i]).second);
        const OpInfo& row = info(static_cast<OpKind>(i));
        CHECK(row.name == all[i]);
        CHECK(row.kind == static_cast<OpKind>(i));
        CHECK(find_op(all[i]) == &row);
        // An alias names a result and an operand of the rule.
        for (const Alias& alias : row.in_place) {
            CHECK(alias.result < static_cast<int>(row.results.size()));
            if (row.rule)
                CHECK(alias.operand < static_cast<int>((*row.rule)->operands.size()));
        }
        if (row.rule)
            CHECK((*row.rule)->results.size() == row.results.size());
        CHECK(row.needs.has(Attr::rule) == (!row.rule && row.factors == nullptr));
    }
    CHECK(find_op("no such op") == nullptr);
}
