// Chats from files to answers, as a user works with them (docs/fine-tuning.md).
#include "catch.hpp"
#include "train/data/some_chats.hpp"

namespace {

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

TEST_CASE("a folder of mixed chats becomes a store and samples of a run")
{
    const Folder folder;
    write_tokenizer(folder, "model");
    write_chats(folder);
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

    // A template that knows no tool calls.
    Json called = chat("Weather?", "");
    called["messages"][1]["tool_calls"] = {
        {{"type", "function"}, {"function", {{"name", "look_up"}, {"arguments", {{"k", 1}}}}}}};
    const Outcome lacking = tokenize(called.dump());
    INFO(lacking.err);
    CHECK(lacking.status == 0);
    CHECK(has(lacking.out + lacking.err, "does not print the tool calls that chats have"));

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
