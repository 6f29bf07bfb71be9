#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/tokenizer.hpp"
#include "io/tokens/tokenizer/unicode_form.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace trivium;

namespace {

std::string utf8(std::u32string_view text)
{
    std::string bytes;
    for (const char32_t c : text) {
        if (c < 0x80)
            bytes += static_cast<char>(c);
        else if (c < 0x800)
            bytes += {static_cast<char>(0xc0 | c >> 6), static_cast<char>(0x80 | (c & 63))};
        else if (c < 0x10000)
            bytes += {static_cast<char>(0xe0 | c >> 12), static_cast<char>(0x80 | (c >> 6 & 63)),
                      static_cast<char>(0x80 | (c & 63))};
        else
            bytes += {static_cast<char>(0xf0 | c >> 18), static_cast<char>(0x80 | (c >> 12 & 63)),
                      static_cast<char>(0x80 | (c >> 6 & 63)), static_cast<char>(0x80 | (c & 63))};
    }
    return bytes;
}

struct Pair {
    std::u32string source, nfc;
};

/// From Unicode Standard Annex 15 (its tables and figures) and NormalizationTest.txt.
const std::vector<Pair>& examples()
{
    static const std::vector<Pair> all{
        {U"", U""},
        {U"plain\n", U"plain\n"},
        {U"\u0041\u030A", U"\u00C5"}, // composed
        {U"\u00C5", U"\u00C5"},
        {U"\u212B", U"\u00C5"},                         // Angstrom, a singleton
        {U"\u2126", U"\u03A9"},                         // ohm
        {U"\u0073\u0323\u0307", U"\u1E69"},             // two marks
        {U"\u1E0B\u0323", U"\u1E0D\u0307"},             // reordered and recomposed
        {U"\u0071\u0307\u0323", U"\u0071\u0323\u0307"}, // reordered; q composes with neither
        {U"\u1E9B\u0323", U"\u1E9B\u0323"},
        {U"\uFB01", U"\uFB01"}, // compatibility characters are unchanged
        {U"\u0032\u2075", U"\u0032\u2075"},
        {U"\u1100\u1161", U"\uAC00"},       // Hangul: L V
        {U"\u1100\u1161\u11A8", U"\uAC01"}, // L V T
        {U"\uAC00\u11A8", U"\uAC01"},       // LV T
        {U"\u1111\u1171\u11B6", U"\uD4DB"},
        {U"\u0958", U"\u0915\u093C"}, // excluded from composition
        {U"\u0344", U"\u0308\u0301"},
        {U"\u0061\u0315\u0300\u05AE\u0062", U"\u00E0\u05AE\u0315\u0062"}, // canonical order of classes
        {U"\u0065\u0301\u0301", U"\u00E9\u0301"}, // the second mark is not blocked, but has no composite
        {U"\u0061\u0338\u0301", U"\u00E1\u0338"}, // a mark of another class between
        {U"\u0301\u0065", U"\u0301\u0065"},       // a mark without a base
        {U"\u0065\n\u0301", U"\u0065\n\u0301"},   // not across a newline
        {std::u32string(U"\u0065\u0301\0\u0065\u0301", 5),
         std::u32string(U"\u00E9\0\u00E9", 3)},   // a zero is a character
        {U"\U0001D15E", U"\U0001D157\U0001D165"}, // outside the Basic Multilingual Plane
        {U"\U000110A5\U000110BA", U"\U000110AB"},
    };
    return all;
}

} // namespace

TEST_CASE("examples of form C from the Unicode standard")
{
    for (const auto& [source, nfc] : examples()) {
        INFO(utf8(source));
        CHECK(to_form(UnicodeForm::nfc, utf8(source)) == utf8(nfc));
        CHECK(to_form(UnicodeForm::nfc, utf8(nfc)) == utf8(nfc));
    }
    // A text of several blocks equals its lines, normalized one by one.
    std::string text, expected;
    while (text.size() < 3'000'000)
        for (const auto& [source, nfc] : examples()) {
            text += utf8(source) + "\n";
            expected += utf8(nfc) + "\n";
        }
    CHECK((to_form(UnicodeForm::nfc, text) == expected));
}

TEST_CASE("with a normalizer, decomposed text has the same ids as composed text")
{
    nlohmann::json file = nlohmann::json::parse(get(TRIVIUM_TEST_DATA "/io/data/byte_bpe/digits.json"));
    const auto without = tokenizer_from_model(file.dump(), "without a normalizer");
    for (const nlohmann::json& normalizer :
         {nlohmann::json{{"type", "NFC"}},
          nlohmann::json{{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}}}) {
        file["normalizer"] = normalizer;
        const auto t = tokenizer_from_model(file.dump(), "normalizes");
        CHECK(t->fingerprint() != without->fingerprint());
        for (const auto& [source, nfc] : examples()) {
            const std::string text = "x " + utf8(source) + " 12";
            INFO(text);
            CHECK(t->encode(text) == without->encode("x " + utf8(nfc) + " 12"));
            CHECK(t->decode(t->encode(text)) == "x " + utf8(nfc) + " 12");
        }
        // An added token with "normalized": false is found first, so a mark after it does not compose with
        // it.
        CHECK(t->encode("<think>\u0301e\u0301") == without->encode("<think>\u0301\u00e9"));
        CHECK(t->decode(t->encode("caf\xe9 e\u0301")) ==
              "caf\xe9 \u00e9"); // bytes that are not UTF-8 are kept
    }
    file["normalizer"] = {{"type", "Sequence"},
                          {"normalizers", {{{"type", "NFKC"}}, {{"type", "Lowercase"}}}}};
    CHECK(tokenizer_from_model(file.dump(), "other.json")->encode("\ufb01ne \u00b2 \u0130\u00c9") ==
          without->encode("fine 2 i\u0307\u00e9"));
    file["normalizer"] = {{"type", "Sequence"},
                          {"normalizers", {{{"type", "Nmt"}}, {{"type", "StripAccents"}}}}};
    CHECK(tokenizer_from_model(file.dump(), "other.json")->encode("e\u0301\u0903\x01\tx\u2581y\u200e") ==
          without->encode("e x y "));
    file["normalizer"] = {{"type", "Precompiled"}};
    CHECK(says(message_of<UserError>([&] { tokenizer_from_model(file.dump(), "other.json"); }), "other.json",
               "precompiled_charsmap"));
    file["normalizer"] = {{"type", "BertNormalizer"}};
    CHECK(says(message_of<UserError>([&] { tokenizer_from_model(file.dump(), "other.json"); }), "other.json",
               "the normalizer \"BertNormalizer\"", "not supported"));
    file["normalizer"] = "NFC";
    CHECK(
        says(message_of<UserError>([&] { tokenizer_from_model(file.dump(), "other.json"); }), "other.json"));
    file["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}, {{"type", "nmt"}}}}};
    CHECK(says(message_of<UserError>([&] { tokenizer_from_model(file.dump(), "other.json"); }), "\"nmt\""));
}
