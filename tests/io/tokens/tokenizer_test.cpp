#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/tokenizer.hpp"

#include <algorithm>
#include <set>

using namespace trivium;

namespace {

const std::vector<std::string>& hard_texts()
{
    using namespace std::string_literals;
    static const std::vector<std::string> texts{
        "",
        " ",
        "  ",
        "a",
        " a",
        "a ",
        "  a  b   c  ",
        "\n",
        "\n\n\n",
        "a\nb",
        "a \n b\r\n\tc\t\t",
        "\t",
        "\ttab",
        "caf\xc3\xa9 \xe4\xbd\xa0\xe5\xa5\xbd \xf0\x9f\x98\x80 \xd0\xbc\xd0\xb8\xd1\x80",
        "\xe2\x96\x81",
        "a\xe2\x96\x81 \xe2\x96\x81\xe2\x96\x81z",          // the mark SentencePiece writes for a space
        "\xef\xac\x81 \xef\xbc\xa1 \xe2\x84\xab e\xcc\x81", // would change under NFKC
        "<s> </s> <unk> <0x41> <pad>",
        "nul\0in\0text"s,
        "\0"s,
        "\x01\x7f",
        "\xef\xbb\xbf bom \xc2\xa0 nbsp \xe3\x80\x80 wide",
        "\xe2\x81\x87 \xef\xbf\xbd \xe2\x80\xa8 \xe2\x80\x8d",
        sample_text(3000, 5),
        sample_text(30000, 6) + "  \n\n \n" + sample_text(100, 7),
        std::string(200000, 'x'),
        std::string(100000, ' ')};
    return texts;
}

std::string model_for(const std::string& corpus, i64 vocab, Bytes sample = Bytes{64} << 20)
{
    const TemporaryFolder folder;
    put(folder / "corpus.txt", corpus);
    return train_tokenizer({{.inputs = {folder / "corpus.txt"}}, vocab, sample});
}

} // namespace

TEST_CASE("the byte tokenizer is bytes")
{
    const auto t = make_tokenizer("bytes");
    CHECK(t->vocab_size() == 258);
    CHECK(t->encode("a\xc3\xa9") == std::vector<i32>{97, 0xc3, 0xa9});
    CHECK(t->decode(std::vector<i32>{256, 104, 105, 257}) == "hi");
    CHECK(t->decode(std::vector<i32>{258, -1}) == "\xef\xbf\xbd\xef\xbf\xbd");
    for (const std::string& text : hard_texts())
        CHECK((t->decode(t->encode(text)) == text));
    CHECK(tokenizer_from_model(t->model(), "")->fingerprint() == "bytes");
}

TEST_CASE("a trained tokenizer gives every text back, and is shorter than bytes")
{
    const std::string model = model_for(sample_text(20000), 400);
    const auto t = tokenizer_from_model(model, "test");
    CHECK(t->vocab_size() == 400);
    CHECK(t->bos() == 1);
    CHECK(t->eos() == 2);
    for (const std::string& text : hard_texts()) {
        const std::vector<i32> ids = t->encode(text);
        INFO(text.substr(0, 100));
        CHECK((t->decode(ids) == text));
        CHECK(std::all_of(ids.begin(), ids.end(), [&](i32 id) { return id > 2 && id < 400; }));
    }
    const std::string text = sample_text(1000, 9);
    CHECK(t->encode(text).size() * 2 < text.size());
    CHECK(t->decode(std::vector<i32>{1, 400, 2, -7}) == "\xef\xbf\xbd\xef\xbf\xbd");
    // Cutting a long text into blocks changes no id: two halves at a line's end are the whole.
    const std::string first = sample_text(40000, 3) + "\n", second = "king " + sample_text(40000, 4);
    std::vector<i32> parts = t->encode(first);
    for (const i32 id : t->encode(second))
        parts.push_back(id);
    CHECK((t->encode(first + second) == parts));
}

TEST_CASE("training is deterministic; saved and loaded it is the same tokenizer")
{
    const std::string a = model_for(sample_text(5000), 330), b = model_for(sample_text(5000), 330);
    CHECK((a == b));
    const TemporaryFolder folder;
    put(folder / "t.model", a);
    const auto loaded = make_tokenizer(folder / "t.model");
    CHECK(loaded->fingerprint() == tokenizer_from_model(b, "")->fingerprint());
    CHECK(loaded->fingerprint().starts_with("sentencepiece:"));
    CHECK(loaded->fingerprint() !=
          tokenizer_from_model(model_for(sample_text(5000), 331), "")->fingerprint());
    CHECK((loaded->model() == a));
    // A bounded sample still gives a tokenizer, the same each time.
    const std::string c = model_for(sample_text(30000), 330, 40000),
                      d = model_for(sample_text(30000), 330, 40000);
    CHECK((c == d));
}

TEST_CASE("a vocabulary that does not fit the corpus is the user's mistake")
{
    const std::string high = message_of<UserError>([] { model_for(sample_text(300), 20000); });
    INFO(high);
    CHECK(says(high, "--vocab 20000", "too small for so many tokens", "at most "));
    // The remedy holds: what it names works.
    const std::size_t at = high.find("give --vocab ");
    REQUIRE(at != std::string::npos);
    const i64 most = std::stoll(high.substr(at + 13));
    CHECK(tokenizer_from_model(model_for(sample_text(300), most), "")->vocab_size() == most);
    for (const i64 few : {100, 299})
        CHECK(says(message_of<UserError>([&] { model_for(sample_text(300), few); }), "out of range",
                   "from 300 to 1000000"));
    // Too little text for any: no size is named that is refused.
    const std::string tiny = message_of<UserError>([] { model_for("abc abc", 400); });
    CHECK(says(tiny, "too small for a tokenizer", "300 or more", "more text"));
    CHECK_FALSE(has(tiny, "--vocab 2"));
    std::string chinese;
    for (int i = 0; i < 500; ++i)
        for (const int byte : {0xe4 + i / 400, 0x80 + i / 8 % 50, 0x80 + i % 64})
            chinese += static_cast<char>(byte);
    const std::string low = message_of<UserError>([&] { model_for(chinese, 300); });
    CHECK(says(low, "--vocab 300", "too small for the characters"));
    const i64 least = std::stoll(low.substr(low.find("give --vocab ") + 13));
    CHECK(tokenizer_from_model(model_for(chinese, least), "")->vocab_size() == least);
    for (const std::string& message : {high, tiny, low})
        CHECK_FALSE((has(message, ".cc") || has(message, "required_chars")));
}

TEST_CASE("bad corpora and bad models are named")
{
    CHECK(says(message_of<UserError>([] { model_for("", 300); }), "corpus.txt", "no text was found"));
    CHECK(says(message_of<UserError>([] { model_for("ok\nbad \xe9", 300); }), "corpus.txt", "byte offset 7"));
    const TemporaryFolder folder;
    put(folder / "x.jsonl", "{\"text\":\"" + std::string(500, 'a') + "\"}\n{\"text\":3}\n");
    CHECK(says(message_of<UserError>([&] {
                   train_tokenizer({{.inputs = {folder / "x.jsonl"}}, 300, 1 << 20});
               }),
               "x.jsonl:2"));
    CHECK(says(message_of<UserError>([&] { make_tokenizer(folder / "none.model"); }), "none.model",
               "no such tokenizer model"));
    CHECK(says(message_of<UserError>([] { make_tokenizer(""); }), "bytes"));
    put(folder / "zero.model", "");
    CHECK(says(message_of<UserError>([&] { make_tokenizer(folder / "zero.model"); }), "zero.model", "empty"));
    put(folder / "text.model", "this is a text file, not a model\n");
    CHECK(says(message_of<UserError>([&] { make_tokenizer(folder / "text.model"); }), "text.model",
               "not a SentencePiece model"));
    CHECK_FALSE(has(message_of<UserError>([&] { make_tokenizer(folder / "text.model"); }), ".cc"));
    const std::string model = model_for(sample_text(2000), 300);
    for (const std::size_t size : {std::size_t{1}, model.size() / 2, model.size() - 1}) {
        put(folder / "cut.model", model.substr(0, size));
        CHECK(says(message_of<UserError>([&] { make_tokenizer(folder / "cut.model"); }), "cut.model"));
    }
}
