// Chats from files to answers, as a user works with them (docs/fine-tuning.md).
#include "catch.hpp"
#include "io/tokens/tokenizer/tokenizer_json.hpp"
#include "train/program.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>

using Json = nlohmann::json;

namespace {

const char* const chatml =
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' + message.content + "
    "'<|im_end|>\\n' }}"
    "{%- endfor %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

/// BPE of bytes without merges: 256 bytes, then <|end|>, <|im_start|> and <|im_end|>.
void write_tokenizer(const Folder& folder, const std::string& name)
{
    std::filesystem::create_directories(folder / name);
    Json vocab = Json::object(), added = Json::array();
    for (int byte = 0; byte < 256; ++byte)
        vocab[trivium::byte_level_letter(byte)] = byte;
    for (const char* token : {"<|end|>", "<|im_start|>", "<|im_end|>"})
        added.push_back(
            {{"id", 256 + added.size()}, {"content", token}, {"special", true}, {"normalized", false}});
    write_text(
        folder / (name + "/tokenizer.json"),
        Json{{"version", "1.0"},
             {"added_tokens", added},
             {"normalizer", nullptr},
             {"pre_tokenizer", {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}}},
             {"post_processor", nullptr},
             {"decoder", {{"type", "ByteLevel"}}},
             {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", Json::array()}}}}
            .dump());
    write_text(folder / (name + "/tokenizer_config.json"),
               Json{{"eos_token", "<|end|>"}, {"chat_template", chatml}}.dump());
}

Json chat(const std::string& question, const std::string& answer)
{
    return {{"messages",
             {{{"role", "user"}, {"content", question}}, {{"role", "assistant"}, {"content", answer}}}}};
}

/// The trained text of a document: what `data show` says of it.
std::string trained_of(const Json& shown)
{
    std::string text;
    for (std::size_t i = 0; i < shown["tokens"].size(); ++i)
        if (shown["trained"][i])
            text += shown["pieces"][i].get<std::string>();
    return text;
}

Json show(const Folder& folder, int document, const std::vector<std::string>& more = {})
{
    std::vector<std::string> arguments{"data",   "show",     "train.h5",
                                       "--json", "--sample", std::to_string(document)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Outcome shown = run_program(arguments, folder.path());
    INFO(shown.err);
    REQUIRE(shown.status == 0);
    return Json::parse(shown.out);
}

} // namespace

TEST_CASE("a folder of mixed chats becomes a store, a run, answers and an export")
{
    const Folder folder;
    write_tokenizer(folder, "model");
    std::string lines;
    for (int i = 0; i < 12; ++i)
        lines +=
            chat("What is " + std::to_string(i) + "?", "It is number " + std::to_string(i)).dump() + "\n";
    lines += Json{{"prompt", "1 + 1 ="}, {"completion", " 2"}}.dump() + "\n";
    lines +=
        Json{{"conversations", {{{"from", "human"}, {"value", "Hi"}}, {{"from", "gpt"}, {"value", "Hey"}}}}}
            .dump() +
        "\n";
    lines += Json{{"messages", {{{"role", "user"}, {"content", "no answer"}}}}}.dump() + "\n";
    lines += chat("long?", std::string(300, 'x')).dump() + "\n";
    std::filesystem::create_directories(folder / "chats");
    write_text(folder / "chats/a.jsonl", lines);
    write_text(folder / "chats/b.json",
               Json{{{"instruction", "Say hello"}, {"input", ""}, {"output", "hello"}}}.dump());
    write_text(folder / "chats/c.txt", "Some text.");
    const Outcome made = run_program({"data", "tokenize", "chats", "--tokenizer", "model/tokenizer.json",
                                      "-o", "train.h5", "--max-length", "200"},
                                     folder.path());
    INFO(made.out << made.err);
    REQUIRE(made.status == 0);
    CHECK(has(made.out, "chats: chats/a.jsonl: 1 ShareGPT, 14 messages, 1 prompt and completion"));
    CHECK(has(made.out, "chats: chats/b.json: 1 Alpaca"));
    CHECK(has(made.out, "1 conversation of more than 200 tokens, chats/a.jsonl:16"));
    CHECK(has(made.out, "1 conversation without a trained token, chats/a.jsonl:15"));
    CHECK(has(made.out, "16 documents"));
    CHECK(has(made.out, "trained ("));

    const Json first = show(folder, 0);
    CHECK(first["text"] ==
          "<|im_start|>user\nWhat is 0?<|im_end|>\n<|im_start|>assistant\nIt is number 0<|im_end|>\n");
    CHECK(trained_of(first) == "It is number 0<|im_end|>");
    CHECK(show(folder, 12)["text"] == "1 + 1 = 2<|end|>");
    CHECK(trained_of(show(folder, 12)) == " 2<|end|>");
    CHECK(trained_of(show(folder, 13)) == "Hey<|im_end|>");
    CHECK(trained_of(show(folder, 14)) == "hello<|im_end|>");
    CHECK(trained_of(show(folder, 15)) == "Some text.<|end|>");
    const Outcome bracketed = run_program({"data", "show", "train.h5", "--sample", "0"}, folder.path());
    CHECK(has(bracketed.out, "assistant\n[It is number 0<|im_end|>]\n"));
    CHECK(run_program({"data", "show", "train.h5", "--sample", "99"}, folder.path()).status == 2);

    write_text(folder / "run.toml",
               "[model]\nlayers = 2\ndim = 16\nheads = 2\nffn_dim = 32\nseq = 64\n"
               "[data]\ntrain = \"train.h5\"\nvalid = \"train.h5\"\npacking = \"best-fit\"\n"
               "attention = \"document\"\nchat_template = \"model/tokenizer_config.json\"\n"
               "[train]\nsteps = 3\nglobal_batch = 4\n[parallel]\nthreads = 1\n");
    const Json sample = show(folder, 0, {"--config", "run.toml"});
    CHECK(sample["tokens"].size() <= 65);
    CHECK(sample["trained_tokens"] > 0);
    const Outcome trained = run_program({"train", "run.toml"}, folder.path());
    INFO(trained.out << trained.err);
    REQUIRE(trained.status == 0);
    CHECK(has(read_text(folder / "logs/metrics.jsonl") + trained.err, "trained_tokens"));

    const Outcome answer =
        run_program({"generate", "run.toml", "--chat", "--prompt", "What is 3?", "--tokens", "4", "--json"},
                    folder.path());
    INFO(answer.err);
    REQUIRE(answer.status == 0);
    CHECK(Json::parse(answer.out)["tokens"].size() <= 4);

    const Outcome exported = run_program({"checkpoint", "export", "checkpoints", "out"}, folder.path());
    INFO(exported.err);
    REQUIRE(exported.status == 0);
    CHECK(read_text(folder / "out/chat_template.jinja") == chatml);
    CHECK(Json::parse(read_text(folder / "out/generation_config.json"))["eos_token_id"] == Json{256, 258});
}

TEST_CASE("bad records of chats are errors with file and line, or counted")
{
    const Folder folder;
    write_tokenizer(folder, "model");
    const auto tokenize = [&](const std::string& record, const std::vector<std::string>& more = {}) {
        write_text(folder / "a.jsonl", chat("a", "b").dump() + "\n" + record + "\n");
        std::vector<std::string> arguments{
            "data", "tokenize", "a.jsonl", "--tokenizer", "model/tokenizer.json",
            "-o",   "train.h5", "--force"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        return run_program(arguments, folder.path());
    };
    for (const Json& record : {Json{{"messages", {{{"role", 5}, {"content", "x"}}}}}, Json{{"body", "x"}},
                               Json{{"messages", {1, 2}}}, Json{{"prompt", "x"}, {"completion", 7}}}) {
        const Outcome bad = tokenize(record.dump());
        INFO(bad.err);
        CHECK(bad.status == 2);
        CHECK(has(bad.err, "a.jsonl:2"));
    }
    const Outcome skipped = tokenize(Json{{"messages", {1, 2}}}.dump(), {"--skip-bad"});
    CHECK(skipped.status == 0);
    CHECK(has(skipped.out, "1 bad record, a.jsonl:2"));

    // Without a template, or with one that refuses the messages.
    write_text(folder / "refuse.jinja", "{{ raise_exception('roles must alternate') }}");
    const Outcome refused = tokenize("", {"--chat-template", "refuse.jinja"});
    CHECK(refused.status == 2);
    CHECK(has(refused.err, "roles must alternate"));
    CHECK(has(refused.err, "a.jsonl:1"));
    write_text(folder / "model/tokenizer_config.json", Json{{"eos_token", "<|end|>"}}.dump());
    const Outcome missing = tokenize("");
    CHECK(missing.status == 2);
    CHECK(has(missing.err, "a.jsonl:1"));
    CHECK(has(missing.err, "--chat-template"));
}

TEST_CASE("input without a document to train says what was left out, and which template trains nothing")
{
    const Folder folder;
    write_tokenizer(folder, "model");
    write_text(folder / "a.jsonl", chat("Hi", "Hey").dump() + "\n");
    write_text(folder / "none.jsonl",
               Json{{"messages", {{{"role", "user"}, {"content", "no answer"}}}}}.dump() + "\n");
    write_text(folder / "other.jsonl", "{\"foo\": 1}\n");
    write_text(folder / "wrapped.json", Json{{"data", {chat("Hi", "Hey")}}}.dump());
    write_text(folder / "constant.jinja", "hello");
    const auto said = [&](int status, const std::string& input, const std::vector<std::string>& more = {}) {
        std::vector<std::string> arguments{
            "data", "tokenize", input, "--tokenizer", "model/tokenizer.json", "-o", "train.h5", "--force"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome made = run_program(arguments, folder.path());
        INFO(made.out << made.err);
        CHECK(made.status == status);
        return made.err;
    };
    const std::string none = said(2, "none.jsonl");
    CHECK(has(none, "train.h5: no document is left"));
    CHECK(has(none, "1 conversation without a trained token, none.jsonl:1"));
    CHECK(!has(none, "--valid-fraction"));
    CHECK(has(said(2, "a.jsonl", {"--max-length", "3"}), "1 conversation of more than 3 tokens, a.jsonl:1"));
    CHECK(has(said(2, "a.jsonl", {"--chat-template", "constant.jinja"}),
              "constant.jinja: gives no trained token for any chat"));
    const std::string other = said(2, "other.jsonl");
    CHECK(has(other, "other.jsonl:1: is not a chat of a known form"));
    CHECK(has(other, "\"foo\""));
    CHECK(has(other, "--key"));
    CHECK(has(said(0, "wrapped.json"), "its field \"data\" is a list of chats"));
}
