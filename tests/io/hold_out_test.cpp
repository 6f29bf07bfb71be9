#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/hold_out.hpp"

#include <cmath>
#include <string>
#include <vector>

using namespace trivium;

namespace {

struct Sides {
    std::string all;
    i64 train = 0, valid = 0;
    int parts = 0;
};

Sides split(const std::vector<std::string>& documents, double fraction)
{
    Bytes total = 0;
    for (const std::string& document : documents)
        total += Bytes(document.size());
    HoldOut hold_out(fraction, total);
    Sides sides;
    for (const std::string& document : documents)
        hold_out.split(document, [&](bool valid, std::string_view part) {
            REQUIRE(!part.empty());
            REQUIRE((static_cast<unsigned char>(part[0]) & 0xc0) != 0x80); // no character is cut
            sides.all += part;
            (valid ? sides.valid : sides.train) += i64(part.size());
            ++sides.parts;
        });
    return sides;
}

} // namespace

TEST_CASE("the held out part is as large as asked for, and no text is lost")
{
    std::vector<std::string> small, large{sample_text(100000)};
    std::string all;
    for (unsigned i = 0; i < 3000; ++i) {
        small.push_back(sample_text(5 + int(i % 40), i));
        all += small.back();
    }
    for (const double fraction : {0.01, 0.05, 0.3}) {
        const Sides documents = split(small, fraction), blocks = split(large, fraction);
        CHECK(documents.all == all);
        CHECK(documents.parts == 3000); // small documents stay whole
        CHECK(std::abs(double(documents.valid) / double(all.size()) - fraction) < 0.01);
        CHECK(blocks.all == large[0]);
        CHECK(std::abs(double(blocks.valid) / double(large[0].size()) - fraction) < 0.01);
        CHECK(blocks.valid > 0);
    }
    CHECK(split(large, 0).parts == 1);
    CHECK(split({std::string(5000, '\n')}, 0.5).valid > 0);
    std::string wide; // characters of three bytes, no line's end
    for (int i = 0; i < 5000; ++i)
        wide += "\xe4\xbd\xa0";
    CHECK(split({wide}, 0.5).all == wide);
}
