#include "base/check.hpp"
#include "catch.hpp"
#include "io/temporary_folder.hpp"
#include "io/text_source.hpp"

using namespace trivium;

namespace {

struct All {
    std::vector<std::string> texts, places;
    Bytes total = 0, done = 0;
};

All all(const std::vector<std::string>& inputs, const std::string& key = "text")
{
    TextSource source(inputs, key);
    All result;
    for (Document d; source.next(d);) {
        result.texts.push_back(d.text);
        result.places.push_back(d.place);
    }
    result.total = source.bytes_total();
    result.done = source.bytes_done();
    CHECK(source.documents() == i64(result.texts.size()));
    return result;
}

std::string complaint(const std::vector<std::string>& inputs, const std::string& key = "text")
{
    return message_of<UserError>([&] { all(inputs, key); });
}

} // namespace

TEST_CASE("files, folders and JSONL give documents in a stated order")
{
    const TemporaryFolder folder;
    put(folder / "c/z.txt", "last");
    put(folder / "c/a/one.md", "first");
    put(folder / "c/a/two.jsonl", "{\"text\":\"x\\ny\"}\r\n\n{\"id\":1,\"text\":\"\"}\n{\"text\":\"\\u00e9\"}");
    put(folder / "c/a/README", "plain");
    put(folder / "c/skipped.png", "\xff");
    put(folder / "c/.hidden", "\xff");
    put(folder / "c/empty.txt", "");
    put(folder / "other.dat", "\xef\xbb\xbfnamed");
    const All found = all({folder / "other.dat", folder / "c"});
    CHECK(found.texts == std::vector<std::string>{"named", "plain", "first", "x\ny", "\xc3\xa9", "last"});
    CHECK(found.places[3] == folder / "c/a/two.jsonl:1");
    CHECK(found.places[4] == folder / "c/a/two.jsonl:4");
    CHECK(found.done == found.total);
    CHECK(all({folder / "c/a/two.jsonl", folder / "c/a/two.jsonl"}).texts.size() == 4);
}

TEST_CASE("what is no corpus is the user's mistake, with its place")
{
    const TemporaryFolder folder;
    CHECK(says(complaint({folder / "none.txt"}), "none.txt", "no such text file"));
    CHECK(says(complaint({}), "no text file is named"));
    put(folder / "zero.txt", "");
    CHECK(says(complaint({folder / "zero.txt"}), "zero.txt", "the corpus is empty"));
    put(folder / "zero.jsonl", "\n\n");
    CHECK(says(complaint({folder / "zero.jsonl"}), "the corpus is empty"));
    std::filesystem::create_directories(folder / "bare");
    CHECK(says(complaint({folder / "bare"}), "bare", "has no text"));
    put(folder / "a.txt.gz", "x");
    CHECK(says(complaint({folder / "a.txt.gz"}), "compressed", "gunzip"));
}

TEST_CASE("bad JSONL lines are named by file and line")
{
    const TemporaryFolder folder;
    const auto of = [&](const std::string& content, const std::string& key = "text") {
        put(folder / "x.jsonl", content);
        return complaint({folder / "x.jsonl"}, key);
    };
    CHECK(says(of("{\"text\":\"a\"}\n{\"text\":\"b\"\n"), "x.jsonl:2", "not valid JSON"));
    CHECK(says(of("{\"text\":\"a\"}\n[1]\n"), "x.jsonl:2", "not a JSON object but array"));
    CHECK(says(of("{\"body\":\"a\"}\n"), "x.jsonl:1", "no field \"text\"", "\"body\"", "--key"));
    CHECK(says(of("{\"text\":7}\n"), "x.jsonl:1", "not a string but number"));
    CHECK(says(of("{\"text\":\"\\ud800\"}\n"), "x.jsonl:1", "not valid JSON"));
    CHECK(says(of("{\"text\":\"a\"}\n{\"text\":\"\xe9\"}\n"), "x.jsonl", "byte offset 22"));
    put(folder / "x.jsonl", "{\"body\":\"a\"}\n");
    CHECK(all({folder / "x.jsonl"}, "body").texts == std::vector<std::string>{"a"});
}

TEST_CASE("text that is not UTF-8 is refused with its byte offset")
{
    const TemporaryFolder folder;
    put(folder / "latin.txt", "caf\xe9 au lait");
    CHECK(says(complaint({folder / "latin.txt"}), "latin.txt", "byte offset 3", "iconv"));
    CHECK(first_invalid_utf8("") == -1);
    CHECK(first_invalid_utf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf") == -1);
    CHECK(first_invalid_utf8("a\x80") == 1);                 // a continuation alone
    CHECK(first_invalid_utf8("ab\xc3") == 2);                // cut off
    CHECK(first_invalid_utf8("ab\xe2\x82") == 2);
    CHECK(first_invalid_utf8("\xc0\xaf") == 0);              // overlong
    CHECK(first_invalid_utf8("\xe0\x9f\xbf") == 0);
    CHECK(first_invalid_utf8("\xf0\x8f\xbf\xbf") == 0);
    CHECK(first_invalid_utf8("x\xed\xa0\x80") == 1);         // surrogate
    CHECK(first_invalid_utf8("\xf4\x90\x80\x80") == 0);      // past U+10FFFF
    CHECK(first_invalid_utf8("\xff") == 0);
}
