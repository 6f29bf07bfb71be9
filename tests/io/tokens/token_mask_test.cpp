// Which tokens of chats are trained: in the encoding, and in token stores.
#include "catch.hpp"
#include "io/chat/chat_template.hpp"
#include "io/files/files.hpp"
#include "io/files/seal.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/text/join_stores.hpp"
#include "io/tokens/token_store.hpp"
#include "train/data/store_samples.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

using namespace trivium;
using Json = nlohmann::json;

namespace {

const std::string test_data = TRIVIUM_TEST_DATA "/io/data";

/// gpt2.json with special tokens.
Json gpt2_with(const std::vector<Json>& tokens)
{
    Json file = Json::parse(read_file(test_data + "/byte_bpe/gpt2.json", "test data"));
    for (Json token : tokens) {
        token.update(Json{{"id", 701 + file["added_tokens"].size() - 1}, {"special", true}});
        file["added_tokens"].push_back(token);
    }
    return file;
}

/// The tokenizers of masks.json, by name.
std::unique_ptr<Tokenizer> tokenizer_of(const Json& golden, const std::string& name)
{
    Json file;
    const std::string eos = golden["tokenizers"][name]["eos_token"];
    if (golden["tokenizers"][name].contains("file"))
        file = golden["tokenizers"][name]["file"];
    else
        file = gpt2_with(
            {{{"content", "<|im_start|>"}}, {{"content", "<|im_end|>"}, {"rstrip", name == "gpt2-rstrip"}}});
    if (name == "gpt2-nfc")
        file["normalizer"] = {{"type", "NFC"}};
    const TemporaryFolder folder;
    write_file(folder / "tokenizer.json", file.dump());
    write_file(folder / "tokenizer_config.json", Json{{"eos_token", eos}}.dump());
    return make_tokenizer(folder / "tokenizer.json");
}

std::vector<TokenSpan> spans(std::initializer_list<TokenSpan> list) { return list; }

/// Documents of 10 tokens each, of which `trained` are trained.
void write_masked(const std::string& path, int documents, const std::vector<TokenSpan>& trained)
{
    TokenStoreWriter writer(path, *make_tokenizer("bytes"));
    for (int d = 0; d < documents; ++d) {
        std::vector<i32> ids;
        for (int i = 0; i < 10; ++i)
            ids.push_back((10 * d + i) % 250);
        writer.add_whole(ids, trained, 10);
    }
    writer.finish();
}

/// 1 for each token of a store that is trained.
std::vector<int> mask_of(const TokenStore& store)
{
    std::vector<int> mask(static_cast<std::size_t>(store.size()));
    for (const auto& [begin, end] : store.trained(0, store.size()))
        std::fill(mask.begin() + begin, mask.begin() + end, 1);
    return mask;
}

} // namespace

TEST_CASE("ids and masks of chats are those of transformers' apply_chat_template")
{
    // return_assistant_tokens_mask, of templates with {% generation %}; masks.json says which versions made
    // it.
    const Json golden = Json::parse(read_file(test_data + "/chats/masks.json", "test data"));
    for (const auto& [name, facts] : golden["tokenizers"].items()) {
        const std::unique_ptr<Tokenizer> tokenizer = tokenizer_of(golden, name);
        CHECK(tokenizer->special_text(tokenizer->eos()) == facts["eos_token"]);
        for (const Json& each : golden["cases"]) {
            if (each["tokenizer"] != name)
                continue;
            std::vector<TextSpan> trained;
            for (const Json& span : each["spans"])
                trained.push_back({span[0], span[1]});
            const Json& messages = golden["conversations"][each["conversation"].get<std::size_t>()];
            const ChatTemplate chat(golden["templates"][each["template"].get<std::string>()], "template",
                                    ChatJson(facts));
            const ChatText rendered =
                chat.render(conversation_of_record(Json{{"messages", messages}}.dump(), "record"));
            CHECK(rendered.text == each["text"]);
            CHECK(rendered.trained == trained);
            std::vector<i32> ids;
            std::vector<bool> inside;
            tokenizer->encode_chat(each["text"].get<std::string>(), trained, ids, inside);
            INFO(name << " " << each["template"] << " " << each["conversation"]);
            CHECK(ids == each["ids"].get<std::vector<i32>>());
            CHECK(std::vector<int>(inside.begin(), inside.end()) == each["mask"].get<std::vector<int>>());
            std::string text = spelled_out(*tokenizer, ids);
            std::erase(text, ' '); // some tokenizers put spaces in front of text
            std::string whole = each["text"];
            std::erase(whole, ' ');
            if (name != "gpt2-nfc" && name != "gpt2-rstrip") // these change text
                CHECK(text == whole);
        }
    }
}

TEST_CASE("encode() leaves the text of special tokens text, encode_chat() does not")
{
    const std::unique_ptr<Tokenizer> tokenizer =
        tokenizer_of(Json{{"tokenizers", {{"gpt2", {{"eos_token", "<|endoftext|>"}}}}}}, "gpt2");
    std::vector<i32> ids;
    std::vector<bool> inside;
    const std::vector<TextSpan> all{{0, 100}};
    tokenizer->encode_chat("<|im_end|>a", all, ids, inside);
    CHECK(ids.size() == 2);
    CHECK(tokenizer->special_text(ids[0]) == "<|im_end|>");
    CHECK(tokenizer->encode("<|im_end|>a").size() > 2);
    CHECK(tokenizer->decode(ids) == "a");
    CHECK(spelled_out(*tokenizer, ids) == "<|im_end|>a");
}

TEST_CASE("a store keeps which tokens are trained, and joins of stores do")
{
    const TemporaryFolder folder;
    write_masked(folder / "a.h5", 3, {{2, 4}, {9, 10}});
    const TokenStore a = TokenStore::open(folder / "a.h5");
    a.verify();
    const std::vector<int> one{0, 0, 1, 1, 0, 0, 0, 0, 0, 1};
    std::vector<int> expected;
    for (int d = 0; d < 3; ++d)
        expected.insert(expected.end(), one.begin(), one.end());
    CHECK(mask_of(a) == expected);
    CHECK(a.has_mask());
    CHECK(a.trained_tokens() == 9);
    CHECK(a.documents() == 3); // no eos was added
    CHECK(a.trained(3, 7) == spans({{3, 4}, {9, 10}}));
    CHECK(a.trained(4, 5).empty());
    CHECK(a.trained(19, 4) == spans({{19, 20}, {22, 23}}));
    CHECK(names_mask(folder / "a.h5"));

    { // text, all of which is trained, has no mask: the file is that of an older version
        TokenStoreWriter writer(folder / "b.h5", *make_tokenizer("bytes"));
        writer.add(std::vector<i32>{1, 2, 3}, 3);
        writer.add_whole(std::vector<i32>{1, 2, 3}, spans({{0, 3}}), 3);
        writer.finish();
    }
    const TokenStore b = TokenStore::open(folder / "b.h5");
    CHECK(!b.has_mask());
    CHECK(b.trained_tokens() == b.size());
    CHECK(!names_mask(folder / "b.h5"));
    CHECK(version_in_seal(folder / "b.h5", "Trivium token store") == 1);
    CHECK(version_in_seal(folder / "a.h5", "Trivium token store") == 2);

    const TokenStore both = TokenStore::open(folder / "*.h5");
    const TokenStore reverse = [&] {
        TokenStoreWriter writer(folder / "joined", *make_tokenizer("bytes"));
        append_store(writer, b, *make_tokenizer("bytes"));
        append_store(writer, a, *make_tokenizer("bytes"));
        writer.finish();
        return TokenStore::open(folder / "joined");
    }();
    std::vector<int> mask = expected;
    mask.resize(mask.size() + static_cast<std::size_t>(b.size()), 1);
    CHECK(mask_of(both) == mask);
    CHECK(names_mask(folder / "*.h5"));
    std::rotate(mask.begin(), mask.end() - b.size(), mask.end());
    CHECK(mask_of(reverse) == mask);
    CHECK(reverse.documents() == 5);
    CHECK(reverse.document_begin(2) == 7); // only the text got its eos
}

TEST_CASE("a store is another one if its mask is")
{
    const TemporaryFolder folder;
    write_masked(folder / "a.h5", 2, {{2, 4}});
    write_masked(folder / "b.h5", 2, {{2, 5}});
    write_masked(folder / "c.h5", 2, {{0, 10}});
    write_masked(folder / "d.h5", 2, {{2, 3}, {3, 4}, {4, 4}});
    const auto content = [&](const char* name) { return TokenStore::open(folder / name).content(); };
    CHECK(content("a.h5") != content("b.h5"));
    CHECK(content("a.h5") != content("c.h5"));
    CHECK(content("a.h5") == content("d.h5"));
    const std::string none = message_of<UserError>([&] { write_masked(folder / "e.h5", 2, {}); });
    CHECK(none.find("no token to train") != std::string::npos);
}

TEST_CASE("a damaged mask is found when the store is opened")
{
    const TemporaryFolder folder;
    write_masked(folder / "a.h5", 50, {{2, 4}, {6, 7}});
    std::string bytes = read_file(folder / "a.h5", "store");
    const std::vector<i64> first{2, 4, 6, 7, 12, 14};
    const std::string pattern(reinterpret_cast<const char*>(first.data()), first.size() * sizeof(i64));
    const std::size_t at = bytes.find(pattern);
    REQUIRE(at != std::string::npos);
    bytes[at + 8] = 5;
    write_file(folder / "a.h5", bytes);
    const std::string problem = message_of<UserError>([&] { (void)TokenStore::open(folder / "a.h5"); });
    CHECK(problem.find("damaged") != std::string::npos);
}

TEST_CASE("targets that are not trained are -1, in windows and in packed samples")
{
    const TemporaryFolder folder;
    write_masked(folder / "a.h5", 7, {{2, 4}, {9, 10}});
    for (const SamplePacking packing : {SamplePacking::concatenate, SamplePacking::best_fit})
        for (const LossOf loss : {LossOf::trained, LossOf::all})
            for (const i64 seq : {5, 12, 23}) {
                DataConfig data;
                data.packing = packing;
                data.loss_of = loss;
                data.boundary_loss = BoundaryLoss::count;
                const StoreSamples samples(TokenStore::open(folder / "a.h5"), seq, data);
                i64 counted = 0;
                for (i64 s = 0; s < samples.samples(); ++s) {
                    std::vector<i32> targets(static_cast<std::size_t>(seq));
                    samples.read(SampleInput::targets, s, 0, seq, targets.data());
                    const std::vector<i32> ids = samples.tokens_of(s);
                    for (std::size_t i = 0; i < targets.size(); ++i) {
                        const bool there = i + 1 < ids.size();
                        const i32 id = there ? ids[i + 1] : -1, place = id % 10; // in its document
                        const bool trained =
                            there && (loss == LossOf::all || place == 2 || place == 3 || place == 9);
                        CHECK(targets[i] == (trained ? id : -1));
                        counted += trained;
                    }
                    std::vector<i32> part(3); // a rank may read a part
                    samples.read(SampleInput::targets, s, 2, 3, part.data());
                    CHECK(std::equal(part.begin(), part.end(), targets.begin() + 2));
                }
                if (loss == LossOf::trained && packing == SamplePacking::best_fit && seq > 9)
                    CHECK(counted == 7 * 3);
            }
}
