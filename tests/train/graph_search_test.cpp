// The search for shardings of programs of tensor ops: nothing that is drawn is faster, and a mix of
// strategies wins where it should.
#include "base/check.hpp"
#include "catch.hpp"
#include "choose/graph_search.hpp"
#include "draw.hpp"
#include "ir/text/text.hpp"
#include "ir/verify.hpp"
#include "plan/cost.hpp"
#include "program.hpp"

#include <nlohmann/json.hpp>

using namespace trivium;

namespace {

/// Nodes of one rank with slow links.
Machine slow_links()
{
    Machine machine = machine_called("cpu");
    machine.link_bytes_per_second = 1e9;
    machine.link_latency = 1e-4;
    return machine;
}

/// Convolutions, then wide layers, on a mesh of four ranks.
std::string network() { return read_text(std::string(TRIVIUM_SOURCE) + "/docs/examples/mixed.graph"); }

Seconds seconds_of(const Graph& graph, const Machine& machine)
{
    Program program;
    program.graph = local_graph(sharded_graph(graph), 0, work_prices(machine, graph.mesh.ranks()));
    lay_out({&program, 1}, {machine.scratch});
    return simulate(program.graph, program.schedule, machine, 1).length();
}

} // namespace

TEST_CASE("a mix of strategies beats every uniform one, and everything that is drawn", "[release]")
{
    const Machine machine = slow_links();
    const Graph graph = read_graph(network(), "network");
    const GraphSearchResult result = search_shardings(graph, program_search(machine));
    const AnnotatedGraph& found = result.found;
    CHECK(result.uniform.front().second.seconds > 1.2 * found.seconds);
    CHECK(result.given >= found.seconds);
    CHECK(seconds_of(found.graph, machine) == Approx(found.seconds));
    const auto axes = [&](const char* name, std::size_t dim) {
        return found.graph[found.graph.find(name)].sharding->dims.at(dim).axes;
    };
    CHECK(axes("w3", 1) == std::vector<std::string>{"x"}); // the wide layer by its outputs
    CHECK(found.graph[found.graph.find("w1")].type == graph[graph.find("w1")].type);

    Draw draw(3);
    int legal = 0;
    for (int draws = 0; draws < 60; ++draws) {
        Graph other = graph;
        for (const char* name : {"image", "w1", "w2", "w3", "c1", "c2", "h"}) {
            Value& v = other[other.find(name)];
            const i64 dim = below(draw, static_cast<i64>(v.type.shape.size()) + 1);
            if (dim == static_cast<i64>(v.type.shape.size()))
                continue; // not annotated
            v.sharding.edit().dims.resize(v.type.shape.size());
            v.sharding.edit().dims[static_cast<std::size_t>(dim)] = {{"x"}, false};
        }
        try {
            verify(other, Level::global);
            CHECK(found.seconds <= seconds_of(other, machine) * (1 + 1e-9));
            ++legal;
        } catch (const UserError&) {
        }
    }
    CHECK(legal > 20);
}

TEST_CASE("annotations of the file stay, and what is printed is the file with further ones", "[release]")
{
    const Folder folder;
    std::string text = network();
    text.replace(text.find("f32[4096,4096]"), 14, "f32[4096,4096] <x,->");
    write_text(folder / "n.graph", text);
    const std::vector<std::string> search{"explain", "n.graph",         "--search", "--delay-bandwidth",
                                          "1e9",     "--delay-latency", "1e-4"};
    const Outcome printed = run_program(search, folder.path());
    INFO(printed.err);
    REQUIRE(printed.status == 0);
    CHECK(printed.out.find("# Convolutions with small weights") != std::string::npos);
    CHECK(printed.out.find("f32[4096,4096] <x,->\n") != std::string::npos);
    const Graph made = read_graph(printed.out, "printed"); // the summary is comments
    CHECK(made.values.size() == read_graph(text, "n").values.size());

    std::vector<std::string> more = search;
    more.insert(more.end(), {"--json", "--write", "found.graph"});
    const Outcome json = run_program(more, folder.path());
    REQUIRE(json.status == 0);
    const auto all = nlohmann::json::parse(json.out);
    CHECK(all["uniform_seconds"] >= all["seconds"]);
    CHECK_FALSE(all["annotations"].contains("w3"));
    CHECK(read_text(folder / "found.graph").find(all["graph"].get<std::string>()) != std::string::npos);
    CHECK(run_program(more, folder.path()).status == 0); // replaces its own file

    for (const char* mesh : {"mesh x=1", "mesh pipeline=2 x=2"}) {
        std::string other = network();
        other.replace(other.find("mesh x=4"), 8, mesh);
        write_text(folder / "n.graph", other);
        const Outcome refused = run_program(search, folder.path());
        CHECK(refused.status == 2);
        CHECK(refused.err.find("has nothing to search") != std::string::npos);
    }
    CHECK(run_program({"explain", "run.toml", "--search"}, folder.path()).status == 2);
}

TEST_CASE(
    "of a training, gradients count: samples are divided where weights are few, weights where they are many")
{
    const Folder folder;
    write_text(folder / "net.graph", read_text(std::string(TRIVIUM_SOURCE) + "/docs/examples/vgg.graph"));
    write_text(
        folder / "run.toml",
        "[model]\nfamily = \"graph\"\nfile = \"net.graph\"\nsizes = {side = 32, c0 = 16, levels = 2, "
        "hidden = 2048, classes = 200}\n[train]\nglobal_batch = 64\n[parallel]\nzero = 1\naxes = {x = 4}\n"
        "delay_latency = 1e-4\ndelay_bandwidth = 5e8\n");
    const Outcome searched =
        run_program({"explain", "run.toml", "--search", "--json", "--tries", "60", "--write", "found.graph"},
                    folder.path());
    INFO(searched.err);
    REQUIRE(searched.status == 0);
    const auto found = nlohmann::json::parse(searched.out);
    CHECK(found["uniform"][0]["seconds"] > 1.2 * found["seconds"].get<double>());
    CHECK(found["annotations"]["conv.1"] == "<x,-?,-?,-?>");
    CHECK(found["annotations"]["conv.2"] == "<x,-?,-?,-?>"); // the same line of a repetition
    CHECK(found["annotations"]["wide.w.0"] == "<-?,x>");
    // The step is that of a plan for the written file, nearly: a search merges collectives in one way.
    const Outcome planned =
        run_program({"plan", "run.toml", "--json", "model.file=found.graph"}, folder.path());
    REQUIRE(planned.status == 0);
    const double step = nlohmann::json::parse(planned.out)["estimated_step_seconds"];
    CHECK(step == Approx(found["seconds"].get<double>()).epsilon(0.2));
    CHECK(read_text(folder / "found.graph").find("size b=8 channels=3") != std::string::npos);

    const Outcome refused =
        run_program({"explain", "/dev/null", "model.preset=toy", "--search"}, folder.path());
    CHECK(refused.status == 2);
    CHECK(refused.err.find("trivium plan CONFIG.toml --ranks N") != std::string::npos);
}
