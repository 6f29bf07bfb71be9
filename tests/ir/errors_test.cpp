// Every file of tests/errors must fail, with the message that its first line names; and what no text can say.
#include "base/check.hpp"
#include "catch.hpp"
#include "golden/golden.hpp"
#include "ir/builder.hpp"
#include "ir/text.hpp"
#include "ir/verify.hpp"

#include <filesystem>

using namespace trivium;

namespace {

/// What parse and verify say, or "".
std::string complaint(const std::string& text, const std::string& file)
{
    try {
        verify(parse_graph(text, file), Level::global);
    } catch (const UserError& error) {
        CHECK(error.exit_status() == 2);
        return error.what();
    }
    return "";
}

std::string complaint(const Graph& graph, Level level = Level::global)
{
    try {
        verify(graph, level);
    } catch (const UserError& error) {
        return error.what();
    }
    return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

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

TEST_CASE("each file of tests/errors fails as its first line says")
{
    int files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(test_file("errors"))) {
        if (entry.path().extension() != ".graph")
            continue;
        const std::string name = entry.path().filename(), text = read_text("errors/" + name), mark = "# expect: ";
        INFO(name);
        REQUIRE(text.rfind(mark, 0) == 0);
        const std::string want = text.substr(mark.size(), text.find('\n') - mark.size());
        const std::string got = complaint(text, name);
        INFO("want: " << want << "\ngot: " << got);
        CHECK(contains(got, want));
        CHECK(contains(got, "remedy: "));
        ++files;
    }
    CHECK(files >= 55);
}

TEST_CASE("verify sees what no text can say")
{
    REQUIRE(complaint(small_graph()) == "");
    const ValueId x(0), y(1);
    Graph g = small_graph();
    g[y].name = "x";
    CHECK(contains(complaint(g), "%x: the name stands twice"));
    g = small_graph();
    g[y].role = Role::input;
    CHECK(contains(complaint(g), "%y: a value is computed by an op, or is given: not both"));
    g = small_graph();
    g[x].role = Role::computed;
    CHECK(contains(complaint(g), "%x: a value is computed by an op, or is given: not both"));
    g = small_graph();
    g[y].sharding.partial = {{"data"}};
    CHECK(contains(complaint(g), "%y: a partial value in a global graph"));
    CHECK(complaint(g, Level::local) == "");
    g = small_graph();
    g.outputs.push_back(ValueId(7));
    CHECK(contains(complaint(g), "an output names no value"));
    g = small_graph();
    g.ops[0].operands[0] = y;
    CHECK(contains(complaint(g), "op 0 gelu: %y is used before it is computed"));
    g.ops[0].operands[0] = ValueId(9);
    CHECK(contains(complaint(g), "an operand names no value"));
    g = small_graph();
    g.ops.push_back(g.ops[0]);
    CHECK(contains(complaint(g), "op 1 gelu: %y has another producer"));
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
    REQUIRE(complaint(g) == "");
    g[out].lifetime = Lifetime::run;
    CHECK(contains(complaint(g), "outlives the buffer it is in"));
}
