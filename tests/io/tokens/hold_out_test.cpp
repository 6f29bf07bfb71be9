#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/tokens/hold_out.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <string>
#include <vector>

using namespace trivium;

namespace {

struct Sides {
    std::string all;
    i64 train = 0, valid = 0;
    int parts = 0, valid_parts = 0;
    double share = 0; ///< according to the survey
};

Sides split(const std::vector<std::string>& documents, double fraction)
{
    HoldOut hold_out(fraction);
    for (const std::string& document : documents)
        hold_out.survey(Bytes(document.size()));
    Sides sides;
    sides.share = hold_out.share();
    for (const std::string& document : documents)
        hold_out.split(document, [&](bool valid, std::string_view part) {
            if (documents.size() > 1)
                REQUIRE(part == document);
            REQUIRE(!part.empty());
            REQUIRE((static_cast<unsigned char>(part[0]) & 0xc0) != 0x80); // characters are not split
            sides.all += part;
            (valid ? sides.valid : sides.train) += i64(part.size());
            ++sides.parts;
            sides.valid_parts += valid;
        });
    return sides;
}

} // namespace

TEST_CASE("documents are held out whole, spread over the corpus, at least one on each side")
{
    std::vector<std::string> books;
    for (unsigned i = 0; i < 40; ++i)
        books.push_back(
            sample_text(1000 + int(i * 37 % 200), i)); // larger than the blocks of a single document
    for (const double fraction : {0.05, 0.1, 0.5}) {
        const Sides sides = split(books, fraction);
        CHECK(sides.parts == 40);
        CHECK(std::abs(double(sides.valid) / double(sides.all.size()) - fraction) < 0.03);
        CHECK(sides.share == Approx(double(sides.valid) / double(sides.all.size())));
    }
    // Not only from the front or the end.
    HoldOut hold_out(0.1);
    for (int i = 0; i < 1000; ++i)
        hold_out.survey(50);
    std::vector<int> chosen;
    for (int i = 0; i < 1000; ++i)
        hold_out.split(std::string(50, 'a'), [&](bool valid, std::string_view) {
            if (valid)
                chosen.push_back(i);
        });
    REQUIRE(chosen.size() == 100);
    for (std::size_t i = 1; i < chosen.size(); ++i)
        CHECK(chosen[i] - chosen[i - 1] == 10);
    // If every document is too large, the smallest one is held out.
    const Sides two = split({std::string(5000, 'a'), std::string(3000, 'b')}, 0.05);
    CHECK(two.parts == 2);
    CHECK(two.valid == 3000);
    CHECK(two.share == Approx(3.0 / 8));
    const Sides nearly_all = split({std::string(5000, 'a'), std::string(3000, 'b')}, 0.95);
    CHECK(nearly_all.train == 3000);
    CHECK(nearly_all.valid == 5000);
    const Sides one_large = split({"a", std::string(100000, 'b'), "c"}, 0.05);
    CHECK(one_large.valid_parts == 1);
    CHECK(one_large.train > 100000);
    CHECK_THROWS_AS(
        [] {
            HoldOut none(0.5);
            none.split("a", [](bool, std::string_view) {});
        }(),
        UserError);
}

TEST_CASE("held-out documents have the lengths of the corpus, in whatever order it is")
{
    std::mt19937_64 random(4);
    std::lognormal_distribution<double> length(8, 1.5); // most bytes are in few long documents
    for (const std::size_t count : {400, 4000, 20000})
        for (const int order : {-1, 0, 1}) {
            std::vector<Bytes> sizes(count);
            for (Bytes& size : sizes)
                size = 1 + static_cast<Bytes>(length(random));
            if (order != 0)
                std::sort(sizes.begin(), sizes.end(),
                          [&](Bytes a, Bytes b) { return order < 0 ? a > b : a < b; });
            HoldOut hold_out(0.05);
            for (const Bytes size : sizes)
                hold_out.survey(size);
            std::vector<double> all(sizes.begin(), sizes.end()), valid;
            const std::string text(static_cast<std::size_t>(*std::max_element(sizes.begin(), sizes.end())),
                                   'a');
            for (const Bytes size : sizes)
                hold_out.split(std::string_view(text).substr(0, static_cast<std::size_t>(size)),
                               [&](bool is_valid, std::string_view part) {
                                   if (is_valid)
                                       valid.push_back(static_cast<double>(part.size()));
                               });
            INFO(count << " documents, order " << order);
            CHECK(valid.size() == count / 20);
            const auto mean = [](const std::vector<double>& list) {
                return std::accumulate(list.begin(), list.end(), 0.) / static_cast<double>(list.size());
            };
            CHECK(mean(valid) == Approx(mean(all)).epsilon(count > 1000 ? 0.1 : 0.25));
            CHECK(hold_out.share() == Approx(0.05).epsilon(count > 1000 ? 0.1 : 0.25));
            std::sort(all.begin(), all.end());
            std::sort(valid.begin(), valid.end());
            for (std::size_t i = 0; i < valid.size();
                 ++i) { // the i-th of the one is about the i-th of the other
                CHECK(valid[i] >= all[20 * i]);
                CHECK(valid[i] <= all[20 * i + 19]);
            }
        }
}

TEST_CASE("the held-out part has the requested size, and no text is lost")
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
    CHECK(split(small, 0).valid == 0);
    CHECK(split({std::string(5000, '\n')}, 0.5).valid > 0);
    std::string wide; // characters of three bytes, no newline
    for (int i = 0; i < 5000; ++i)
        wide += "\xe4\xbd\xa0";
    CHECK(split({wide}, 0.5).all == wide);
}
