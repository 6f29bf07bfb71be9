// Tokenizers in GGUF files, and the keys about them.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/files/files.hpp"
#include "io/gguf/gguf.hpp"
#include "io/gguf/gguf_reader.hpp"
#include "io/gguf/vocabulary.hpp"
#include "io/hugging_face/small_models.hpp"
#include "io/naive_bpe.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/tokenizer.hpp"

#include <map>

using namespace trivium;
using Json = nlohmann::json;

namespace {

std::string byte_bpe_file(const std::string& name)
{
    return str(TRIVIUM_TEST_DATA "/io/data/byte_bpe/", name, ".json");
}

/// The keys of a file of a small Llama with this tokenizer.
Json keys_with(const Tokenizer& tokenizer, i64 vocab, const RunState& state = {},
               const std::string& name = "small")
{
    ModelConfig model = llama_model();
    model.vocab = vocab;
    const TemporaryFolder folder;
    const ExportedFiles files = exported_files(model, "float32", &tokenizer, state);
    const GgufKeys keys = gguf_keys(model, gguf_architecture_of(model, *files.architecture), GgufType::f32,
                                    files, &tokenizer, state, name);
    GgufWriter(folder / "file", keys, {}).close();
    return GgufFile::read(folder / "file").keys;
}

/// What llama.cpp makes of text: of adjacent symbols that together are a token, those with the highest score
/// are merged first, of equal ones the leftmost; what is no token becomes bytes.
std::vector<i32> merged_by_score(const Json& keys, std::string text)
{
    std::map<std::string, i32> ids;
    for (const std::string& token : keys["tokenizer.ggml.tokens"].get<std::vector<std::string>>())
        ids.emplace(token, static_cast<i32>(ids.size()));
    const auto scores = keys["tokenizer.ggml.scores"].get<std::vector<float>>();
    if (keys["tokenizer.ggml.add_space_prefix"] == true)
        text = " " + text;
    std::string marked;
    for (const char c : text)
        marked += c == ' ' ? std::string("\u2581") : std::string(1, c);
    return naive_bpe(marked, ids, [&](const std::string& left, const std::string& right) {
        const auto at = ids.find(left + right);
        return at == ids.end() ? std::nullopt
                               : std::optional<double>(-scores[static_cast<std::size_t>(at->second)]);
    });
}

} // namespace

TEST_CASE("SentencePiece's merges follow from the scores in the file")
{
    const TemporaryFolder folder;
    put(folder / "text.txt", sample_text(2000));
    TokenizerTraining training;
    training.text.inputs = {folder / "text.txt"};
    training.vocab = 350;
    put(folder / "trained.model", train_tokenizer(training));
    for (const std::string& path : {folder / "trained.model", byte_bpe_file("llama2")}) {
        const auto tokenizer = make_tokenizer(path);
        const i64 vocab = round_up(tokenizer->vocab_size(), 64);
        const Json keys = keys_with(*tokenizer, vocab);
        CHECK(keys["tokenizer.ggml.model"] == "llama");
        CHECK(static_cast<i64>(keys["tokenizer.ggml.tokens"].size()) == vocab);
        CHECK(keys["tokenizer.ggml.token_type"][0] == 2);  // unknown
        CHECK(keys["tokenizer.ggml.token_type"][1] == 3);  // control
        CHECK(keys["tokenizer.ggml.token_type"][13] == 6); // a byte
        CHECK(keys["tokenizer.ggml.token_type"][300] == 1);
        CHECK(keys["tokenizer.ggml.token_type"].back() == 5); // no token of the tokenizer
        CHECK(keys["tokenizer.ggml.unknown_token_id"] == 0);
        // A text follows the token that ended the previous one.
        CHECK(keys["tokenizer.ggml.eos_token_id"] == 2);
        CHECK(keys["tokenizer.ggml.bos_token_id"] == 2);
        CHECK(keys["tokenizer.ggml.add_bos_token"] == true);
        for (unsigned seed = 1; seed < 9; ++seed) {
            const std::string text = sample_text(12, seed) + "\u4e2d\u00e9\n\t  x";
            CHECK(merged_by_score(keys, text) == tokenizer->encode(text));
        }
    }
}

TEST_CASE("tokenizers of bytes name the pattern that splits text")
{
    const std::map<std::string, std::string> expected{
        {"gpt2", "gpt-2"}, {"llama3", "llama-bpe"}, {"digits", "smollm"}};
    for (const auto& [name, pre] : expected) {
        INFO(name);
        const auto tokenizer = make_tokenizer(byte_bpe_file(name));
        const Json keys = keys_with(*tokenizer, tokenizer->vocab_size()),
                   file = Json::parse(get(byte_bpe_file(name)));
        CHECK(keys["tokenizer.ggml.model"] == "gpt2");
        CHECK(keys["tokenizer.ggml.pre"] == pre);
        const Json& tokens = keys["tokenizer.ggml.tokens"];
        for (const auto& [token, id] : file["model"]["vocab"].items())
            CHECK(tokens[id.get<std::size_t>()] == token);
        for (const Json& added : file["added_tokens"]) {
            const auto id = added["id"].get<std::size_t>();
            CHECK(tokens[id] == added["content"]);
            CHECK(keys["tokenizer.ggml.token_type"][id] == (added["special"] == true ? 3 : 4));
        }
        const Json& merge = file["model"]["merges"][2];
        CHECK(keys["tokenizer.ggml.merges"].size() == file["model"]["merges"].size());
        CHECK(keys["tokenizer.ggml.merges"][2] ==
              (merge.is_string() ? merge.get<std::string>()
                                 : merge[0].get<std::string>() + " " + merge[1].get<std::string>()));
        CHECK(keys["tokenizer.ggml.eos_token_id"] == tokenizer->eos());
    }
    const Json keys = keys_with(*make_tokenizer("bytes"), 300);
    CHECK(keys["tokenizer.ggml.model"] == "gpt2");
    CHECK(keys["tokenizer.ggml.tokens"][65] == "A");
    CHECK(keys["tokenizer.ggml.tokens"][32] == "\u0120");
    CHECK(keys["tokenizer.ggml.token_type"][257] == 3);
    CHECK(keys["tokenizer.ggml.tokens"][299] == "[PAD299]");
    CHECK(keys["tokenizer.ggml.eos_token_id"] == 257);
}

TEST_CASE("a tokenizer that llama.cpp does not have is refused")
{
    const TemporaryFolder folder;
    const auto message = [&](const std::string& name, const std::function<void(Json&)>& change) {
        Json file = Json::parse(get(byte_bpe_file(name)));
        change(file);
        put(folder / "tokenizer.json", file.dump());
        return message_of<UserError>(
            [&] { (void)gguf_vocabulary(*make_tokenizer(folder / "tokenizer.json")); });
    };
    const auto pattern = [](Json& file) -> Json& {
        return file["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"];
    };
    CHECK(message("llama3", [](Json&) {}).empty());
    CHECK(says(message("llama3", [&](Json& file) { pattern(file) = R"(\p{L}+|\P{L}+)"; }), "pattern", "qwen2",
               "--tokenizer none"));
    // Qwen's pattern; ignore_merges matters if there is a token that merges do not make.
    const auto as_qwen = [&](Json& file) {
        std::string text = pattern(file);
        text.erase(text.find("{1,3}"), 5);
        pattern(file) = text;
    };
    const std::string unequal = message("llama3", as_qwen);
    CHECK(says(unequal, "ignore_merges is true"));
    CHECK(message("llama3", [&](Json& file) {
              as_qwen(file);
              file["model"]["ignore_merges"] = false;
          }).empty());
    CHECK(says(message("llama3",
                       [](Json& file) {
                           file["normalizer"] = {{"type", "Lowercase"}};
                       }),
               "normalizes"));
    CHECK(message("llama3", [](Json& file) { file["normalizer"] = {{"type", "NFC"}}; }).empty());
    CHECK(
        says(message("gpt2", [](Json& file) { file["pre_tokenizer"]["add_prefix_space"] = true; }), "space"));
    CHECK(says(message("unigram", [](Json&) {}), "unigram"));
    CHECK(says(message("llama2", [](Json& file) { file["model"]["byte_fallback"] = false; }), "bytes"));
    CHECK(says(message("llama2",
                       [](Json& file) { // a token's pairs are apart
                           Json& merges = file["model"]["merges"];
                           merges.push_back(merges[0]);
                       }),
               "merges"));
}

TEST_CASE("the settings of an imported tokenizer stay")
{
    const auto tokenizer = make_tokenizer(byte_bpe_file("llama3"));
    ModelConfig model = llama_model();
    model.vocab = 804;
    RunState state;
    Json config = Json::parse(print_config(model));
    config["bos_token_id"] = 800;
    config["eos_token_id"] = {801, 803};
    state.imported = {
        {"config.json", config.dump()},
        {"tokenizer_config.json",
         R"({"eos_token":{"content":"<|eot_id|>"},"pad_token":"<|end_of_text|>","chat_template":"{{ a }}"})"}};
    Json keys = keys_with(*tokenizer, 804, state);
    CHECK(keys["tokenizer.ggml.bos_token_id"] == 800); // of config.json
    CHECK(keys["tokenizer.ggml.eos_token_id"] == 803);
    CHECK(keys["tokenizer.ggml.padding_token_id"] == 801);
    CHECK(keys["tokenizer.ggml.add_bos_token"] == true); // by the post-processor
    CHECK(keys["tokenizer.chat_template"] == "{{ a }}");
    state.imported["tokenizer_config.json"] = R"({"add_bos_token":false})";
    state.imported["chat_template.jinja"] = "{{ b }}";
    keys = keys_with(*tokenizer, 804, state);
    CHECK(keys["tokenizer.ggml.eos_token_id"] == 801);
    CHECK(keys["tokenizer.ggml.add_bos_token"] == false);
    CHECK(keys["tokenizer.chat_template"] == "{{ b }}");

    // The run has another tokenizer.
    state.tokenizer = "another";
    state.imported_tokenizer = "theirs";
    keys = keys_with(*tokenizer, 804, state);
    CHECK(keys["tokenizer.ggml.bos_token_id"] == tokenizer->eos());
    CHECK(!keys.contains("tokenizer.chat_template"));
    // llama.cpp expects "</s>" of a model with Phi-3's name.
    CHECK(!keys_with(*tokenizer, 804, {}, "my-Phi-3").contains("general.name"));
    CHECK(keys_with(*make_tokenizer("bytes"), 804, {}, "my-Phi-3")["general.name"] == "my-Phi-3");
}
