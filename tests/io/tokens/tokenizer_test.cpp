#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/tokenizer.hpp"

#include <algorithm>
#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>
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
        "a\xe2\x96\x81 \xe2\x96\x81\xe2\x96\x81z", // the character that SentencePiece uses for a space
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

TEST_CASE("the byte tokenizer maps bytes to ids")
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

TEST_CASE("a trained tokenizer decodes every text exactly and needs fewer ids than bytes")
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
    // Encoding a long text in blocks changes no id: two halves, split after a newline, equal the whole.
    const std::string first = sample_text(40000, 3) + "\n", second = "king " + sample_text(40000, 4);
    std::vector<i32> parts = t->encode(first);
    for (const i32 id : t->encode(second))
        parts.push_back(id);
    CHECK((t->encode(first + second) == parts));
}

namespace {

/// What a foreign model is trained on.
struct Lines final : sentencepiece::SentenceIterator {
    std::vector<std::string> all;
    std::size_t at = 0;
    Lines()
    {
        const std::string text = sample_text(5000);
        for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
            end = std::min(text.find('\n', begin), text.size());
            all.push_back(text.substr(begin, end - begin));
        }
    }
    bool done() const override { return at == all.size(); }
    void Next() override { ++at; }
    const std::string& value() const override { return all[at]; }
    sentencepiece::util::Status status() const override { return {}; }
};

} // namespace

TEST_CASE("long text without newlines has the ids that SentencePiece gives it at once", "[release]")
{
    std::string words = sample_text(60000, 5), ideographs;
    std::replace(words.begin(), words.end(), '\n', ' ');
    for (int i = 0; i < 60000; ++i)
        ideographs += str("\xe4\xb8", static_cast<char>(0x80 + i * i % 37)); // U+4E00 and following
    std::string wide = words; // which the usual rules make "th" and " "
    for (std::size_t at = 0; (at = wide.find("th", at)) != std::string::npos; at += 7)
        wide.replace(at, 2, "\uff54h  ");
    std::string own = model_for(sample_text(5000) + ideographs.substr(0, 3000), 500), foreign;
    Lines lines;
    for (const auto& [kind, prefix] :
         std::vector<std::pair<std::string, bool>>{{"bpe", true}, {"bpe", false}, {"unigram", true}}) {
        lines.at = 0;
        const auto trained =
            sentencepiece::SentencePieceTrainer::Train({{"model_type", kind},
                                                        {"vocab_size", prefix ? "120" : "400"},
                                                        {"add_dummy_prefix", prefix ? "true" : "false"},
                                                        {"byte_fallback", prefix ? "false" : "true"},
                                                        {"hard_vocab_limit", "false"},
                                                        {"minloglevel", "4"}},
                                                       &lines, &foreign);
        REQUIRE(trained.ok());
        for (const std::string& model : {own, foreign})
            for (const std::string& text : {words, ideographs, words + ideographs, wide}) {
                sentencepiece::SentencePieceProcessor whole;
                REQUIRE(whole.LoadFromSerializedProto(model).ok());
                const std::vector<int> want = whole.EncodeAsIds(text);
                const std::vector<i32> got = tokenizer_from_model(model, "")->encode(text);
                INFO(kind << " " << prefix << " " << text.size());
                CHECK((got == want));
            }
    }
}

TEST_CASE("training is deterministic; a saved tokenizer loads unchanged")
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
    // Training on a bounded sample is deterministic too.
    const std::string c = model_for(sample_text(30000), 330, 40000),
                      d = model_for(sample_text(30000), 330, 40000);
    CHECK((c == d));
}

TEST_CASE("a vocabulary that does not fit the corpus is the user's mistake")
{
    const std::string high = message_of<UserError>([] { model_for(sample_text(300), 20000); });
    INFO(high);
    CHECK(says(high, "--vocab 20000", "too small for so many tokens", "at most "));
    // The vocabulary size in the remedy works.
    const std::string at_most = "set --vocab to at most ", at_least = "set --vocab to at least ";
    const std::size_t at = high.find(at_most);
    REQUIRE(at != std::string::npos);
    const i64 largest = std::stoll(high.substr(at + at_most.size()));
    CHECK(tokenizer_from_model(model_for(sample_text(300), largest), "")->vocab_size() == largest);
    for (const i64 few : {100, 299})
        CHECK(says(message_of<UserError>([&] { model_for(sample_text(300), few); }), "out of range",
                   "from 300 to 1000000"));
    // Too little text for any vocabulary: the message names no size that would be refused.
    const std::string tiny = message_of<UserError>([] { model_for("abc abc", 400); });
    CHECK(says(tiny, "too small for a tokenizer", "300 or more", "more text"));
    CHECK_FALSE(has(tiny, "--vocab 2"));
    std::string chinese;
    for (int i = 0; i < 500; ++i)
        for (const int byte : {0xe4 + i / 400, 0x80 + i / 8 % 50, 0x80 + i % 64})
            chinese += static_cast<char>(byte);
    const std::string low = message_of<UserError>([&] { model_for(chinese, 300); });
    CHECK(says(low, "--vocab 300", "too small for the characters"));
    REQUIRE(has(low, at_least));
    const i64 smallest = std::stoll(low.substr(low.find(at_least) + at_least.size()));
    CHECK(tokenizer_from_model(model_for(chinese, smallest), "")->vocab_size() == smallest);
    for (const std::string& message : {high, tiny, low})
        CHECK_FALSE((has(message, ".cc") || has(message, "required_chars")));
}

TEST_CASE("errors name bad corpora and bad models")
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
