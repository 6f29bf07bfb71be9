// Programs on ranks that are threads, against the same program on one rank.
#include "base/check.hpp"
#include "catch.hpp"
#include "draw_tensors.hpp"
#include "has.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "kernels/runtime.hpp"
#include "passes/sharding/moves.hpp"
#include "plan/graph_file.hpp"
#include "plan/machine.hpp"
#include "programs/compare.hpp"

#include <cstring>

using namespace trivium;

namespace {

RankRunConfig config()
{
    static const kernels::Runtime runtime(1);
    return {{Bytes{1} << 20, Bytes{1} << 20, Bytes{1} << 18, Bytes{1} << 18}, 1};
}

Comparison compare(const std::string& text, u64 seed = 1, bool gather = false)
{
    const Graph graph = sharded_graph(read_graph(text, "test.graph"));
    const TensorSource source = drawn_source(graph, seed);
    const CompareConfig how{config(), gather};
    Comparison result;
    run_on_threads(static_cast<int>(graph.mesh.ranks()), [&](Comm& comm) {
        Comparison own = compare_with_one_rank(graph, comm, source, how);
        if (comm.rank() == 0)
            result = std::move(own);
        else
            TRV_CHECK(own.outputs.size() == graph.outputs.size(), "a rank lacks outputs");
    });
    return result;
}

/// `mesh` and a program of products, element-wise ops and reshards.
std::string product_on(const std::string& mesh, const std::string& a, const std::string& d)
{
    return "graph product\nmesh " + mesh + "\ninput %a : f32[8,16] " + a +
           "\nparameter %w : f32[16,12]\n"
           "%b = matmul(%a, %w) {rule=\"b d, d f -> b f\"} : f32[8,12]\n"
           "%c = gelu(%b) : f32[8,12]\n"
           "%d = reshard(%c) : f32[8,12] " +
           d + "\noutput %c\noutput %d\n";
}

} // namespace

TEST_CASE("a program on 1, 2 and 4 ranks computes what one rank does")
{
    for (const auto& [mesh, a, d] :
         {std::array{"x=1", "<x,->", "<-,x>"}, std::array{"x=2", "<x,->", "<-,x>"},
          std::array{"x=2", "<-,x>", "<x,->"}, std::array{"x=4", "<-,x>", "<-,x>"},
          std::array{"x=2 y=2", "<x,y>", "<x+y,->"}, std::array{"x=2 y=2", "<y+x,->", "<y,x>"}}) {
        INFO(mesh << " " << a << " " << d);
        const Comparison result = compare(product_on(mesh, a, d));
        REQUIRE(result.outputs.size() == 2);
        CHECK(result.outputs[1].name == "d");
        CHECK((result.outputs[1].type == TensorType{DType::f32, {8, 12}}));
        CHECK(result.difference < 1e-5);
    }
}

TEST_CASE("uneven shards, gathered outputs, and a value that is also an output")
{
    const Comparison result = compare("graph uneven\nmesh x=4\ninput %a : f64[7,3] <x,->\n"
                                      "%b = gelu(%a) : f64[7,3]\noutput %a\noutput %b\noutput %b\n",
                                      5, true);
    REQUIRE(result.outputs.size() == 3);
    CHECK(result.difference == 0);
    const Graph graph =
        read_graph("graph g\ninput %a : f64[7,3]\n%b = gelu(%a) : f64[7,3]\noutput %b\n", "g");
    CHECK((result.outputs[0].whole == draw_tensors(graph, 5).at("a")));
    CHECK((result.outputs[1].whole == result.outputs[2].whole));
    CHECK(result.outputs[1].whole.size() == 7 * 3 * 8);
}

TEST_CASE("an input that is partial is combined to the whole")
{
    for (const char* partial : {"<-,-|x:sum>", "<y,-|x:max>", "<-,-|x:sum y:sum>"}) {
        INFO(partial);
        const Comparison result = compare(std::string("graph partial\nmesh x=2 y=2\ninput %a : f32[4,6] ") +
                                          partial + "\n%b = gelu(%a) : f32[4,6]\noutput %a\noutput %b\n");
        CHECK(result.difference == 0);
    }
}

TEST_CASE("integers, and an index that stays inside its table")
{
    const Comparison result =
        compare("graph rows\nmesh x=2\ninput %t : i32[4,6] <x,->\nparameter %w : f32[3,8] <x,->\n"
                "%r = reshard(%t) : i32[4,6] <-,x>\n"
                "%e = embedding(%w, %t) : f32[4,6,8]\noutput %r\noutput %e\n");
    CHECK(result.difference < 1e-6);
}

TEST_CASE("a partial sum is added before a cast that loses digits")
{
    const auto difference = [](const std::string& from, const std::string& to) {
        return compare("graph cast\nmesh x=4\ninput %a : " + from + "[8,512] <-,x>\ninput %b : " + from +
                       "[512,8] <x,->\n%p = matmul(%a, %b) {rule=\"m k, k n -> m n\"} : " + from +
                       "[8,8]\n%c = cast(%p) {dtype=\"" + to + "\"} : " + to + "[8,8]\noutput %c\n")
            .difference;
    };
    CHECK(difference("f64", "i32") == 0);
    CHECK(difference("f64", "f32") < 1e-7);
    CHECK(difference("f32", "bf16") < 0.008); // of one rounding
}

TEST_CASE("the epilogue runs, and an updated parameter is an output")
{
    const Comparison result =
        compare("graph update\nmesh x=2\ninput %a : f32[8,4] <x,->\nparameter %w : f32[4,6]\n"
                "carry %s : f32[4,6]\n"
                "microbatch {\n"
                "  %b = matmul(%a, %w) {rule=\"b d, d f -> b f\"} : f32[8,6]\n"
                "  %s' = matmul(%a, %b) += %s {rule=\"b d, b f -> d f\"} : f32[4,6]\n"
                "}\n"
                "epilogue {\n"
                "  @ update block 0\n"
                "  %w' = accumulate(%s') += %w : f32[4,6]\n"
                "}\n"
                "carried %s -> %s'\ncarried %w -> %w'\noutput %w'\noutput %s'\noutput %w\n",
                2, true);
    CHECK(result.difference < 1e-5);
    CHECK((result.outputs[0].whole != result.outputs[2].whole));
}

TEST_CASE("ranks of a pipeline")
{
    const Comparison result =
        compare("graph stages\nmesh pipeline=2 x=2\ninput %a : f32[8,4]\nparameter %v : f32[4,4] <-,x>\n"
                "parameter %w : f32[4,4] <x,->\n"
                "microbatch {\n"
                "  @ forward block 0\n"
                "  %b = matmul(%a, %v) {rule=\"b d, d f -> b f\"} : f32[8,4]\n"
                "  @ forward block 1\n"
                "  %c = matmul(%b, %w) {rule=\"b d, d f -> b f\"} : f32[8,4]\n"
                "}\n"
                "output %b\noutput %c\n");
    CHECK(result.difference < 1e-5);
}

TEST_CASE("one rank's boxes")
{
    const std::string text = product_on("x=2", "<x,->", "<-,x>");
    const Graph graph = sharded_graph(read_graph(text, "test.graph"));
    const TensorSource source = drawn_source(graph, 1);
    std::vector<TensorShard> shards[2];
    run_on_threads(2, [&](Comm& comm) {
        shards[comm.rank()] = run_rank(program_of_rank(graph, comm.rank()), comm, source, config());
    });
    for (int rank = 0; rank < 2; ++rank) {
        REQUIRE(shards[rank].size() == 2);
        CHECK(shards[rank][1].name == "d");
        CHECK((shards[rank][1].box == Box{{0, 6 * rank}, {8, 6}}));
        CHECK(shards[rank][1].data.size() == 8 * 6 * 4);
    }
}

TEST_CASE("what cannot be run or compared is refused")
{
    const char* const text =
        "graph g\nmesh x=2\nparameter %w : f32[4]\nprologue {\n  %v = gelu(%w) : f32[4]\n}\noutput %v\n";
    CHECK(has(message_of<UserError>([&] { compare(text); }), "%v, an output, is computed in the prologue"));
}

TEST_CASE("ranks share a product as propagation found it, and the shardings of the report are those that run")
{
    // Without its work it would be cheapest to gather both weights, and to compute all columns everywhere.
    for (const char* machine : {"cpu", "h100"})
        for (const char* mesh : {"x=2 y=4", "x=4 y=2", "x=1 y=8"})
            for (const i64 columns : {256, 512}) {
                const std::string f = std::to_string(columns);
                const GraphProgram made =
                    compile_graph("graph layer\nmesh " + std::string(mesh) +
                                      "\ninput %x : f32[4096,64] <x,->\n"
                                      "parameter %a : f32[64," +
                                      f + "] <-,y>\nparameter %b : f32[" + f +
                                      ",64] <y,->\n"
                                      "%h = matmul(%x, %a) {rule=\"t d, d f -> t f\"} : f32[4096," +
                                      f + "]\n%g = gelu(%h) : f32[4096," + f +
                                      "]\n%o = matmul(%g, %b) {rule=\"t f, f d -> t d\"} : f32[4096,64]\n"
                                      "output %o\n",
                                  "layer.graph", machine_called(machine), 0);
                INFO(machine << " " << to_text(made.program.graph));
                Flops flops = 0;
                for (const Op& op : made.program.graph.ops)
                    flops += flops_of(made.program.graph, op);
                CHECK(flops == 4. * 4096 * 64 * static_cast<double>(columns) / 8);
                const Graph& sharded = *made.program.sharded;
                for (const char* name : {"h", "g"}) {
                    const Value& all = sharded[sharded.find(name)];
                    CHECK(local_type(all.type, dim_axes(all.sharding), sharded.mesh, {0, 0}) ==
                          made.program.graph[made.program.graph.find(name)].type);
                    const bool differs = dim_axes(all.sharding) != DimAxes{{"x"}, {"y"}};
                    CHECK((made.propagated.count(sharded.find(name)) > 0) == differs);
                }
            }
}
