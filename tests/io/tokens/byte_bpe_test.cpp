#include "base/check.hpp"
#include "catch.hpp"
#include "io/files/files.hpp"
#include "io/files/strict_json.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/stated_eos.hpp"
#include "io/tokens/token_store.hpp"
#include "io/tokens/tokenizer.hpp"
#include "io/tokens/tokenizer/bpe_merges.hpp"
#include "io/tokens/tokenizer/text_split.hpp"
#include "train/data/inputs.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

using namespace trivium;
using Json = nlohmann::json;

namespace {

const std::string bpe_data = std::string(TRIVIUM_TEST_DATA "/io/data/byte_bpe/");

std::string file_text(const std::string& name) { return read_file(bpe_data + name, "test data"); }
Json file_json(const std::string& name) { return Json::parse(file_text(name)); }

std::unique_ptr<Tokenizer> tokenizer_of(const Json& file)
{
    return tokenizer_from_model(file.dump(), "tokenizer.json");
}
std::unique_ptr<Tokenizer> gpt2() { return make_tokenizer(bpe_data + "gpt2.json"); }

std::string message_for(const Json& file)
{
    return message_of<UserError>([&] { tokenizer_of(file); });
}

/// gpt2.json after `change`.
template <class Change>
Json changed(Change&& change)
{
    Json file = file_json("gpt2.json");
    change(file);
    return file;
}

Json split_by(const std::string& pattern)
{
    return Json{
        {"type", "Sequence"},
        {"pretokenizers",
         {{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}},
          {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}}}};
}

} // namespace

TEST_CASE("ids equal those of Hugging Face's tokenizers")
{
    // `byte_bpe_check.py make` generates golden.json with that package.
    const Json golden = file_json("golden.json");
    Json shared = file_json("digits.json");
    shared.at("added_tokens")
        .erase(std::remove_if(shared.at("added_tokens").begin(), shared.at("added_tokens").end(),
                              [](const Json& token) { return !token.at("special").get<bool>(); }),
               shared.at("added_tokens").end());
    for (const auto& [name, expected] : golden.at("ids").items()) {
        Json file = shared;
        if (golden.at("pre_tokenizers").contains(name))
            file["pre_tokenizer"] = golden.at("pre_tokenizers").at(name);
        else if (golden.at("normalizers").contains(name))
            file["normalizer"] = golden.at("normalizers").at(name);
        else
            file = file_json(name + ".json");
        const auto tokenizer = tokenizer_of(file);
        for (std::size_t i = 0; i < expected.size(); ++i) {
            const auto text = golden.at("texts").at(i).get<std::string>();
            INFO(name << ": " << text);
            const std::vector<i32> ids = tokenizer->encode(text);
            CHECK(ids == expected.at(i).get<std::vector<i32>>());
            if (golden.at("decoded").contains(name))
                CHECK(tokenizer->decode(ids) == golden.at("decoded").at(name).at(i).get<std::string>());
            else if (name != "prefix" && name != "previous" &&
                     name != "removed") // these add a space or drop text
                CHECK(tokenizer->decode(ids) == text);
        }
    }
}

TEST_CASE("a tokenizer.json is recognised by its content, and model() returns it unchanged")
{
    const TemporaryFolder folder;
    put(folder / "any.name", file_text("gpt2.json"));
    const auto t = make_tokenizer(folder / "any.name");
    CHECK(t->vocab_size() == 701);
    CHECK(t->name() == "byte-level BPE, 701 tokens");
    CHECK((t->model() == file_text("gpt2.json")));
    CHECK(t->fingerprint().starts_with("bpe:"));
    const auto again = tokenizer_from_model(t->model(), "");
    CHECK(again->fingerprint() == t->fingerprint());
    CHECK(again->encode("the king") == t->encode("the king"));
    CHECK(make_tokenizer(bpe_data + "llama3.json")->fingerprint() != t->fingerprint());
    // A token store contains it and restores the same tokenizer.
    {
        TokenStoreWriter store(folder / "store.h5", *t);
        store.add(t->encode("the king's men"), 14);
        store.finish();
    }
    const TokenStore store = TokenStore::open(folder / "store.h5");
    CHECK(store.fingerprint() == t->fingerprint());
    CHECK(store.tokenizer()->encode("their 123 men\n") == t->encode("their 123 men\n"));
}

TEST_CASE("special tokens: bos and eos are found, and no text encodes to one")
{
    const auto one = gpt2();
    CHECK(one->eos() == 700);
    CHECK(one->bos() == 700);
    const auto two = make_tokenizer(bpe_data + "llama3.json");
    CHECK(two->bos() == 800);
    CHECK(two->eos() == 801);
    CHECK(two->vocab_size() == 804);
    const std::string text = "<|begin_of_text|>a<|end_of_text|><|eot_id|>";
    const std::vector<i32> ids = two->encode(text);
    CHECK(std::all_of(ids.begin(), ids.end(), [](i32 id) { return id < 800; }));
    CHECK(two->decode(ids) == text);
    CHECK(two->decode(std::vector<i32>{800, two->encode("a")[0], 803, 801}) == "a");
    // Even if the model's vocabulary contains the token and the pre-tokenizer keeps it in one piece.
    Json file = file_json("llama3.json");
    file["model"]["vocab"]["<|end_of_text|>"] = 801;
    file["pre_tokenizer"] = split_by("<.*>");
    const auto whole = tokenizer_of(file);
    CHECK(whole->eos() == 801);
    CHECK(whole->encode("<|end_of_text|>").size() > 1);
    // A special token that BPE yields too remains a plain token, so it cannot be eos.
    file = file_json("gpt2.json");
    file["added_tokens"].push_back(
        {{"id", file["model"]["vocab"]["!"]}, {"content", "!"}, {"special", true}});
    CHECK(tokenizer_of(file)->decode(tokenizer_of(file)->encode("a!")) == "a!");
    file["added_tokens"].erase(0);
    CHECK(says(message_for(file), "tokenizer.json", "no end-of-text token"));
}

TEST_CASE("the token that ends a document is the one that is named, or that the files say")
{
    // By the post-processor's template.
    Json file = file_json("llama3.json");
    const auto part = [](const char* name) { return Json{{"SpecialToken", {{"id", name}, {"type_id", 0}}}}; };
    const Json text{{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
    file["post_processor"] = {{"type", "TemplateProcessing"},
                              {"single", {part("<|begin_of_text|>"), text, part("<|eot_id|>")}}};
    CHECK(tokenizer_of(file)->eos() == 803);
    CHECK(tokenizer_of(file)->bos() == 800);
    file["post_processor"] = {{"type", "Sequence"}, {"processors", {file["post_processor"]}}};
    CHECK(tokenizer_of(file)->eos() == 803);
    // By name, or by the config in its folder; the ids of text are the same, so the fingerprint is, too.
    file = file_json("gpt2.json");
    file["added_tokens"] = {{{"id", 700}, {"content", "[EOS]"}, {"special", true}},
                            {{"id", 701}, {"content", "[UNK]"}, {"special", true}},
                            {{"id", 702}, {"content", "a \"b\" }"}, {"special", false}}};
    CHECK(says(message_for(file), "does not say which token ends a document", "--eod", "[EOS], [UNK]"));
    const TemporaryFolder folder;
    const std::string path = folder / "tokenizer.json";
    put(path, file.dump());
    CHECK(says(message_of<UserError>([&] { make_tokenizer(path, "[END]"); }), path, "[END]", "[EOS], [UNK]"));
    CHECK(says(message_of<UserError>([&] { make_tokenizer("bytes", "[END]"); }), "--eod"));
    for (const auto& [name, id] : {std::pair("[EOS]", 700), {"[UNK]", 701}, {"a \"b\" }", 702}}) {
        const auto named = make_tokenizer(path, name);
        CHECK(named->eos() == id);
        CHECK(without_eos(named->model()) == file.dump());
        const auto again = tokenizer_from_model(named->model(), "a store");
        CHECK((again->eos() == id && again->fingerprint() == named->fingerprint()));
        CHECK(named->decode(named->encode(name)) == name);
        const auto ids = named->encode(name);
        CHECK(std::find(ids.begin(), ids.end(), id) == ids.end()); // its text stays text
        for (const Json& config : {Json{{"eos_token", name}}, Json{{"eos_token", {{"content", name}}}}}) {
            put(folder / "tokenizer_config.json", config.dump());
            CHECK(make_tokenizer(path)->eos() == id);
            CHECK(make_tokenizer(path)->fingerprint() == named->fingerprint());
        }
        std::filesystem::remove(folder / "tokenizer_config.json");
    }
}

TEST_CASE("a byte without a token matters only for text that has it")
{
    // Vocabularies made of valid text lack the bytes that UTF-8 never has.
    Json file = file_json("gpt2.json");
    for (const char* letter : {"\u00c0", "\u00c1", "\u00f5", "\u00ff"}) // 0xc0, 0xc1, 0xf5 and 0xff
        file["model"]["vocab"].erase(letter);
    const auto t = tokenizer_of(file);
    const std::string text = "any text \u00e9 \u4e2d \U0001f600 \xfe";
    CHECK(t->decode(t->encode(text)) == text);
    CHECK(t->encode(text) == gpt2()->encode(text));
    CHECK(says(message_of<UserError>([&] { t->encode("a\xf5"); }), "no token for the byte 245"));
}

TEST_CASE("a run of a million blanks is encoded")
{
    for (const char* name : {"gpt2.json", "llama3.json"}) {
        const auto t = make_tokenizer(bpe_data + name);
        const std::string text = "a" + std::string(1'000'000, ' ') + "b";
        CHECK(t->decode(t->encode(text)) == text);
    }
}

TEST_CASE("any bytes survive encoding and decoding, and any ids decode to text")
{
    std::mt19937_64 random(3);
    for (const char* name : {"gpt2.json", "llama3.json"}) {
        const auto t = make_tokenizer(bpe_data + name);
        for (int n = 0; n < 300; ++n) {
            std::string bytes;
            for (auto size = random() % 40; size > 0; --size)
                bytes += random() % 3 == 0 ? static_cast<char>(random() % 256) : "the \xc3\xa9"[random() % 6];
            CHECK(t->decode(t->encode(bytes)) == bytes);
        }
        const std::string replaced = "\xef\xbf\xbd";
        CHECK(t->decode(std::vector<i32>{-1, INT32_MIN, INT32_MAX, static_cast<i32>(t->vocab_size())}) ==
              replaced + replaced + replaced + replaced);
        CHECK(t->decode(t->encode("\xff")) == "\xff");
        CHECK(t->encode("a\xff"
                        "b")
                  .size() == 3);
    }
    // An unused id decodes to U+FFFD.
    const auto with_gap = tokenizer_of(changed([](Json& file) { file["added_tokens"][0]["id"] = 710; }));
    CHECK(with_gap->vocab_size() == 711);
    CHECK(with_gap->eos() == 710);
    CHECK(with_gap->decode(std::vector<i32>{705}) == "\xef\xbf\xbd");
}

TEST_CASE("merges apply by lowest rank, then leftmost")
{
    // The reference is the definition: find the best pair, merge it, repeat.
    std::mt19937_64 random(5);
    for (int round = 0; round < 200; ++round) {
        std::vector<BpeMerges::Merge> merges;
        i32 tokens = 4;
        for (; tokens < 24; ++tokens) {
            const auto pick = [&] { return static_cast<i32>(random() % static_cast<u64>(tokens)); };
            const i32 left = pick(), right = pick();
            if (std::none_of(merges.begin(), merges.end(),
                             [&](const auto& m) { return m.left == left && m.right == right; }))
                merges.push_back({left, right, tokens});
        }
        std::vector<i32> ids;
        for (auto size = random() % 120; size > 0; --size)
            ids.push_back(static_cast<i32>(random() % 4));
        std::vector<i32> expected = ids;
        for (bool again = true; again;) {
            again = false;
            for (const BpeMerges::Merge& merge : merges) {
                for (std::size_t i = 0; i + 1 < expected.size() && !again; ++i)
                    if (expected[i] == merge.left && expected[i + 1] == merge.right) {
                        expected[i] = merge.result;
                        expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(i) + 1);
                        again = true;
                    }
                if (again)
                    break;
            }
        }
        ids.resize(BpeMerges(merges).apply(ids.data(), ids.size()));
        CHECK(ids == expected);
    }
}

TEST_CASE("the time for long pieces grows about linearly")
{
    const auto t = gpt2();
    for (const std::string& piece : {std::string("the"), std::string(" "), std::string("\xe4\xbd\xa0"),
                                     std::string("1"), std::string("\n ")}) {
        std::string text;
        while (text.size() < 400'000)
            text += piece;
        const auto begin = std::chrono::steady_clock::now();
        CHECK((t->decode(t->encode(text)) == text));
        CHECK(std::chrono::steady_clock::now() - begin <
              std::chrono::seconds(20)); // a quadratic algorithm needs many minutes
    }
}

TEST_CASE("errors name the unsupported part of a tokenizer")
{
    const auto with = [](const char* part, const Json& value) {
        return message_for(changed([&](Json& file) { file[part] = value; }));
    };
    const auto model = [](const char* key, const Json& value) {
        return message_for(changed([&](Json& file) { file["model"][key] = value; }));
    };
    CHECK(says(model("type", "WordPiece"), "WordPiece"));
    CHECK(says(model("dropout", 0.1), "dropout"));
    CHECK(says(model("end_of_word_suffix", "</w>"), "end_of_word_suffix"));
    CHECK(says(model("continuing_subword_prefix", "##"), "continuing_subword_prefix"));
    CHECK(says(with("normalizer", {{"type", "BertNormalizer"}}), "normalizer", "BertNormalizer"));
    CHECK(says(with("normalizer", {{"type", "Sequence"}, {"normalizers", {{{"type", "ByteLevel"}}}}}),
               "normalizer", "ByteLevel"));
    CHECK(says(with("pre_tokenizer", {{"type", "UnicodeScripts"}}), "UnicodeScripts", "tokenizer.model"));
    CHECK(says(with("decoder", {{"type", "Metaspace"}}), "decoder", "Metaspace"));
    CHECK(says(message_for(changed([](Json& file) {
                   file["added_tokens"].push_back({{"id", 701}, {"content", "<x>"}, {"single_word", true}});
               })),
               "\"<x>\"", "single_word"));
    Json gemma = file_json("gemma.json");
    gemma["decoder"]["decoders"][0] = {{"type", "Metaspace"}, {"replacement", ""}};
    CHECK(says(message_for(gemma), "Metaspace without replacement"));
    const auto tokenizer = tokenizer_of(changed([](Json& file) {
        file["normalizer"] = {{"type", "Sequence"}, {"normalizers", Json::array()}};
        file["decoder"] = nullptr;
        file["model"]["dropout"] = 0.0;
    }));
    CHECK(tokenizer->encode("the king") == gpt2()->encode("the king"));
}

TEST_CASE("patterns have Oniguruma's syntax")
{
    const auto pieces = [](const char* pattern, std::string_view text, bool literal = false) {
        SplitRule rule{pattern};
        rule.literal = literal;
        MatchEffort effort = MatchEffort::for_text(text.size());
        std::string found;
        TextSplit(rule, "here").split(text, effort, [&](std::string_view piece) {
            found += str(piece, "|");
        });
        return found;
    };
    CHECK(pieces(R"(\b)", "a bc") == "a| |bc|");
    CHECK(pieces(R"(\h+)", "xyAf") == "xy|Af|");
    CHECK(pieces("[[:alpha:]]+", "ab1\u00e9") == "ab|1|\u00e9|");
    CHECK(pieces("[a-z&&[^x]]+", "axxb") == "a|xx|b|");
    CHECK(pieces("(?m:a.)", "a\nb") == "a\n|b|");
    CHECK(pieces(R"((?<pair>ab)\k<pair>)", "ababab") == "abab|ab|");
    CHECK(pieces("x{2}?", "xxx") == "xx|x|");              // optional, not lazy
    CHECK(pieces("(?i:ss)", "a\u00dfb") == "a|\u00df|b|"); // one character folds to two
    CHECK(pieces(R"((?y{w})\y)", "ab cd") == "ab| |cd|");  // Oniguruma's own syntax, not Ruby's
    CHECK(pieces(R"(\R)", "a\r\nb") == "a|\r\n|b|");
    CHECK(pieces("(*FAIL)|b", "abc") == "a|b|c|");
    CHECK(pieces("a+(b", "xa+(by", true) == "x|a+(b|y|");
}

TEST_CASE("invalid patterns are refused, and catastrophic backtracking is stopped")
{
    for (const char* pattern :
         {"[x", "(x", R"(\p{NoSuch})", R"(x\)", R"(\1)", "*", "x{700000}", "(?P<name>x)", "(?<x>\\g<x>)"}) {
        INFO(pattern);
        const std::string message =
            message_for(changed([&](Json& file) { file["pre_tokenizer"] = split_by(pattern); }));
        CHECK(says(message, "tokenizer.json", "pattern", in_quotes(pattern)));
    }
    CHECK(says(
        message_for(changed([&](Json& file) { file["pre_tokenizer"] = split_by(std::string(20000, 'x')); })),
        "very long pattern", "20000 bytes"));
    const std::string many = std::string(3000, 'a') + "-b";
    for (const char* pattern : {"(?:a|aa)*[bc]", "(?:a|a)*?b", "(?:(?:a|b)*c?)*[bc]", "(?:a+b?)+[bc]",
                                "((((a{1,500}){1,500}){1,500}){1,500})b", "(?<=a(?:a|aa){1,30})b"}) {
        INFO(pattern);
        const auto t = tokenizer_of(changed([&](Json& file) { file["pre_tokenizer"] = split_by(pattern); }));
        CHECK(t->decode(t->encode("aab")) == "aab");
        CHECK(says(message_of<UserError>([&] { t->encode(many); }), "takes too long"));
    }
}

TEST_CASE("a damaged precompiled_charsmap is refused")
{
    const Json normalizer = file_json("golden.json").at("normalizers").at("charsmap");
    const auto whole = normalizer.at("precompiled_charsmap").get<std::string>();
    const auto charsmap_message = [&](const std::string& charsmap) {
        std::unique_ptr<Tokenizer> read;
        const std::string message = message_of<UserError>([&] {
            read = tokenizer_of(changed([&](Json& file) {
                file["normalizer"] = {{"type", "Precompiled"}, {"precompiled_charsmap", charsmap}};
            }));
        });
        if (read) // whatever it maps to
            read->encode("\ufb01ne e\u0301\r\nq\u0301 \U0001f44d \u304b\u3099");
        return message;
    };
    CHECK(charsmap_message(whole).empty());
    CHECK(says(charsmap_message("A"), "tokenizer.json", "precompiled_charsmap", "not base 64"));
    CHECK(says(charsmap_message("????"), "precompiled_charsmap", "not base 64"));
    CHECK(says(charsmap_message(""), "precompiled_charsmap", "0 bytes"));
    CHECK(says(charsmap_message(whole.substr(0, 400)), "precompiled_charsmap", "300 bytes", "a trie of"));
    CHECK(
        says(charsmap_message("BAAAAP///38="), "precompiled_charsmap", "unit 0 of its trie refers to unit "));
    std::mt19937_64 random(7);
    int refused = 0;
    for (int i = 0; i < 300; ++i) {
        std::string damaged = whole;
        for (auto count = random() % 3 + 1; count > 0; --count)
            damaged[random() % 700] = "ABCZabz019+/"[random() % 12];
        const std::string message = charsmap_message(damaged);
        CHECK((message.empty() || has(message, "precompiled_charsmap")));
        refused += !message.empty();
    }
    CHECK(refused > 10);
}

TEST_CASE("damaged and malicious files are refused")
{
    const auto text_message = [](const std::string& text) {
        return message_of<UserError>([&] { tokenizer_from_model(text, "here/tokenizer.json"); });
    };
    const std::string whole = file_text("gpt2.json");
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{2}, std::size_t{100}, whole.size() / 2, whole.size() - 3})
        CHECK(says(text_message(whole.substr(0, size)), "here/tokenizer.json"));
    CHECK(says(text_message("{}"), "no 'model'"));
    CHECK(says(text_message(R"({"model_type": "llama"})"), "no 'model'"));
    CHECK(says(text_message(R"({"model": 3})"), "here/tokenizer.json"));
    CHECK(says(text_message("{\"a\":" + std::string(1'000'000, '[')), "nested too deeply"));
    CHECK(says(text_message("{\"a\": \"\xff\"}"), "here/tokenizer.json"));

    const auto token = [](const char* name, const Json& id) {
        return message_for(changed([&](Json& file) { file["model"]["vocab"][name] = id; }));
    };
    for (const Json& id :
         {Json(-1), Json(1e3), Json("7"), Json(nullptr), Json(u64{1} << 40), Json(~u64{0}), Json(100000)})
        CHECK(says(token("the", id), "\"the\"", "id"));
    CHECK(says(token("new", 5), "id 5", "two tokens"));
    const auto lacks = tokenizer_of(changed([](Json& file) { file["model"]["vocab"].erase("!"); }));
    CHECK(says(message_of<UserError>([&] { lacks->encode("a!"); }), "no token for the byte 33"));
    CHECK(says(message_for(changed([](Json& file) { file["model"]["vocab"] = Json::array(); })), "vocab"));
    const auto merge = [](const Json& pair) {
        return message_for(changed([&](Json& file) { file["model"]["merges"].push_back(pair); }));
    };
    for (const Json& bad : {Json("a"), Json("a b c"), Json(""), Json(3), Json::array({"a"}),
                            Json::array({"a", 3}), Json("a zzz"), Json("z !")})
        CHECK(says(merge(bad), "merge (number "));
    CHECK(says(message_for(changed([](Json& file) { file["model"]["merges"] = "a b"; })), "merges"));
    const auto added = [](const Json& entry) {
        return message_for(changed([&](Json& file) { file["added_tokens"].push_back(entry); }));
    };
    CHECK(says(added({{"id", 5}, {"content", "new"}}), "\"new\"", "id 5"));
    CHECK(says(added({{"id", 702}, {"content", "the"}}), "\"the\"", "id 702"));
    CHECK(says(added({{"id", 702}, {"content", ""}}), "id 702"));
    CHECK(says(added({{"id", -5}, {"content", "new"}}), "\"new\""));
    CHECK(says(added({{"id", 1'000'000'000}, {"content", "new"}}), "\"new\""));
    CHECK(says(added({{"content", "new"}}), "'id'"));
    CHECK(says(added("new"), "'content'"));
    CHECK(says(message_for(changed([](Json& file) { file["added_tokens"] = nullptr; })), "end-of-text"));
}
