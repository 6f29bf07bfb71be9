#include "base/check.hpp"
#include "catch.hpp"
#include "io/tokens/tokenizer/class_pattern.hpp"
#include "io/tokens/tokenizer/text_split.hpp"

#include <random>

using namespace trivium;

namespace {

const std::string marks = R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])";

/// Of the known families, and some that are not of one.
const std::vector<std::pair<std::string, std::string>>& family_patterns()
{
    const std::string tail = R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    const std::string word = R"([^\r\n\p{L}\p{N}]?)", upper = R"([\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}])",
                      lower = R"([\p{Ll}\p{Lm}\p{Lo}\p{M}])", suffix = "(?i:'s|'t|'re|'ve|'m|'ll|'d)";
    static const std::vector<std::pair<std::string, std::string>> all{
        {"GPT-2", R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
        {"Llama 3", suffix + "|" + word + R"(\p{L}+|\p{N}{1,3})" + tail},
        {"Qwen 2", suffix + "|" + word + R"(\p{L}+|\p{N})" + tail},
        {"cl100k",
         R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"},
        {"o200k", word + upper + "*" + lower + "+" + suffix + "?|" + word + upper + "+" + lower + "*" +
                      suffix + R"(?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
        {"DeepSeek 3, words", marks +
                                  R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" +
                                  R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"},
        {"DeepSeek 3, ideographs", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"},
        {"DeepSeek 3, digits", R"(\p{N}{1,3})"},
        {"DeepSeek 1, words", R"(\s?\p{L}+)"},
        {"DeepSeek 1, marks", R"(\s?\p{P}+)"},
        {"marks", R"([$+<=>^`|~\p{P}])"},
        {"steps back", R"([a-z]*b[a-z]?c|\w{2,4}x|\d+(?:st|nd)?|a?\s{1,3}(?!\p{Lu})|(?i:k|s))"},
    };
    return all;
}

std::vector<std::string> pieces_by(const TextSplit& split, std::string_view text)
{
    MatchEffort effort = MatchEffort::for_text(text.size());
    std::vector<std::string> pieces;
    split.split(text, effort, [&](std::string_view piece) { pieces.emplace_back(piece); });
    return pieces;
}

std::string utf8_of(char32_t code)
{
    std::string bytes;
    if (code < 0x80)
        return {static_cast<char>(code)};
    const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    const unsigned lead = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
    bytes += static_cast<char>(lead | code >> (6 * more));
    for (int i = more - 1; i >= 0; --i)
        bytes += static_cast<char>(0x80 | (code >> (6 * i) & 0x3f));
    return bytes;
}

std::string random_text(std::mt19937_64& random)
{
    static const std::vector<std::string> parts{
        "'s",     "'T",      "'RE",    "'ll",          "'",      "'\u017f",    "don't",      "I'M",
        " ",      "  ",      "\n",     "\r\n",         "\t",     "\u00a0",     "\u3000",     "\u0085",
        "12",     "3456",    "\u00bd", "\u0661",       "the",    " The",       "HTTPServer", "\u01c5",
        "\u02b0", "e\u0301", "\u0301", "\u4e2d\u6587", "\u3053", "\U0001f600", "\u200d",     "//",
        "...",    "_",       "abc",    "bc",           "\u212a", "1st"};
    std::string text;
    for (auto n = random() % 12; n > 0; --n) {
        if (random() % 4 == 0) {
            char32_t code = 0;
            do
                code = static_cast<char32_t>(random() % (random() % 2 == 0 ? 0x3000 : 0x110000));
            while (code >= 0xd800 && code < 0xe000);
            text += utf8_of(code);
        } else if (random() % 3 == 0)
            text += std::string(random() % 5, static_cast<char>(random() % 0x80));
        else
            text += parts[random() % parts.size()];
    }
    return text;
}

} // namespace

TEST_CASE("families' patterns split as Oniguruma splits")
{
    std::mt19937_64 random(11);
    for (const auto& [name, pattern] : family_patterns()) {
        INFO(name);
        CHECK(ClassPattern::parse(pattern));
        for (int behavior = 0; behavior < 5; ++behavior) {
            SplitRule rule{pattern};
            rule.behavior = static_cast<SplitBehavior>(behavior);
            rule.invert = behavior % 2 == 1;
            const TextSplit fastest(rule, "here"), referee(rule, "here", SplitMatcher::oniguruma);
            for (int n = 0; n < 400; ++n) {
                const std::string text = random_text(random);
                INFO(text);
                CHECK(pieces_by(fastest, text) == pieces_by(referee, text));
            }
        }
    }
}

TEST_CASE("each character is in the classes that Oniguruma puts it in")
{
    const SplitRule rule{R"(\p{L}|\p{N}{2}|\s{3}|[\p{P}\p{S}]{4}|[\p{Lu}\p{Lt}\p{M}]{5}|\w{6})"};
    REQUIRE(ClassPattern::parse(rule.pattern));
    std::string text;
    for (char32_t code = 1; code < 0x110000; code += code < 0x3400 ? 1 : 61)
        if (code < 0xd800 || code >= 0xe000)
            for (int times = 0; times < 6; ++times)
                text += utf8_of(code);
    const TextSplit fastest(rule, "here"), referee(rule, "here", SplitMatcher::oniguruma);
    CHECK((pieces_by(fastest, text) == pieces_by(referee, text)));
}

TEST_CASE("what the matcher does not know is left to Oniguruma")
{
    for (const char* pattern : {"",
                                "a*",
                                "a??b",
                                "(a)\\1",
                                "(?<=a)b",
                                "(?=a)b",
                                "\\bword",
                                "a$",
                                ".",
                                "[[:alpha:]]",
                                "[a-z&&[^x]]",
                                "\\h",
                                "(?i:ss)",
                                "(?i:\u00e9)",
                                "\\p{NoSuchClass}",
                                "\\p{L",
                                "[",
                                "a{2}{3}",
                                "a{1,2}+",
                                "(?:ab)*",
                                "a++b*c+d+",
                                "x\\",
                                "(?i)a"})
        CHECK_FALSE(ClassPattern::parse(pattern));
}

TEST_CASE("the families' patterns split words independently of what surrounds them")
{
    for (const auto& [name, pattern] : family_patterns()) {
        INFO(name);
        if (name == "steps back")
            continue;
        const auto known = ClassPattern::parse(pattern);
        REQUIRE(known);
        const bool ignores =
            name == "DeepSeek 3, ideographs" || name == "DeepSeek 3, digits" || name == "marks";
        CHECK(known->ignores_words() == ignores);
        CHECK(known->cuts_before_words() == !(ignores || name == "DeepSeek 1, marks"));
    }
}
