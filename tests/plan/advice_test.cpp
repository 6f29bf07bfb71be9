// Advice about costly collectives: the line that it proposes, written into the text, saves the bytes that it
// states.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/text.hpp"
#include "plan/advice.hpp"
#include "plan/graph_file.hpp"

#include <algorithm>
#include <sstream>
#include <tuple>

using namespace trivium;

namespace {

const std::string costly = "graph costly\nmesh x=4\n"
                           "input %a : f32[64,32] <x,->\n"
                           "parameter %w : f32[32,32] <-,x> init normal(std=0.1)\n"
                           "%b = matmul(%a, %w) {rule=\"m k, k n -> m n\"} : f32[64,32] <x,->\n"
                           "%c = gelu(%b) : f32[64,32] <-,x>\n"
                           "output %c\n";
const std::string summed = "graph summed\nmesh x=2 y=2\n"
                           "input %a : f32[8,16] <x,y>\n"
                           "parameter %w : f32[16,12]\n"
                           "%b = matmul(%a, %w) {rule=\"m k, k n -> m n\"} : f32[8,12]\n"
                           "%c = gelu(%b) : f32[8,12]\n"
                           "output %c\n";
const std::string turned = "graph turned\nmesh x=3\n"
                           "input %a : f64[7,12] <-,x>\n"
                           "%b = transpose(%a) {dims=\"1 0\"} : f64[12,7] <-,x>\n"
                           "%c = exp(%b) : f64[12,7]\n"
                           "%d = reduce(%c) {dims=\"1\", combine=\"sum\"} : f64[12] <x>\n"
                           "output %d\n";
const std::string joined = "graph joined\nmesh x=2 y=2 z=1\n" // one reduction over both axes
                           "input %a : f32[32,16,64] <-,x,y>\n"
                           "parameter %w : f32[16,64,32] <x,y,->\n"
                           "%b = matmul(%a, %w) {rule=\"m i j, i j n -> m n\"} : f32[32,32]\n"
                           "output %b\n";
const std::string bucketed = "graph bucketed\nmesh x=4\n"
                             "input %a : f32[64,32] <x,->\n"
                             "parameter %v : f32[32,32] <x,->\n"
                             "parameter %w : f32[32,32] <x,->\n"
                             "%b = matmul(%a, %v) {rule=\"m k, k n -> m n\"} : f32[64,32]\n"
                             "%c = matmul(%b, %w) {rule=\"m k, k n -> m n\"} : f32[64,32] <x,->\n"
                             "output %c\n";

Bytes sent_by(const std::string& text)
{
    Bytes bytes = 0;
    for (const CollectiveEntry& entry : collectives_of(local_graph(sharded_graph(read_graph(text, "t")), 0)))
        bytes += entry.bytes;
    return bytes;
}

/// The text with another annotation of a value on line `number`.
std::string annotated(const std::string& text, int number, const std::string& value, const std::string& type,
                      const std::string& sharding)
{
    std::istringstream in(text);
    std::string made;
    int at = 0;
    for (std::string line; std::getline(in, line);) {
        if (++at == number) {
            INFO(line);
            CHECK(line.find("%" + value + " ") != std::string::npos);
            const std::size_t end = line.find(type) + type.size();
            std::string rest = line.substr(end);
            if (rest.starts_with(" <"))
                rest = rest.substr(rest.find('>') + 1);
            line = line.substr(0, end) + " " + sharding + rest;
        }
        made += line + "\n";
    }
    return made;
}

std::vector<Advice> advice_on(const Graph& graph, double share, int tries = 64)
{
    return advise(graph, decided_graph(sharded_graph(graph)), share, tries);
}

} // namespace

TEST_CASE("a proposed annotation saves what the advice states")
{
    int proposed = 0;
    for (const std::string& text : {costly, summed, turned, joined, bucketed}) {
        INFO(text);
        const Graph graph = read_graph(text, "t");
        for (const Advice& advice : advice_on(graph, 0)) {
            CHECK(advice.share > 0);
            if (advice.value.empty())
                continue;
            ++proposed;
            INFO(advice.value << " " << advice.annotation << ", line " << advice.line);
            CHECK(advice.saved > 0);
            const std::string better =
                annotated(text, advice.line, advice.value, to_string(advice.type), advice.annotation);
            CHECK(sent_by(text) - sent_by(better) == advice.saved);
        }
    }
    CHECK(proposed >= 6);
}

TEST_CASE("only collectives above the share are named")
{
    const Graph graph = read_graph(costly, "t");
    const std::vector<Advice> all = advice_on(graph, 0);
    REQUIRE(all.size() == 2);
    const double most = std::max(all[0].share, all[1].share), least = std::min(all[0].share, all[1].share);
    REQUIRE(least < most);
    CHECK(advice_on(graph, (least + most) / 2).size() == 1);
    CHECK(advice_on(graph, most).empty());
    CHECK(advice_on(graph, 0, 0).at(0).value.empty()); // nothing tried, nothing proposed
}

TEST_CASE("among annotations that save as much, the advice has the smallest shards, also over several axes")
{
    for (const auto& [mesh, rows, columns] :
         {std::tuple("x=4", "<x,->", "<-,x>"), {"x=2 y=2", "<x+y,->", "<-,x+y>"}}) {
        const std::string text =
            str("graph g\nmesh ", mesh, "\ninput %a : f32[8,6] ", rows, "\ninput %s : f32[8,6] ", columns,
                "\n%n = add(%s, %a) : f32[8,6] ", columns, "\noutput %n\n");
        INFO(text);
        const std::vector<Advice> all = advice_on(read_graph(text, "t"), 0);
        REQUIRE(all.size() == 1);
        CHECK(all[0].value == "a");
        CHECK(all[0].annotation == columns);
    }
}

TEST_CASE("a bucket names all that it moves")
{
    const std::vector<CollectiveEntry> all =
        collectives_of(local_graph(sharded_graph(read_graph(bucketed, "t")), 0));
    REQUIRE(all.size() == 1);
    CHECK(all[0].value == "v");
    CHECK((all[0].more == std::vector<std::string>{"w"}));
    CHECK(all[0].bytes == 2 * 32 * 32 * 4 * 3 / 4);
    CHECK(all[0].at == "matmul, line 6");
}

TEST_CASE("a collective has the same bytes in the list of every rank: their average")
{
    // 10 rows over 4 ranks: the windows of 3 rows at the 3 boundaries read 6 rows of 2 * 3 * 8 floats.
    const std::string text =
        "graph rows\nmesh x=4\n"
        "input %image : f32[2,3,10,8] <-,-,x,->\n"
        "parameter %kernel : f32[5,3,3,3]\n"
        "%out = convolution(%image, %kernel) {low=\"1 1\", high=\"1 1\"} : f32[2,5,10,8]\n"
        "output %out\n";
    const Graph sharded = sharded_graph(read_graph(text, "t"));
    for (i64 rank = 0; rank < 4; ++rank) {
        INFO("rank " << rank);
        const std::vector<CollectiveEntry> all = collectives_of(local_graph(sharded, rank));
        REQUIRE(all.size() == 1);
        CHECK(all[0].kind == "halo");
        CHECK(all[0].bytes == 6 * 2 * 3 * 8 * 4 / 4);
    }
}

TEST_CASE("a collective names the op that needs it, also behind other moves")
{
    const std::string text = "graph g\nmesh x=2 y=4\n"
                             "input %a : f32[8,16] <y+x,->\n"
                             "input %b : f32[8,16] <x,-|y:sum>\n"
                             "%c = add(%a, %b) : f32[8,16]\n"
                             "%d = negate(%c) : f32[8,16] <-,->\n"
                             "output %d\n";
    const std::vector<CollectiveEntry> all =
        collectives_of(local_graph(sharded_graph(read_graph(text, "t")), 0));
    REQUIRE(all.size() >= 3);
    for (std::size_t i = 0; i + 1 < all.size(); ++i) {
        INFO(all[i].kind << " of " << all[i].value);
        CHECK((all[i].at == "add, line 5" || all[i].at == "negate, line 6"));
        CHECK(all[i].at.ends_with(str(all[i].line)));
    }
}
