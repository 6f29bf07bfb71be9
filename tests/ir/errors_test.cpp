// Every file in tests/errors must fail with the message of its first line, and what lines `# and:` say; also
// errors that a text cannot express.
#include "base/check.hpp"
#include "catch.hpp"
#include "golden/golden.hpp"
#include "has.hpp"
#include "ir/builder.hpp"
#include "ir/limits.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"

#include <cctype>
#include <filesystem>
#include <sstream>

using namespace trivium;

namespace {

/// The error of parse or verify, or "".
std::string graph_error(const std::string& text, const std::string& file)
{
    try {
        const Graph graph = parse_graph(text, file);
        verify(graph, graph.at.empty() ? Level::global : Level::local);
    } catch (const UserError& error) {
        CHECK(error.exit_status() == 2);
        return error.what();
    }
    return "";
}

std::string graph_error(const Graph& graph, Level level = Level::global)
{
    return message_of<UserError>([&] { verify(graph, level); });
}

/// x -> y = gelu(x), legal.
Graph small_graph()
{
    Graph graph;
    graph.name = std::string("g");
    Builder b(graph);
    const ValueId x = b.value("x", {DType::f32, {2}}, Role::parameter);
    b.op1(OpKind::gelu, {x}, {}, "y");
    return graph;
}

} // namespace

TEST_CASE("each file of tests/errors fails with the error of its first line")
{
    int files = 0;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(test_file("errors"))) {
        const std::string name = entry.path().filename(), group = entry.path().parent_path().filename();
        if (entry.path().extension() != ".graph" || group == "programs") // tests/plan
            continue;
        const std::string text = read_text("errors/" + group + "/" + name),
                          mark = "# expect: ", also = "# and: ";
        INFO(name);
        REQUIRE(text.rfind(mark, 0) == 0);
        const std::string want = text.substr(mark.size(), text.find('\n') - mark.size());
        const std::string got = graph_error(text, name);
        INFO("want: " << want << "\ngot: " << got);
        CHECK(has(got, want));
        std::istringstream lines(text);
        for (std::string line; std::getline(lines, line);)
            if (line.rfind(also, 0) == 0)
                CHECK(has(got, line.substr(also.size())));
        CHECK(has(got, "remedy: "));
        CHECK(got.rfind(name + ":", 0) == 0); // FILE:line: problem
        CHECK((got.size() > name.size() + 1 &&
               std::isdigit(static_cast<unsigned char>(got[name.size() + 1])) != 0));
        ++files;
    }
    CHECK(files >= 220);
}

TEST_CASE("a text that is too long, or has too many values, ops or operands, is refused")
{
    const auto many = [](std::size_t n, const std::string& begin, const std::string& line) {
        std::string text = begin;
        for (std::size_t i = 0; i < n; ++i)
            text += line.substr(0, line.find('#')) + std::to_string(i) + line.substr(line.find('#') + 1);
        return text;
    };
    CHECK(has(graph_error(std::string(max_text_bytes + 1, '\n'), "long.graph"),
              "long.graph: has 67108865 bytes, more than 67108864"));
    CHECK(has(graph_error(many(max_text_values + 1, "graph g\n", "input %x# : f32[2]\n"), "v.graph"),
              "more than 200000 values"));
    CHECK(has(graph_error(many(max_text_ops + 1, "graph g\nparameter %x : f32[2]\nmicrobatch {\n",
                               "%y# = gelu(%x) : f32[2]\n"),
                          "o.graph"),
              "more than 100000 ops"));
    std::string operands = "%x";
    for (std::size_t i = 0; i < max_text_operands; ++i)
        operands += ", %x";
    CHECK(has(
        graph_error("graph g\nparameter %x : f64[]\nepilogue {\n  %y = stack(" + operands + ") : f64[2]\n}\n",
                    "w.graph"),
        "more than 10000 operands"));
}

TEST_CASE("the largest legal shapes do not overflow")
{
    const Graph graph =
        parse_graph("graph g\nmesh tensor=1048576\nat tensor=7\nparameter %x : bf16[1048576,268435456]\n"
                    "microbatch {\n  %y = all_reduce(%x) {axis=\"tensor\", combine=\"sum\", rule=\"x0 x1 -> "
                    "x0 x1\"} : bf16[1048576,268435456]\n"
                    "  %z = matmul(%x, %x) {rule=\"m k, n k -> m n\"} : bf16[1048576,1048576]\n}\n",
                    "large.graph");
    verify(graph, Level::local);
    CHECK(bytes_of(graph, graph.ops[0]) == Bytes{4} << 48);
    CHECK(flops_of(graph, graph.ops[1]) == 2 * 0x1p20 * 0x1p20 * 0x1p28);
}

TEST_CASE("verify finds errors that a text cannot express")
{
    REQUIRE(graph_error(small_graph()) == "");
    const ValueId x(0), y(1);
    Graph g = small_graph();
    g[y].name = "x";
    CHECK(has(graph_error(g), "%x: the name is used twice"));
    g = small_graph();
    g[y].role = Role::input;
    CHECK(has(graph_error(g), "%y: a value has either a producer or a role"));
    g = small_graph();
    g[x].role = Role::computed;
    CHECK(has(graph_error(g), "%x: a value has either a producer or a role"));
    g = small_graph();
    g.mesh.axes = {{"data", 2}};
    g[y].sharding.edit().partial = {{"data"}};
    CHECK(graph_error(g, Level::local) == "");
    g = small_graph();
    g.outputs.push_back(ValueId(7));
    CHECK(has(graph_error(g), "an output names no value"));
    g = small_graph();
    g.ops[0].operands[0] = y;
    CHECK(has(graph_error(g), "op 0 gelu: %y is used before it is computed"));
    g.ops[0].operands[0] = ValueId(9);
    CHECK(has(graph_error(g), "an operand names no value"));
    g = small_graph();
    g.ops.push_back(g.ops[0]);
    CHECK(has(graph_error(g), "op 1 gelu: %y has another producer"));
}

TEST_CASE("a result may not outlive the buffer that it is in")
{
    Graph g;
    g.name = "g";
    Builder b(g);
    const ValueId x = b.value("x", {DType::f32, {2}}, Role::parameter);
    const ValueId in = b.value("sum.before", {DType::f32, {2}}, Role::carry);
    const ValueId out = b.add_into(in, b.op1(OpKind::accumulate, {x}));
    g.carries.push_back({in, out});
    REQUIRE(graph_error(g) == "");
    g[out].lifetime = Lifetime::run;
    CHECK(has(graph_error(g), "outlives its buffer"));
}

TEST_CASE("a text may begin with a byte-order mark")
{
    const std::string text = "graph g\ninput %a : f32[2]\n%b = gelu(%a) : f32[2]\noutput %b\n";
    CHECK(to_text(parse_graph("\xEF\xBB\xBF" + text, "t")) == to_text(parse_graph(text, "t")));
}
