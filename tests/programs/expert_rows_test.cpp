// Rows of experts that travel between ranks, as ops of programs of all ranks.
#include "base/check.hpp"
#include "catch.hpp"
#include "has.hpp"
#include "ir/ops/op_table.hpp"
#include "ir/text/text.hpp"
#include "plan/cost.hpp"
#include "plan/graph_file.hpp"
#include "plan/machine.hpp"
#include "runs.hpp"

using namespace trivium;
using namespace trivium::runs;

namespace {

/// Rows of 4 groups, at most 9 for each of 8 experts, go to their experts, become something else there and
/// come home. `places`: of a rank.
std::string exchange_on(const std::string& mesh, const std::string& rows, const std::string& axis, int ranks,
                        int places, const std::string& more = "", const std::string& type = "f64")
{
    const std::string op = "{axis=\"" + axis + "\", groups=" + std::to_string(ranks) + ", count=",
                      sent = type + "[4,72,6]", moved = type + "[4," + std::to_string(places) + ",6]";
    return "graph rows\nmesh " + mesh + "\ninput %rows : " + sent + " " + rows +
           "\ninput %counts : i32[4,8]\n"
           "%there = exchange_rows(%rows, %counts) " +
           op + std::to_string(places) + more + "} : " + moved + "\n%made = gelu(%there) : " + moved +
           "\n%back = exchange_rows(%made, %counts) " + op + "72, backwards=1} : " + sent +
           "\noutput %there\noutput %back\n";
}

} // namespace

TEST_CASE("rows of experts travel along axes and parts of them as on one rank")
{
    start_runtime();
    for (const auto& [mesh, rows, axis, ranks] : {std::tuple{"data=4", "<data,-,->", "data", 4},
                                                  {"data=4", "<data,-,->", "data:(2)2", 2},
                                                  {"data=4 tensor=2", "<data,-,tensor>", "data:(2)2", 2},
                                                  {"replica=2 data=2", "<replica+data,-,->", "data", 2}})
        for (const int places : {ranks * 72, 40}) // all, or only some of them
            for (const char* type : {"f64", "bf16"}) {
                INFO(mesh << " " << rows << " " << axis << ", " << places << " places");
                for (const double difference :
                     differences_on_threads(exchange_on(mesh, rows, axis, ranks, places, "", type), 3))
                    CHECK(difference == 0);
            }
}

TEST_CASE("more rows than places end all ranks, if they are not dropped")
{
    start_runtime();
    const std::string text = exchange_on("data=4", "<data,-,->", "data", 4, 3, ", clamp=0");
    const std::string message = message_of<UserError>([&] { differences_on_threads(text, 3); });
    CHECK(has(message, "exchange_rows"));
    CHECK(has(message, "rows arrive, its buffer has 3"));
    CHECK(has(message, "parallel.expert_buffer"));
}

TEST_CASE("an exchange of rows that does not fit its axis is refused")
{
    const auto message = [](const std::string& text) {
        return message_of<UserError>([&] { read_graph(text, "rows.graph"); });
    };
    CHECK(has(message(exchange_on("data=4", "<data,-,->", "data", 2, 144)),
              "has 2 expert ranks, but there are 4 ranks along 'data'"));
    CHECK(has(message(exchange_on("data=2 x=2", "<data,-,->", "data+x", 4, 288)), "along 'data+x'"));
    CHECK(has(message(exchange_on("data=3", "<-,-,->", "data", 3, 216)),
              "cannot divide 4 groups among 3 expert ranks"));
}

TEST_CASE("rows of several groups on a rank cannot travel")
{
    start_runtime();
    for (const auto& [mesh, rows, axis] :
         {std::tuple{"data=2", "<data,-,->", "data"}, {"data=4", "<-,-,->", "data:(2)2"}}) {
        const std::string text = exchange_on(mesh, rows, axis, 2, 144);
        CHECK(has(message_of<UserError>([&] { differences_on_threads(text, 3); }),
                  "exchange_rows: cannot be sharded"));
    }
}

TEST_CASE("an exchange of rows sends what equally loaded experts get, of all but the rank's own")
{
    const GraphProgram made =
        compile_graph(exchange_on("data=4", "<data,-,->", "data", 4, 288, ", expected=60"), "rows.graph",
                      machine_called("h100"), 1);
    std::vector<Bytes> sent;
    for (const Op& op : made.program.graph.ops)
        if (op.kind == OpKind::exchange_rows)
            sent.push_back(bytes_sent(made.program.graph, op));
    CHECK((sent == std::vector<Bytes>{60 * 6 * 8 * 3 / 4, 72 * 6 * 8 * 3 / 4}));
}
