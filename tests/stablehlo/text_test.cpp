// StableHLO texts that are refused, and damaged ones.
#include "base/check.hpp"
#include "catch.hpp"
#include "fuzz/mutate.hpp"
#include "has.hpp"
#include "ir/text/text.hpp"
#include "jax_cases.hpp"
#include "plan/graph_file.hpp"
#include "stablehlo/fold.hpp"
#include "stablehlo/import.hpp"

#include <ctime>

using namespace trivium;

namespace {

std::string refusal(const std::string& text, const HloImport& how = {})
{
    try {
        import_hlo(text, "f.mlir", how);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

/// A function of %x : tensor<4xf32> and %i : tensor<4xi32> with this body.
std::string function(const std::string& body, const std::string& type = "tensor<4xf32>")
{
    return "func.func public @main(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (" + type + ") {\n" + body +
           "\n  return %y : " + type + "\n}\n";
}

} // namespace

TEST_CASE("what a graph cannot express is refused with file, line and name")
{
    const auto names = [](const std::string& body, const std::string& name, const std::string& reason) {
        const std::string what = refusal(function(body));
        INFO(body << "\n" << what);
        CHECK(has(what, "f.mlir:2: cannot import " + name));
        CHECK(has(what, reason));
        CHECK(has(what, "remedy: "));
    };
    names("%y = stablehlo.fft %x, type = RFFT, length = [4] : (tensor<4xf32>) -> tensor<4xf32>",
          "stablehlo.fft", "there is no such op");
    names("%y = stablehlo.custom_call @lapack(%x) : (tensor<4xf32>) -> tensor<4xf32>",
          "stablehlo.custom_call", "@lapack");
    names("%y = stablehlo.add %x, %z : tensor<4xf32>", "stablehlo.add", "%z is not defined");
    names("%y = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf16>", "stablehlo.convert",
          "tensor<4xf16>");
    names("%y = stablehlo.convert %x : (tensor<4xf32>) -> tensor<?xf32>", "stablehlo.convert",
          "tensor<?xf32>");
    CHECK(has(refusal(function("%y = stablehlo.slice %x [0:0] : (tensor<4xf32>) -> tensor<0xf32>",
                               "tensor<0xf32>")),
              "f.mlir:3: cannot import func.return\n  reason: it reads a tensor without elements"));
    names("%y = stablehlo.slice %x [2:9] : (tensor<4xf32>) -> tensor<7xf32>", "stablehlo.slice",
          "takes 2 to 9 in steps of 1 of dimension 0, which has 4");
    names("%y = stablehlo.negate %x : tensor<5xf32>", "stablehlo.negate",
          "its result is tensor<5xf32>, and computed as f32[4]");
    names("%y = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>", "func.call", "there is no function @g");
    names("%y = func.call @main(%x, %i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>", "func.call",
          "calls");
    names("%y = stablehlo.while(%a = %x) : tensor<4xf32> cond {\n"
          "%s = stablehlo.slice %a [0:1] : (tensor<4xf32>) -> tensor<1xf32>\n"
          "%r = stablehlo.reshape %s : (tensor<1xf32>) -> tensor<f32>\n"
          "%b = stablehlo.compare LT, %r, %r : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
          "stablehlo.return %b : tensor<i1>\n} do {\nstablehlo.return %a : tensor<4xf32>\n}",
          "stablehlo.while", "the number of its rounds depends on computed values");
    names("%y = stablehlo.while(%a = %x) : tensor<4xf32> cond {\n"
          "%b = stablehlo.constant dense<true> : tensor<i1>\n"
          "stablehlo.return %b : tensor<i1>\n} do {\nstablehlo.return %a : tensor<4xf32>\n}",
          "stablehlo.while", "more than 10000 rounds");
}

TEST_CASE("texts that are not StableHLO")
{
    CHECK(has(refusal(""), "has no public function"));
    CHECK(has(refusal("graph x\n"), "f.mlir:1: expected a function"));
    CHECK(has(refusal("func.func @main() {\n  %0 = \"a\n"), "has no closing quote"));
    CHECK(has(refusal(function("%y = stablehlo.constant dense<[1.0, 2.0]> : tensor<4xf32>")),
              "f.mlir:2: a constant of tensor<4xf32> has 2 elements"));
    CHECK(has(refusal(function("%y = stablehlo.constant dense_resource<w> : tensor<4xf32>")),
              "dense_resource"));
    CHECK(has(refusal(function(std::string(100, '[') + "\n")), "f.mlir:"));
    CHECK(has(refusal(function("%y = stablehlo.negate %x : tensor<4xf32>"), {.parameters = "("}),
              "is not a regular expression"));
    CHECK(has(refusal(function("%y = stablehlo.negate %x : tensor<4xf32>"), {.loss = true}),
              "is not a scalar"));
}

TEST_CASE("integers become i32 where they fit")
{
    const auto integers = [](const std::string& body) {
        return refusal("func.func public @main(%x: tensor<4xi64>) -> tensor<4xi64> {\n" + body +
                       "\n  return %y : tensor<4xi64>\n}\n");
    };
    CHECK(integers("%c = stablehlo.constant dense<-2147483648> : tensor<4xi64>\n"
                   "%y = stablehlo.add %x, %c : tensor<4xi64>") == "");
    CHECK(has(integers("%c = stablehlo.constant dense<2147483648> : tensor<4xi64>\n"
                       "%y = stablehlo.add %x, %c : tensor<4xi64>"),
              "a constant 2147483648 of tensor<4xi64> does not fit into i32"));
    CHECK(has(integers("%y = stablehlo.multiply %x, %x : tensor<4xi64>"), "may leave the range of i32"));
}

TEST_CASE("names of arguments and results are legal")
{
    const Graph graph =
        import_hlo("module @jit_f {\n  func.func public @main(%arg0: tensor<2xf32> loc(\"p['a b'][0].w\"), "
                   "%arg1: tensor<2xf32> loc(\"out0\"), %arg2: tensor<2xf32> loc(#loc1)) -> "
                   "(tensor<2xf32>, tensor<2xf32>) {\n    return %arg0, %arg0 : tensor<2xf32>, "
                   "tensor<2xf32>\n  }\n}\n#loc1 = loc(\"out0\")\n",
                   "f.mlir", {.parameters = "^p"})
            .graph;
    std::string names;
    for (const Value& value : graph.values)
        names += value.name + " ";
    CHECK(names == "p.a.b.0.w out0 arg2 out0_ out1 ");
    CHECK(graph.values[0].role == Role::parameter);
    CHECK(graph.values[1].role == Role::input);
    CHECK(to_text(read_graph(to_text(graph), "f.graph")) == to_text(graph));
}

TEST_CASE("damaged texts are refused or become graphs that print as they parse")
{
    std::vector<std::string> texts;
    for (const jax::Case& c : jax::read_cases(TRIVIUM_TEST_DATA "/stablehlo/jax"))
        texts.push_back(c.text);
    std::mt19937_64 random(1);
    int imported = 0;
    constexpr int count = 2000;
    for (int tried = 0; tried < count; ++tried) {
        std::string damaged = texts[random() % texts.size()];
        damaged = tried % 4 == 0 ? damaged.substr(0, random() % damaged.size()) : mutate(damaged, random);
        INFO("text " << tried << ":\n" << damaged);
        const std::clock_t begin = std::clock(); // others may use the cores
        try {
            const Graph graph = import_hlo(damaged, "f.mlir").graph;
            const std::string text = to_text(graph);
            if (to_text(read_graph(text, "f.graph")) != text)
                FAIL("prints as another graph than it parses to:\n" << text);
            ++imported;
        } catch (const UserError& error) {
            const std::string what = error.what();
            if (!what.starts_with("f.mlir") || !has(what, "remedy: "))
                FAIL("a message without file and remedy: " << what);
        } catch (const std::exception& error) {
            FAIL(error.what());
        }
        const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
        if (seconds > 5)
            FAIL("takes " << seconds << " s");
    }
    CHECK(imported > count / 50);
}

TEST_CASE("shardings of the form mhlo.sharding become axes of one mesh")
{
    const auto imported = [](const std::string& first, const std::string& second) {
        const Graph graph = import_hlo("func.func @main(%x: tensor<8x8xf32> {mhlo.sharding = \"" + first +
                                           "\"}, %y: tensor<8x8xf32> {mhlo.sharding = \"" + second +
                                           "\"}) -> tensor<8x8xf32> {\n  %z = stablehlo.add %x, %y : "
                                           "tensor<8x8xf32>\n  return %z : tensor<8x8xf32>\n}\n",
                                       "f.mlir")
                                .graph;
        std::string text;
        for (const MeshAxis& axis : graph.mesh.axes)
            text += str(axis.name, "=", axis.size, " ");
        return text + to_text(graph.values[0].sharding) + " " + to_text(graph.values[1].sharding);
    };
    CHECK(imported("{devices=[2,1,2]<=[4] last_tile_dim_replicate}", "{replicated}") ==
          "d0=2 d1=2 <d0,-> <-,->");
    CHECK(imported("{devices=[4,2]<=[2,4]T(1,0)}", "{maximal device=0}") == "d0=2 d1=4 <d1,d0> ");
    CHECK(imported("{devices=[2,2]0,2,1,3}", "{devices=[4,1]<=[4]}") == "d0=2 d1=2 <d1,d0> <d0+d1,->");
    CHECK(imported("{devices=[8,1]<=[8]}", "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dims={replicated}}") ==
          "d0=2 d1=4 <d0+d1,-> <-,d1>");
    CHECK(imported("{devices=[4,2]<=[8]}", "{devices=[2,4]<=[8]}") == "d0=2 d1=2 d2=2 <d0+d1,d2> <d0,d1+d2>");
    for (const char* wrong :
         {"{devices=[2,2]0,1,3,2}", "{manual}", "{devices=[2,2]<=[5]}", "{devices=[0]<=[1]}",
          "{devices=[2,2]<=[2,2]T(0,0)}", "{devices=[2,2]1,2,3,4}", "{devices=[9"})
        CHECK_THROWS_AS(imported(wrong, "{replicated}"), UserError);
    CHECK_THROWS_AS(imported("{devices=[2,1]<=[2]}", "{devices=[3,1]<=[3]}"), UserError);
}

TEST_CASE("resources of a file are left out, whatever words they have")
{
    for (const std::string resources :
         {"{-# 12 #-}", "{-#\n  verify_each: 12, $x.y, .5, \"#-\"\n#-}", "{-# a: { b: \"0x0400\" } #-}"})
        CHECK_NOTHROW(import_hlo(function("%y = stablehlo.negate %x : tensor<4xf32>") + resources, "f.mlir"));
}

TEST_CASE("lists of numbers are read whole, those of one number up to a limit")
{
    HloAttribute pairs;
    pairs.kind = HloAttribute::Kind::literal;
    pairs.literal.type.element = HloElement::i64;
    pairs.literal.type.shape = {1024, 2};
    for (i64 i = 0; i < 2048; ++i)
        pairs.literal.ints.push_back(i);
    CHECK(numbers_of(&pairs) == pairs.literal.ints);
    pairs.literal.splat = true;
    pairs.literal.ints = {7};
    CHECK(numbers_of(&pairs) == std::vector<i64>(max_folded, 7));
}
