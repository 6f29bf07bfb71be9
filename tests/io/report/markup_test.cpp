#include "catch.hpp"
#include "io/report/markup.hpp"

using namespace trivium;

TEST_CASE("any text is escaped to valid markup")
{
    CHECK(markup_text("a <b> & \"c\" 'd'\n\té 漢 𝄞") ==
          "a &lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;\n\té 漢 𝄞");
    const std::string bad = "\xef\xbf\xbd";
    CHECK(markup_text(std::string("\0\x01\x1f\x7f", 4)) == bad + bad + bad + bad);
    CHECK(markup_text("\xff") == bad);
    CHECK(markup_text("a\xc3") == "a" + bad);                        // truncated
    CHECK(markup_text("\xc0\xafx") == bad + bad + "x");              // overlong
    CHECK(markup_text("\xe0\x80\xaf") == bad + bad + bad);           // overlong
    CHECK(markup_text("\xf0\x80\x80\xaf") == bad + bad + bad + bad); // overlong
    CHECK(markup_text("\xed\xa0\x80") == bad + bad + bad);           // half a surrogate pair
    CHECK(markup_text("\xf4\x90\x80\x80") == bad + bad + bad + bad); // past the last character
    CHECK(markup_text("\xef\xbf\xbe\xef\xbf\xbf") == bad + bad + bad + bad + bad + bad); // noncharacters
    CHECK(markup_text("\xc2\x85") == bad + bad); // a control character
    CHECK(markup_text("\xf0\x9d\x84<") ==
          bad + bad + bad + "&lt;"); // characters after an invalid one are kept
}
