#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/utf8.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/text_source.hpp"

#include <fstream>
#include <sys/stat.h>

using namespace trivium;

namespace {

struct All {
    std::vector<std::string> texts, places, left_out;
    std::string read;
    Bytes total = 0, done = 0;
};

All all(const std::vector<std::string>& inputs, const std::string& key = "")
{
    TextSource source({inputs, key});
    All result;
    for (Document d; source.next(d);) {
        result.texts.push_back(d.text);
        result.places.push_back(d.place);
    }
    for (const std::string& line : describe_skipped(source.report()))
        result.left_out.push_back(line);
    result.read = describe_read(source.report());
    result.total = source.bytes_total();
    result.done = source.bytes_done();
    CHECK(source.documents() == i64(result.texts.size()));
    return result;
}

std::string source_error(const std::vector<std::string>& inputs, const std::string& key = "")
{
    return message_of<UserError>([&] { all(inputs, key); });
}

} // namespace

TEST_CASE("files, folders and JSONL yield documents in a defined order")
{
    const TemporaryFolder folder;
    put(folder / "c/z.txt", "last");
    put(folder / "c/a/one.md", "first");
    put(folder / "c/a/two.jsonl",
        "{\"text\":\"x\\ny\"}\r\n\n{\"id\":1,\"text\":\"\"}\n{\"text\":\"\\u00e9\"}");
    put(folder / "c/a/README", "plain");
    put(folder / "c/code.py", "print(1)");
    put(folder / "c/skipped.png", "\xff");
    put(folder / "c/.hidden", "\xff");
    put(folder / "c/empty.txt", "");
    put(folder / "other.dat", "\xef\xbb\xbfnamed");
    const All found = all({folder / "other.dat", folder / "c"});
    CHECK(found.texts ==
          std::vector<std::string>{"named", "plain", "first", "x\ny", "\xc3\xa9", "print(1)", "last"});
    CHECK(found.places[3] == folder / "c/a/two.jsonl:1");
    CHECK(found.places[4] == folder / "c/a/two.jsonl:4");
    CHECK(found.done == found.total);
    CHECK(all({folder / "c/a/two.jsonl", folder / "c/a/two.jsonl"}).texts.size() == 4);
}

TEST_CASE("an input without text is a UserError that names the input")
{
    const TemporaryFolder folder;
    CHECK(says(source_error({folder / "none.txt"}), "none.txt", "no such text file"));
    CHECK(says(source_error({}), "no text file is named"));
    put(folder / "zero.txt", "");
    CHECK(says(source_error({folder / "zero.txt"}), "zero.txt", "no text was found"));
    put(folder / "zero.jsonl", "\n\n");
    CHECK(says(source_error({folder / "zero.jsonl"}), "no text was found"));
    std::filesystem::create_directories(folder / "bare");
    CHECK(says(source_error({folder / "bare"}), "bare", "no text was found"));
    put(folder / "a.txt.bz2", "x");
    CHECK(says(source_error({folder / "a.txt.bz2"}), "compressed", "bunzip2"));
}

TEST_CASE("errors in JSONL name file and line")
{
    const TemporaryFolder folder;
    const auto of = [&](const std::string& content, const std::string& key = "text") {
        put(folder / "x.jsonl", content);
        return source_error({folder / "x.jsonl"}, key);
    };
    const std::string broken = of("{\"text\":\"a\"}\n{\"text\":\"b\"\n");
    CHECK(says(broken, "x.jsonl:2: is not valid JSON", "column 12", "end of input"));
    CHECK_FALSE((has(broken, "exception") || has(broken, "line 1")));
    CHECK(says(of("{\"text\":\"a\"}\n[1]\n"), "x.jsonl:2", "not a JSON object but a list"));
    CHECK(says(of("{\"body\":\"a\"}\n"), "x.jsonl:1", "no field \"text\"", "\"body\"", "--key"));
    CHECK(says(of("{\"text\":7}\n"), "x.jsonl:1", "not a string but a number"));
    CHECK(says(of("{\"text\":\"\\ud800\"}\n"), "x.jsonl:1", "not valid JSON"));
    CHECK(says(of("{\"text\":\"a\"}\n{\"text\":\"\xe9\"}\n"), "x.jsonl", "byte offset 22"));
    CHECK(says(of("[1]\n"), "x.jsonl:1", "not a JSON object but a list"));
    put(folder / "x.jsonl", "{\"body\":\"a\"}\n");
    CHECK(all({folder / "x.jsonl"}, "body").texts == std::vector<std::string>{"a"});
}

TEST_CASE("text that is not UTF-8 is refused with its byte offset")
{
    const TemporaryFolder folder;
    put(folder / "latin.txt", "caf\xe9 au lait");
    CHECK(says(source_error({folder / "latin.txt"}), "latin.txt", "byte offset 3", "iconv"));
    CHECK(first_invalid_utf8("") == -1);
    CHECK(first_invalid_utf8("plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \xed\x9f\xbf \xf4\x8f\xbf\xbf") ==
          -1);
    CHECK(first_invalid_utf8("a\x80") == 1);  // a continuation alone
    CHECK(first_invalid_utf8("ab\xc3") == 2); // truncated
    CHECK(first_invalid_utf8("ab\xe2\x82") == 2);
    CHECK(first_invalid_utf8("\xc0\xaf") == 0); // overlong
    CHECK(first_invalid_utf8("\xe0\x9f\xbf") == 0);
    CHECK(first_invalid_utf8("\xf0\x8f\xbf\xbf") == 0);
    CHECK(first_invalid_utf8("x\xed\xa0\x80") == 1);    // surrogate
    CHECK(first_invalid_utf8("\xf4\x90\x80\x80") == 0); // past U+10FFFF
    CHECK(first_invalid_utf8("\xff") == 0);
}

TEST_CASE("the layout of JSON records is recognised: lines, lists, sequences of objects")
{
    const TemporaryFolder folder;
    const std::vector<std::string> two{"a\nb", "c]}\"\\"};
    const std::string a = R"({"id": {"x": [1, "]"]}, "text": "a\nb"})", c = R"({"text": "c]}\"\\"})";
    const std::vector<std::string> contents{a + "\n" + c + "\n",
                                            "\n" + a + "\r\n\r\n" + c,
                                            a + "\n" + c,
                                            "[" + a + "," + c + "]",
                                            " [\n  " + a + ",\n\n  " + c + "\n]\n",
                                            "\xef\xbb\xbf" + a + "\n" + c,
                                            "{\"text\":\n\"a\\nb\"}\n{\n\"text\": \"c]}\\\"\\\\\"\n}\n"};
    for (const std::string& content : contents)
        for (const std::string name : {"x.json", "x.jsonl"}) {
            if (name == "x.jsonl" && content.starts_with("{\"text\":\n"))
                continue; // not lines
            put(folder / name, content);
            INFO(name << ": " << content);
            CHECK(all({folder / name}).texts == two);
        }
    put(folder / "x.json", " [\n  " + a + ",\n\n  " + c + "\n]\n");
    CHECK(all({folder / "x.json"}).places ==
          std::vector<std::string>{folder / "x.json:2", folder / "x.json:4"});
    const auto of = [&](const std::string& content, const std::string& key = "") {
        put(folder / "x.json", content);
        return source_error({folder / "x.json"}, key);
    };
    CHECK(says(of("[\n" + a + "\n" + c + "]"), "x.json:3", "not valid JSON", "comma"));
    CHECK(says(of("[\n" + a + ",\n" + c), "x.json:3", "does not end"));
    CHECK(says(of("[" + a + ",\n{\"text\": \"abc"), "x.json:2", "does not end"));
    CHECK(says(of("[" + a + ",\n7]"), "x.json:2", "not valid JSON"));
    CHECK(says(of("[" + a + ",\n{\"text\": 7}]"), "x.json:2", "not a string but a number"));
    CHECK(says(of("[" + a + ",\n{\"text\" 7}]"), "x.json:2", "not valid JSON"));
    CHECK(says(of("[{\"body\": \"a\"}]"), "x.json:1", "no field \"text\"", "\"body\""));
    CHECK(says(of("{\"a\": 1,}"), "x.json:1", "not valid JSON"));
    CHECK(says(of("{\"a\": 1}", "body"), "--key body", "applies to nothing", "1 .json"));
    CHECK(source_error({folder / "x.json"}).empty()); // a single object without text is a document itself
    CHECK(all({folder / "x.json"}).texts == std::vector<std::string>{"{\"a\": 1}"});
    put(folder / "x.json", "{\n  \"text\": \"only\"\n}\n");
    CHECK(all({folder / "x.json"}).texts == std::vector<std::string>{"only"});
    put(folder / "x.json", "[1, 2, 3]");
    CHECK(all({folder / "x.json"}).texts == std::vector<std::string>{"[1, 2, 3]"});
}

TEST_CASE("a Parquet file that cannot be read is refused, and skipped with --skip-bad")
{
    const TemporaryFolder folder;
    put(folder / "c/x.parquet", "PAR1 and no more");
    put(folder / "c/y.txt", "text");
    const std::string message = source_error({folder / "c/x.parquet"});
    const bool has_arrow = !has(message, "built without Apache Arrow");
    CHECK(
        says(message, "c/x.parquet: is ", has_arrow ? "not a Parquet file that can be read" : "libparquet"));
    CHECK(source_error({folder / "c"}) == (has_arrow ? message : ""));
    TextSource source({.inputs = {folder / "c"}, .skip_bad = true});
    Document document;
    CHECK((source.next(document) && document.text == "text" && !source.next(document)));
    REQUIRE(describe_skipped(source.report()).size() == 1);
    CHECK(has(describe_skipped(source.report())[0], "1 Parquet file"));
    CHECK(has(describe_skipped(source.report())[0], folder / "c/x.parquet"));
}

TEST_CASE("files that are not text are skipped in folders, and refused if named as inputs")
{
    const TemporaryFolder folder;
    const std::vector<std::pair<std::string, std::string>> bad{
        {"a.txt.bz2", "x"},
        {"xz.txt", "\xfd"
                   "7zXZ"},
        {"zip.md", "PK\x03\x04"},
        {"lz4", "\x04\x22\x4d\x18"},
        {"utf16.txt", "\xff\xfe"
                      "a"},
        {"latin.txt", "caf\xe9"},
        {"late.txt", std::string(100000, 'a') + "\xff"}};
    put(folder / "c/good.txt", "good");
    for (const auto& [name, content] : bad) {
        put(folder / ("c/" + name), content);
        INFO(name);
        CHECK(says(source_error({folder / ("c/" + name)}), name, "remedy: "));
    }
    put(folder / "c/zero.bin", "");
    std::ofstream(folder / "c/zeros.bin", std::ios::binary) << std::string(5000, '\0');
    CHECK(says(source_error({folder / "c/zeros.bin"}), "zeros.bin", "binary"));
    put(folder / "c/bad.json", "{\"a\": }");
    REQUIRE(::mkfifo((folder / "c/pipe.txt").c_str(), 0600) == 0);
    std::filesystem::create_symlink("nowhere", folder / "c/broken.txt");
    std::filesystem::create_directory_symlink(".", folder / "c/round");
    const All found = all({folder / "c"});
    CHECK(found.texts == std::vector<std::string>{"good"});
    CHECK(found.read == "1 .txt");
    CHECK(found.done == found.total);
    std::string left_out;
    for (const std::string& line : found.left_out)
        left_out += line + "\n";
    INFO(left_out);
    for (const std::string& part :
         {"4 compressed files, such as " + folder / "c/a.txt.bz2; decompress",
          "1 file in UTF-16, " + folder / "c/utf16.txt; convert",
          "2 files that are not UTF-8, such as " + folder / "c/late.txt", std::string("1 binary file"),
          std::string("1 empty file"), "1 JSON file that is not valid, " + folder / "c/bad.json",
          "1 pipe, socket or device, " + folder / "c/pipe.txt", std::string("1 broken link"),
          std::string("1 link to a folder")}) {
        INFO(part);
        CHECK(has(left_out, part));
    }
    std::filesystem::remove(folder / "c/good.txt");
    CHECK(says(source_error({folder / "c"}), "no text was found", "4 compressed files",
               "2 files that are not UTF-8"));
}
