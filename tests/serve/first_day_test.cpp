// The commands of docs/fine-tuning.md, as a user types them, with a small model in place of the large one.
#include "catch.hpp"
#include "http_client.hpp"
#include "programs/page.hpp"
#include "train/data/some_chats.hpp"

#include <csignal>
#include <sstream>

using namespace trivium;

namespace {

constexpr const char* page_path = TRIVIUM_SOURCE "/docs/fine-tuning.md";

/// A folder of transformers, with a template and samples of 200 tokens.
void make_model(const Folder& folder, const std::string& name)
{
    write_tokenizer(folder, "made");
    write_text(folder / "words.txt", some_text(200));
    REQUIRE(
        run_program({"data", "tokenize", "words.txt", "--tokenizer", "made/tokenizer.json", "-o", "words.h5"},
                    folder.path())
            .status == 0);
    const Outcome trained =
        run_program({"train", "/dev/null", "model.family=qwen2", "model.layers=2", "model.dim=16",
                     "model.heads=2", "model.ffn_dim=32", "model.seq=200", "data.train=words.h5",
                     "data.chat_template=made/tokenizer_config.json", "train.steps=1", "train.global_batch=1",
                     "checkpoint.dir=made/ck", "log.dir=made/log", "parallel.threads=1"},
                    folder.path());
    INFO(trained.out << trained.err);
    REQUIRE(trained.status == 0);
    REQUIRE(run_program({"checkpoint", "export", "made/ck", name}, folder.path()).status == 0);
}

std::string replaced(std::string text, const std::string& from, const std::string& to)
{
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
        text.replace(at, from.size(), to);
    return text;
}

/// `config` with the keys of `keys`, each in the table that is there.
std::string with_keys(const std::string& config, const std::string& keys)
{
    std::string table, made = config;
    std::istringstream lines(keys);
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with('['))
            table = line + "\n";
        if (line.find(" = ") == std::string::npos)
            continue;
        const std::string key = "\n" + line.substr(0, line.find(" = ")) + " = ";
        const std::size_t begin = made.find(table);
        REQUIRE(begin != std::string::npos);
        const std::size_t at = made.find(key, begin), end = made.find("\n[", begin);
        if (at < end)
            made.erase(at, made.find('\n', at + 1) - at);
        made.insert(begin + table.size(), line + "\n");
    }
    return made;
}

/// Runs bash lines in the folder, with a small batch for each `train`.
std::string shell(const Folder& folder, const std::string& lines)
{
    write_text(folder / "lines.bash",
               "trivium() { if [[ $1 == train ]]; then set -- \"$@\" train.steps=3 train.warmup=0 "
               "train.global_batch=4 parallel.threads=1; fi; \"${under[@]}\" '" TRIVIUM_PROGRAM
               "' \"$@\"; }\n"
               "mpirun() { under=(" TRIVIUM_LAUNCHER " \"$2\"); shift 3; trivium \"$@\"; under=(); }\n"
               "under=()\n" +
                   lines);
    const int status = std::system(("cd '" + folder.path() + "' && bash -e lines.bash >said 2>&1").c_str());
    const std::string said = read_text(folder / "said");
    INFO(lines << "\n" << said);
    CHECK(status == 0);
    return said;
}

} // namespace

TEST_CASE(
    "the commands of docs/fine-tuning.md: import, stores, training on two ranks, chats, a server, an export")
{
    const Folder folder;
    make_model(folder, "Qwen2.5-0.5B");
    write_chats(folder);
    std::string said;
    int served = 0;
    for (const page::Block& block : page::read_blocks(page_path)) {
        const std::string text = replaced(replaced(block.text, "2048", "199"), "2049", "200");
        if (block.kind == "toml")
            write_text(folder / "start/model.toml", with_keys(read_text(folder / "start/model.toml"), text));
        if (block.kind != "bash")
            continue;
        if (!text.starts_with("trivium serve ")) {
            said += shell(folder, text);
            continue;
        }
        ++served;
        const std::string command = text.substr(8, text.find(" &\n") - 8);
        const std::size_t body = text.find("-d '") + 4;
        const int port = free_port();
        std::istringstream words(command);
        std::vector<std::string> arguments{"--port", std::to_string(port)};
        for (std::string word; words >> word;)
            arguments.insert(arguments.end() - 2, word);
        const Outcome outcome = run_and_signal(arguments, folder.path(), "serving ", SIGTERM, [&] {
            const std::string got =
                answer(port, post("/v1/chat/completions", text.substr(body, text.find('\'', body) - body)));
            INFO(got);
            CHECK(Json::parse(content_of(got))["choices"][0]["message"]["role"] == "assistant");
        });
        INFO(outcome.err);
        CHECK(outcome.status == 0);
    }
    CHECK(served == 1);
    CHECK(has(said, "chats: chats/a.jsonl: 1 ShareGPT, 14 messages, 1 prompt and completion"));
    CHECK(has(said, "2 ranks"));
    CHECK(has(said, "validation loss"));
    CHECK(read_text(folder / "my-model/chat_template.jinja") == chatml);
    CHECK(Json::parse(read_text(folder / "my-model/generation_config.json"))["eos_token_id"] ==
          Json{256, 258});
}
