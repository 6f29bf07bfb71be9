// `trivium checkpoint export` and `import`, as users type them.
#include "catch.hpp"
#include "io/limited_files.hpp"
#include "program.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

/// A short run with a tokenizer of its own, in ck/.
struct Trained {
    Folder folder;
    Trained()
    {
        write_text(folder / "text.txt", some_text(6000));
        good({"data", "tokenizer", "text.txt", "--vocab", "300", "-o", "tok.model"});
        good({"data", "tokenize", "text.txt", "--tokenizer", "tok.model", "-o", "train.h5", "--valid",
              "valid.h5", "--valid-fraction", "0.2"});
        write_text(folder / "run.toml",
                   "[model]\nlayers = 2\ndim = 32\nkv_heads = 2\nseq = 32\n[data]\ntrain = "
                   "\"train.h5\"\nvalid = \"valid.h5\"\ntokenizer = \"tok.model\"\n"
                   "[train]\nsteps = 3\nglobal_batch = 4\nlr = 3e-3\n[parallel]\nthreads = "
                   "1\n[checkpoint]\ndir = \"ck\"\n");
        good({"train", "run.toml"});
    }
    Outcome run(const std::vector<std::string>& arguments) const
    {
        return run_program(arguments, folder.path());
    }
    std::string good(const std::vector<std::string>& arguments) const
    {
        const Outcome outcome = run(arguments);
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return outcome.out + outcome.err;
    }
    std::string bad(const std::vector<std::string>& arguments, int status = 2) const
    {
        const Outcome outcome = run(arguments);
        CHECK(outcome.status == status);
        return outcome.err;
    }
    std::vector<std::string> names(const std::string& path) const
    {
        std::vector<std::string> found;
        for (const auto& entry : fs::directory_iterator(folder / path))
            found.push_back(entry.path().filename().string());
        std::sort(found.begin(), found.end());
        return found;
    }
};

} // namespace

TEST_CASE(
    "a trained model goes to Hugging Face's form and comes back: evaluates the same, generates, trains on")
{
    const Trained t;
    const std::string said = t.good({"checkpoint", "export", "ck", "theirs", "--shard-size", "100KB"});
    CHECK(has(said, "LlamaForCausalLM of step 3"));
    CHECK(has(said, "sentencepiece, 300 tokens"));
    const std::vector<std::string> files = t.names("theirs");
    CHECK(files.front() == "config.json");
    for (const char* file :
         {"generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"})
        CHECK(std::find(files.begin(), files.end(), file) != files.end());
    CHECK(std::find(files.begin(), files.end(), "model.safetensors.index.json") != files.end());
    CHECK(json::parse(read_text(t.folder / "theirs/config.json"))["eos_token_id"] == 2);

    CHECK(has(t.good({"checkpoint", "import", "theirs", "ours/"}), "train ours/model.toml data.train="));
    CHECK(t.run({"plan", "ours/model.toml", "data.train=train.h5"}).err == ""); // its keys are no mistakes
    CHECK(t.names("ours") ==
          std::vector<std::string>{"latest", "model.toml", "step-00000000", "tokenizer.model"});
    t.good({"checkpoint", "verify", "ours"});
    // In the same batches: on some processors bits depend on the place of a row in a product.
    const auto loss = [&](const std::string& config, const std::string& checkpoint) {
        return json::parse(t.run({"eval", config, "--data", "valid.h5", "--checkpoint", checkpoint, "--json",
                                  "train.global_batch=4", "train.micro_batch=4"})
                               .out)["loss"]
            .get<double>();
    };
    CHECK(loss("ours/model.toml", "ours") == loss("run.toml", "ck"));
    CHECK(has(
        t.good({"generate", "ours/model.toml", "--checkpoint", "ours", "--prompt", "the", "--tokens", "4"}),
        "the"));
    const std::string training =
        t.good({"train", "ours/model.toml", "train.init_from=ours", "data.train=train.h5",
                "data.valid=valid.h5", "train.steps=1", "train.lr=0.0", "checkpoint.dir=further"});
    CHECK(has(training, "weights from"));
    CHECK(loss("ours/model.toml", "further") == loss("run.toml", "ck"));
    CHECK(has(t.bad({"train", "ours/model.toml", "data.train=train.h5", "checkpoint.dir=ours"}),
              "train.init_from"));

    // The imported model has another tokenizer, which is reported.
    t.good({"data", "tokenize", "text.txt", "--tokenizer", "bytes", "-o", "bytes.h5"});
    CHECK(has(t.bad({"eval", "ours/model.toml", "--data", "bytes.h5", "--checkpoint", "ours"}),
              "a different tokenizer"));
    // Without a tokenizer, nothing is known about it, and nothing is refused.
    fs::remove(t.folder / "theirs/tokenizer.model");
    fs::remove(t.folder / "theirs/tokenizer.json");
    CHECK(has(t.good({"checkpoint", "import", "theirs", "plain", "model.seq=16"}), "the folder has none"));
    CHECK(has(read_text(t.folder / "plain/model.toml"), "seq = 16"));
    t.good({"eval", "plain/model.toml", "--data", "valid.h5", "--checkpoint", "plain"});

    t.good({"checkpoint", "export", "ck/step-00000003", "narrow", "--type", "bf16"});
    CHECK(t.names("narrow") == std::vector<std::string>{"config.json", "generation_config.json",
                                                        "model.safetensors", "tokenizer.json",
                                                        "tokenizer.model", "tokenizer_config.json"});
    CHECK(json::parse(read_text(t.folder / "narrow/config.json"))["torch_dtype"] == "bfloat16");
}

TEST_CASE(
    "an imported folder generates, evaluates and trains at once, from any folder, apart from other imports")
{
    const Trained t;
    t.good({"checkpoint", "export", "ck", "theirs"});
    t.good({"checkpoint", "import", "theirs", "a"});
    t.good({"checkpoint", "import", "theirs", "b/"});
    const std::string a = t.folder / "a/model.toml", b = t.folder / "b/model.toml",
                      data = "data.train=" + (t.folder / "train.h5");
    const Folder elsewhere;
    const auto generated = [&](const std::string& config) {
        const Outcome outcome = run_program(
            {"generate", config, "--prompt", "the", "--tokens", "4", "--temperature", "0", "--json"},
            elsewhere.path());
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return json::parse(outcome.out);
    };
    const json before = generated(a);
    CHECK(has(before["checkpoint"], "a/step-00000000"));
    CHECK(before["text"] == generated(b)["text"]);
    t.good({"checkpoint", "import", "theirs", "c", "data.tokenizer=tok.model"}); // a path of the user's
    CHECK(before["text"] == generated(t.folder / "c/model.toml")["text"]);
    const Outcome trained = run_program({"train", a, data, "train.steps=2"}, elsewhere.path());
    INFO(trained.err);
    REQUIRE(trained.status == 0);
    CHECK(has(trained.err, "weights from"));
    CHECK(has(generated(a)["checkpoint"], "a/checkpoints/step-00000002"));
    CHECK(has(generated(b)["checkpoint"], "b/step-00000000"));
    for (const char* folder : {"checkpoints", "logs"})
        CHECK(!fs::exists(elsewhere / folder));
}

TEST_CASE("a file for llama.cpp is one new file, and whole")
{
    const Trained t;
    const std::string said = t.good({"checkpoint", "export", "ck", "small.gguf"});
    for (const char* part :
         {"small.gguf: architecture llama of step 3", "bf16", "1 file", "sentencepiece, 300 tokens"})
        CHECK(has(said, part));
    CHECK(read_text(t.folder / "small.gguf").starts_with("GGUF"));
    t.good({"checkpoint", "export", "ck", "exact.gguf", "--type", "f32", "--tokenizer", "none"});
    const std::vector<std::string> before = t.names(".");
    const auto bad = [&](std::vector<std::string> more, int status = 2) {
        more.insert(more.begin(), {"checkpoint", "export", "ck"});
        return t.bad(more, status);
    };
    CHECK(has(bad({"small.gguf"}), "exists"));
    CHECK(has(bad({"folder", "--type", "q8_0"}), ".gguf"));
    CHECK(has(bad({"new.gguf", "--shard-size", "1GB"}), "--shard-size"));
    CHECK(has(bad({"new.gguf", "--type", "q4_0"}), "q8_0"));
    {
        const trivium::LimitedFiles full(20'000);
        CHECK(has(bad({"new.gguf"}, 1), "cannot write"));
    }
    CHECK(t.names(".") == before);
}

TEST_CASE("a tokenizer whose end of a document --eod named keeps it in an export and an import")
{
    const Trained t;
    fs::copy_file(TRIVIUM_SOURCE "/tests/io/data/byte_bpe/llama3.json", t.folder / "tokenizer.json");
    t.good({"data", "tokenize", "text.txt", "--tokenizer", "tokenizer.json", "--eod", "<|eot_id|>", "-o",
            "eot.h5"});
    t.good({"train", "run.toml", "data.train=eot.h5", "data.valid=", "data.tokenizer=tokenizer.json",
            "checkpoint.dir=eot", "train.steps=1"});
    t.good({"checkpoint", "export", "eot", "theirs"});
    const auto ids = json::parse(read_text(t.folder / "tokenizer.json"))["added_tokens"];
    const auto eot = std::find_if(ids.begin(), ids.end(),
                                  [](const json& token) { return token["content"] == "<|eot_id|>"; });
    REQUIRE(eot != ids.end());
    const json config = json::parse(read_text(t.folder / "theirs/config.json"));
    CHECK(config["bos_token_id"] == (*eot)["id"]);
    CHECK(config["eos_token_id"] == (*eot)["id"]);
    t.good({"checkpoint", "import", "theirs", "ours"});
    t.good({"data", "tokenize", "text.txt", "--tokenizer", "ours/tokenizer.json", "-o", "again.h5"});
    CHECK(json::parse(t.run({"data", "show", "again.h5", "--json"}).out)["eos"] == (*eot)["id"]);
}

TEST_CASE("the files of an imported model are in the checkpoints of a run that starts from it")
{
    const Trained t;
    t.good({"checkpoint", "export", "ck", "theirs"});
    json config = json::parse(read_text(t.folder / "theirs/config.json"));
    config["eos_token_id"] = {2, 1};
    config["max_position_embeddings"] = 512;
    config["initializer_range"] = 0.125;
    write_text(t.folder / "theirs/config.json", config.dump());
    const std::string generation = R"({"eos_token_id": [2, 1], "temperature": 0.6})";
    write_text(t.folder / "theirs/generation_config.json", generation);
    write_text(t.folder / "theirs/chat_template.jinja", "{{ messages }}");
    t.good({"checkpoint", "import", "theirs", "ours", "model.seq=32"});
    const std::vector<std::string> run{"train",
                                       "ours/model.toml",
                                       "train.init_from=ours",
                                       "data.train=train.h5",
                                       "data.tokenizer=tok.model",
                                       "checkpoint.dir=further",
                                       "train.global_batch=2"};
    std::vector<std::string> again = run;
    again.push_back("train.steps=1");
    t.good(again);
    fs::remove_all(t.folder / "theirs");
    again.back() = "train.steps=2"; // resumed
    t.good(again);
    fs::remove_all(t.folder / "ours");
    t.good({"checkpoint", "export", "further", "out"});
    CHECK(json::parse(read_text(t.folder / "out/config.json")) == config);
    CHECK(read_text(t.folder / "out/generation_config.json") == generation);
    CHECK(read_text(t.folder / "out/chat_template.jinja") == "{{ messages }}");
}

TEST_CASE("a model is not exported without its tokenizer, unless requested")
{
    const Trained t;
    fs::rename(t.folder / "tok.model", t.folder / "moved.model");
    t.good({"checkpoint", "export", "ck", "from-store"}); // it has the tokenizer, too
    fs::rename(t.folder / "train.h5", t.folder / "moved.h5");
    const std::string said = t.bad({"checkpoint", "export", "ck", "out"});
    for (const char* part :
         {"tokenizer is missing", "tok.model", "train.h5", "--tokenizer FILE", "--tokenizer none"})
        CHECK(has(said, part));
    CHECK(!fs::exists(t.folder / "out"));
    CHECK(has(t.bad({"checkpoint", "export", "ck", "out", "--tokenizer", "bytes"}), "is not the tokenizer"));
    t.good({"checkpoint", "export", "ck", "out", "--tokenizer", "moved.model"});
    CHECK(read_text(t.folder / "out/tokenizer.json") == read_text(t.folder / "from-store/tokenizer.json"));
    t.good({"checkpoint", "export", "ck", "plain", "--tokenizer", "none"});
    CHECK(t.names("plain") == std::vector<std::string>{"config.json", "model.safetensors"});
}

TEST_CASE("an adapter whose parts disagree is refused by the name of a tensor")
{
    const Trained t;
    t.good({"train", "run.toml", "train.init_from=ck", "checkpoint.dir=lora", "train.steps=3",
            "train.lora={rank=2}"});
    CHECK(has(t.bad({"checkpoint", "export", "lora", "unwritten", "--data", "nothing.h5"}), "nothing.h5"));
    CHECK(!fs::exists(t.folder / "unwritten"));
    // No config has train.lora: the checkpoint's is taken. Without a checkpoint the model is its base.
    const auto loss = [&](const std::vector<std::string>& more) {
        std::vector<std::string> arguments{"eval", "run.toml", "--json"};
        arguments.insert(arguments.end(), more.begin(), more.end());
        const Outcome outcome = t.run(arguments);
        INFO(outcome.err);
        REQUIRE(outcome.status == 0);
        return std::pair(json::parse(outcome.out)["loss"].get<double>(), outcome.err);
    };
    const std::string lora = "train.lora={rank=2}";
    const auto base = loss({}), adapted = loss({"checkpoint.dir=lora"});
    CHECK(has(adapted.second, "train.lora = {rank = 2"));
    CHECK(adapted.first == loss({"checkpoint.dir=lora", lora}).first);
    CHECK(adapted.first != base.first);
    const auto fresh = loss({"checkpoint.dir=none", "train.init_from=ck", lora});
    CHECK(fresh.first == Approx(base.first).epsilon(1e-6));
    CHECK(has(fresh.second, "has no adapters"));

    const std::string said = t.good({"checkpoint", "export", "lora", "--adapter", "adapter"});
    CHECK(!has(said, "max-lora-rank"));
    CHECK(has(t.good({"checkpoint", "import", "ck", "good", "--adapter", "adapter"}), "with the adapters"));
    const fs::path file = t.folder / "adapter/adapter_config.json";
    const json config = json::parse(read_text(file));
    const auto refused = [&](const char* key, const json& value) {
        json other = config;
        other[key] = value;
        write_text(file, other.dump());
        const std::string message = t.bad({"checkpoint", "import", "ck", "bad", "--adapter", "adapter"});
        INFO(message);
        CHECK(!fs::exists(t.folder / "bad"));
        return message;
    };
    CHECK(has(refused("r", 1), "model.layers.0.self_attn.q_proj.lora_A.weight"));
    CHECK(has(refused("r", 1), "of shape [2, 32]"));
    CHECK(has(refused("r", -1), "of rank -1"));
    CHECK(has(refused("target_modules", {"q_proj"}), "does not name its module"));
    json more = config["target_modules"];
    more.push_back("embed_tokens");
    CHECK(has(refused("target_modules", more), "lacks the tensor"));
}

TEST_CASE("export and import refuse unsupported input and leave no files behind")
{
    const Trained t;
    t.good({"checkpoint", "export", "ck", "theirs"});
    const auto before = t.names(".");
    CHECK(has(t.bad({"checkpoint", "export", "ck", "theirs"}), "not empty"));
    CHECK(has(t.bad({"checkpoint", "export", "nowhere", "new"}), "nowhere"));
    CHECK(has(t.bad({"checkpoint", "export", "ck", "new", "--type", "f8"}), "f8"));
    for (const char* size : {"", "0", "5XB", "-5GB", "99999999999", "5 GB", "GB"})
        CHECK(has(t.bad({"checkpoint", "export", "ck", "new", std::string("--shard-size=") + size}),
                  "--shard-size"));
    CHECK(has(t.bad({"checkpoint", "import", "ck", "new"}), "config.json"));
    CHECK(has(t.bad({"checkpoint", "import", "nowhere", "new"}), "nowhere"));
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "ck"}), "not empty"));
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new", "train.lr=1"}), "[model] or [data]"));
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new", "model.norm_eps=1e-3"}),
              "would change the model"));
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new", "model.sec=3"}), "'model.seq'"));
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new", "data.tokenizer=nowhere"}), "nowhere"));
    {
        const trivium::LimitedFiles full(20'000);
        CHECK(has(t.bad({"checkpoint", "export", "ck", "new"}, 1), "cannot write"));
        CHECK(t.run({"checkpoint", "import", "theirs", "new"}).status == 1);
    }
    std::string shard = read_text(t.folder / "theirs/model.safetensors");
    write_text(t.folder / "theirs/model.safetensors", shard.substr(0, shard.size() - 1));
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new"}), "model.safetensors"));
    write_text(t.folder / "theirs/model.safetensors", shard.substr(0, shard.size() - 4) + "\xff\xff\xff\xff");
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new"}), "not finite"));
    write_text(t.folder / "theirs/model.safetensors",
               "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 548105171\n");
    CHECK(has(t.bad({"checkpoint", "import", "theirs", "new"}), "git lfs pull"));
    CHECK(t.names(".") == before);
    for (const char* command : {"export", "import"})
        CHECK(has(t.good({"checkpoint", command, "--help"}), "hugging-face.md"));
}
