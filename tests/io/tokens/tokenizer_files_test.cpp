// The tokenizer files of an export, interpreted as Hugging Face's `tokenizers` interprets them.
#include "base/check.hpp"
#include "base/rng.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/files/files.hpp"
#include "io/hugging_face/chat_files.hpp"
#include "io/hugging_face/sentencepiece_json.hpp"
#include "io/hugging_face/tokenizer_files.hpp"
#include "io/naive_bpe.hpp"
#include "io/temporary_folder.hpp"

#include <array>
#include <nlohmann/json.hpp>

using namespace trivium;
using Json = nlohmann::json;

namespace {

/// A reference for a tokenizer.json of type BPE with byte_fallback and without a normalizer.
class NaiveBpe {
public:
    explicit NaiveBpe(const std::string& text)
    {
        const Json file = Json::parse(text), &model = file.at("model");
        REQUIRE(file.at("normalizer").is_null());
        REQUIRE(file.at("pre_tokenizer").is_null());
        REQUIRE(model.at("type") == "BPE");
        REQUIRE(model.at("byte_fallback") == true);
        ids_ = model.at("vocab").get<std::map<std::string, i32>>();
        for (const Json& merge : model.at("merges"))
            ranks_.emplace(std::pair(merge.at(0).get<std::string>(), merge.at(1).get<std::string>()),
                           ranks_.size());
    }

    std::vector<i32> encode(const std::string& text) const
    {
        return naive_bpe(text, ids_, [&](const std::string& left, const std::string& right) {
            const auto at = ranks_.find({left, right});
            return at == ranks_.end() ? std::nullopt : std::optional(static_cast<double>(at->second));
        });
    }

private:
    std::map<std::string, i32> ids_;
    std::map<std::pair<std::string, std::string>, std::size_t> ranks_;
};

std::vector<std::string> texts_to_try()
{
    std::vector<std::string> texts{"",
                                   " ",
                                   "   ",
                                   "\n\n",
                                   "\t x",
                                   "import os",
                                   "  a  b",
                                   "\xe2\x96\x81",
                                   "a\xe2\x96\x81 \xe2\x96\x81",
                                   "</s><s><unk>",
                                   "<0x41>",
                                   "caf\xc3\xa9 \xf0\x9f\x98\x80",
                                   "aaaaaaaaaaa",
                                   "aaaa bbbbbbb   cccccccccccc",
                                   std::string(100, ' '),
                                   sample_text(60, 3)};
    RandomStream draw(5, "texts");
    const std::string letters = "    etaoinshrdluab.,\n0123-=";
    u64 at = 0;
    for (int i = 0; i < 400; ++i) {
        std::string text;
        for (double length = 60 * draw.uniform_at(at++); length > 0; --length)
            text += letters[static_cast<std::size_t>(draw.uniform_at(at++) *
                                                     static_cast<double>(letters.size()))];
        texts.push_back(text);
    }
    return texts;
}

/// Text with runs of equal characters, so that pieces can be merged in several ways.
std::string corpus()
{
    std::string text = sample_text(4000, 2);
    for (int i = 0; i < 200; ++i)
        text += std::string(static_cast<std::size_t>(i % 29), ' ') +
                std::string(static_cast<std::size_t>(i % 23), '-') +
                std::string(static_cast<std::size_t>(i % 11), 'a') + "\n";
    return text;
}

} // namespace

TEST_CASE("the exported tokenizer.json of a trained tokenizer, and of bytes, yields the same ids")
{
    const TemporaryFolder folder;
    put(folder / "corpus.txt", corpus());
    const std::string model = train_tokenizer({{.inputs = {folder / "corpus.txt"}}, 420});
    for (const std::string& spec : {model, std::string("bytes")}) {
        const auto tokenizer = tokenizer_from_model(spec, "test");
        const TokenizerFiles written = tokenizer_files(*tokenizer, "", 77);
        CHECK(written.problem.empty());
        CHECK(written.files.contains("tokenizer.model") == (spec != "bytes"));
        const NaiveBpe theirs(written.files.at("tokenizer.json"));
        for (const std::string& text : texts_to_try()) {
            INFO("'" << text << "'");
            CHECK(theirs.encode(text) == tokenizer->encode(text));
        }
        const Json config = Json::parse(written.files.at("tokenizer_config.json"));
        CHECK(config["eos_token"] == "</s>");
        CHECK(config["bos_token"] == "</s>"); // in training, a document follows the end of another
        CHECK(config["model_max_length"] == 77);
        CHECK(config["split_special_tokens"] == true); // text that spells one stays text
        CHECK(is_bytes_json(written.files.at("tokenizer.json")) == (spec == "bytes"));
    }
}

TEST_CASE("an export with a chat template lets readers turn the template's tokens into ids")
{
    const auto tokenizer = make_tokenizer("bytes");
    const TokenizerFiles written = tokenizer_files(*tokenizer, "", 77);
    auto files = written.files;
    add_chat(files, {}, *tokenizer);
    CHECK(files == written.files);
    add_chat(files, ChatTemplate("{% for m in messages %}{{ m.content }}</s>{% endfor %}", "test"),
             *tokenizer);
    const Json config = Json::parse(files.at("tokenizer_config.json"));
    CHECK(!config.contains("split_special_tokens"));
    CHECK(config["eos_token"] == "</s>");
    CHECK(files.contains("chat_template.jinja"));
}

TEST_CASE("the template of a model is the one named, kept or next to the tokenizer, in this order")
{
    const TemporaryFolder folder;
    const auto tokenizer = make_tokenizer("bytes");
    put(folder / "chat_template.jinja", "next");
    put(folder / "named.jinja", "named");
    DataConfig data;
    std::map<std::string, std::string> kept;
    CHECK(!chat_template_of(data, kept, *tokenizer));
    data.tokenizer = folder / "tokenizer.json";
    CHECK(chat_template_of(data, kept, *tokenizer)->source() == "next");
    CHECK(chat_template_of(data, kept, *tokenizer)->variables()["eos_token"] ==
          tokenizer->special_text(tokenizer->eos()));
    kept["chat_template.jinja"] = "kept";
    CHECK(chat_template_of(data, kept, *tokenizer)->source() == "kept");
    data.chat_template = folder / "named.jinja";
    CHECK(chat_template_of(data, kept, *tokenizer)->source() == "named");
}

TEST_CASE("the export of a tokenizer.json names the token that separated documents in training")
{
    for (const auto& [name, eod, spelled] :
         std::vector<std::array<std::string, 3>>{{"gpt2.json", "", "<|endoftext|>"},
                                                 {"llama3.json", "", "<|end_of_text|>"},
                                                 {"llama3.json", "<|eot_id|>", "<|eot_id|>"}}) {
        const std::string path = str(TRIVIUM_TEST_DATA "/io/data/byte_bpe/", name);
        const auto tokenizer = make_tokenizer(path, eod);
        const TokenizerFiles written = tokenizer_files(*tokenizer, "", 77);
        CHECK(written.files.at("tokenizer.json") == read_file(path, "test data"));
        const Json config = Json::parse(written.files.at("tokenizer_config.json"));
        CHECK(config["eos_token"] == spelled);
        CHECK(config["bos_token"] == spelled);
        // And so a later import finds it.
        const TemporaryFolder folder;
        for (const auto& [file, text] : written.files)
            put(folder / file, text);
        CHECK(make_tokenizer(folder / "tokenizer.json")->eos() == tokenizer->eos());
    }
}

TEST_CASE("settings of an imported tokenizer are kept, except those that belong to its class")
{
    const TemporaryFolder folder;
    put(folder / "corpus.txt", corpus());
    const auto tokenizer =
        tokenizer_from_model(train_tokenizer({{.inputs = {folder / "corpus.txt"}}, 400}), "test");
    const TokenizerFiles written = tokenizer_files(
        *tokenizer,
        R"({"tokenizer_class":"LlamaTokenizer","legacy":true,"chat_template":"{{ x }}","eos_token":"<end>","add_bos_token":true})",
        77);
    const Json config = Json::parse(written.files.at("tokenizer_config.json"));
    CHECK(config["chat_template"] == "{{ x }}");
    CHECK(config["eos_token"] == "<end>");
    CHECK(!config.contains("legacy"));
    CHECK(!config.contains("split_special_tokens"));
    CHECK(config["tokenizer_class"] == "PreTrainedTokenizerFast");
    CHECK(Json::parse(written.files.at(
              "tokenizer.json"))["post_processor"]["single"][0]["SpecialToken"]["id"] == "<s>");
}

TEST_CASE("the reason is reported if a SentencePiece model cannot become a tokenizer.json")
{
    SentencePieceModel model = byte_pieces();
    CHECK(!print_sentencepiece_json(model).text.empty());
    model.is_bpe = false;
    CHECK(print_sentencepiece_json(model).text.empty());
    CHECK(has(print_sentencepiece_json(model).reason, "byte-pair"));
    model = byte_pieces();
    model.has_rules = true;
    CHECK(has(print_sentencepiece_json(model).reason, "rules"));
    model = byte_pieces();
    model.pieces.push_back({"\xff", -1, SentencePieceModel::Kind::control});
    CHECK(has(print_sentencepiece_json(model).reason, "UTF-8"));
    model = byte_pieces();
    model.pieces.push_back({"ab", -1, SentencePieceModel::Kind::normal});
    CHECK(has(print_sentencepiece_json(model).reason, "character"));
    model.pieces.push_back({"a", -2, SentencePieceModel::Kind::normal});
    model.pieces.push_back({"b", -3, SentencePieceModel::Kind::normal});
    CHECK(!print_sentencepiece_json(model).text.empty());
    model.pieces.push_back({"ba", -1, SentencePieceModel::Kind::normal});
    CHECK(has(print_sentencepiece_json(model).reason, "equal score"));
}

TEST_CASE("a SentencePiece model is parsed; truncated ones are refused")
{
    const TemporaryFolder folder;
    put(folder / "corpus.txt", corpus());
    const std::string model = train_tokenizer({{.inputs = {folder / "corpus.txt"}}, 300});
    const SentencePieceModel parsed = parse_sentencepiece_model(model, "test");
    CHECK(parsed.pieces.size() == 300);
    CHECK(parsed.is_bpe);
    CHECK(parsed.byte_fallback);
    CHECK(!parsed.add_dummy_prefix);
    CHECK(!parsed.remove_extra_whitespaces);
    CHECK(parsed.pieces[2].kind == SentencePieceModel::Kind::control);
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}, model.size() - 1})
        CHECK(says(message_of<UserError>([&] {
                       (void)parse_sentencepiece_model(std::string_view(model).substr(0, size), "test");
                   }),
                   "not a SentencePiece model"));
}
