// Graphs that are written with sizes and repeats are those that are written out.
#include "base/check.hpp"
#include "catch.hpp"
#include "ir/text/sizes.hpp"
#include "ir/text/text.hpp"

#include <cmath>

using namespace trivium;

namespace {

std::string written_out(const std::string& text, const NamedSizes& sizes = {})
{
    TextSettings settings;
    settings.sizes = sizes;
    return to_text(parse_graph(text, "g.graph", settings));
}

std::string number(const std::string& expression)
{
    return evaluated(expression, {{"a", 12}, {"b", 5}, {"one", 1}}, "here");
}

} // namespace

TEST_CASE("expressions of sizes")
{
    CHECK(number("a") == "12");
    CHECK(number("a+b*2-one") == "21");
    CHECK(number("a/4*b") == "15");
    CHECK(number("2*b^2") == "50");
    CHECK(number("b^0+a^one") == "13");
    CHECK(std::stod(number("1/a^0.5")) == 1 / std::sqrt(12.0));
    CHECK(std::stod(number("1.0/a/b")) == 1.0 / 12 / 5);
    CHECK_THROWS_AS(number("b/a"), UserError); // a remainder
    CHECK_THROWS_AS(number("a/0"), UserError);
    CHECK_THROWS_AS(number("a^63"), UserError);
    CHECK_THROWS_AS(number("a^60"), UserError); // too large
    CHECK_THROWS_AS(number("c"), UserError);    // unknown
}

TEST_CASE("numbers in names, within repeats and outside")
{
    const std::string header = "graph g\nmesh x=2\n";
    const std::string repeated = header + R"(size n=2 w=4
repeat i n+1 {
  size w${i+1}=w*2^$i
}
input %x.0 : f32[w,w3] <x,->
repeat i n {
  @ forward block ${i+1} part.$i
  %x.${i+1} = gelu(%x.$i) : f32[w,w3]
}
@ forward block ${n+1} end
%y = negate(%x.${n}) : f32[w,w3]
output %y
)";
    const auto plain = [&](const std::string& type) {
        return header + "input %x.0 : " + type +
               " <x,->\n@ forward block 1 part.0\n%x.1 = gelu(%x.0) : " + type +
               "\n@ forward block 2 part.1\n%x.2 = gelu(%x.1) : " + type +
               "\n@ forward block 3 end\n%y = negate(%x.2) : " + type + "\noutput %y\n";
    };
    CHECK(written_out(repeated) == written_out(plain("f32[4,16]")));
    // A size that is set need not be the one that its expression gives.
    CHECK(written_out(repeated, {{"w", 6}, {"w3", 7}}) == written_out(plain("f32[6,7]")));
}

TEST_CASE("the expression of a size that is set is not evaluated")
{
    const std::string text = "graph g\nsize n=9 half=n/2\ninput %x : f32[n,half]\noutput %x\n";
    CHECK_THROWS_AS(written_out(text), UserError);
    CHECK(written_out(text, {{"half", 5}}).find("f32[9,5]") != std::string::npos);
}
