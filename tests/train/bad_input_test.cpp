// Invalid files: one message with place, problem and remedy, the right exit status, no half-written file.
#include "catch.hpp"
#include "program.hpp"
#include "runtime/device.hpp"

#include <cstdlib>
#include <filesystem>

namespace fs = std::filesystem;

namespace {

void expect(const Outcome& outcome, int status, const std::vector<std::string>& said)
{
    INFO(outcome.err);
    CHECK(outcome.status == status);
    for (const std::string& word : said)
        CHECK(outcome.err.find(word) != std::string::npos);
    CHECK(outcome.err.find("internal") == std::string::npos);
    CHECK(outcome.err.find("remedy") != std::string::npos);
}

} // namespace

TEST_CASE("bad corpora")
{
    const Folder folder;
    write_text(folder / "empty.txt", "");
    write_text(folder / "latin1.txt", "caf\xe9 au lait\n");
    write_text(folder / "bad.jsonl", "{\"text\": \"fine\"}\nnot json\n");
    const auto tokenize = [&](const std::string& input) {
        return run_program({"data", "tokenize", input, "--tokenizer", "bytes", "--output", "out.h5"},
                           folder.path());
    };
    expect(tokenize("empty.txt"), 2, {"empty.txt"});
    expect(tokenize("latin1.txt"), 2, {"latin1.txt", "UTF-8"});
    expect(tokenize("bad.jsonl"), 2, {"bad.jsonl:2"});
    expect(tokenize("missing.txt"), 2, {"missing.txt"});
    CHECK_FALSE(fs::exists(folder / "out.h5"));
    expect(run_program({"data", "tokenizer", "empty.txt", "--vocab", "300", "--output", "t.model"},
                       folder.path()),
           2, {"empty.txt"});
    CHECK_FALSE(fs::exists(folder / "t.model"));
    write_text(folder / "fine.txt", "some text\n");
    for (const std::string command : {"tokenize", "tokenizer"}) {
        INFO(command);
        std::vector<std::string> arguments{"data", command, "fine.txt", "--output", "missing/out"};
        for (const char* more :
             {command == "tokenize" ? "--tokenizer" : "--vocab", command == "tokenize" ? "bytes" : "300"})
            arguments.emplace_back(more);
        expect(run_program(arguments, folder.path()), 2, {"missing/out", "there is no folder missing"});
        CHECK_FALSE(fs::exists(folder / "missing"));
    }
}

TEST_CASE("bad stores and checkpoints")
{
    const Folder folder;
    make_store(folder, 3000);
    write_text(folder / "run.toml", "[model]\npreset=\"toy\"\nseq=32\nvocab=258\n[data]\ntrain=\"train."
                                    "h5\"\n[train]\nsteps=2\nglobal_batch=2\n"
                                    "[parallel]\nthreads=1\n[checkpoint]\ndir=\"ck\"\n");
    const auto train = [&](std::vector<std::string> overrides) {
        overrides.insert(overrides.begin(), {"train", "run.toml"});
        return run_program(overrides, folder.path());
    };
    expect(train({"data.train=missing.h5"}), 2, {"missing.h5"});
    expect(train({"data.train=text.txt"}), 2, {"text.txt"});
    expect(train({"model.vocab=100"}), 2, {"train.h5", "vocab"});
    expect(train({"model.seq=100000"}), 2, {"train.h5", "seq"});
    expect(train({"parallel.tensor=2"}), 2, {"grid"});
    setenv("OMP_THREAD_LIMIT", "2", 1); // because a build without OpenMP has a limit of 1
    expect(train({"parallel.threads=3"}), 2, {"parallel.threads", "can have 2"});
    unsetenv("OMP_THREAD_LIMIT");
    for (const char* key :
         {"data.train", "data.valid", "data.tokenizer", "train.init_from", "checkpoint.resume"})
        expect(train({std::string(key) + "=nowhere"}), 2, {key, "nowhere: "});
    expect(train({"checkpoint.resume=always"}), 2, {"neither \"auto\" nor \"never\""});
    expect(train({"parallel.schedule=no.csv"}), 2, {"parallel.schedule: no.csv"});
    for (const char* key :
         {"checkpoint.dir", "log.dir", "log.trace"}) // the user's to choose, as their permissions are
        for (const char* path : {"/proc/no/x", "text.txt/x"})
            expect(train({std::string(key) + "=" + path}), 2, {std::string(key) + ": "});
    const Outcome graphs = train({"parallel.graphs=true", "train.steps=1", "checkpoint.dir=other"});
    CHECK(graphs.status == 0);
    CHECK(has(graphs.err, "warning: parallel.graphs: is ignored") != trivium::computes_on_device());
    expect(run_program({"eval", "run.toml"}, folder.path()), 2, {"ck", "checkpoint"});
    const std::string store = read_text(folder / "train.h5");
    for (const double part : {0.0, 0.3, 0.9}) {
        write_text(folder / "cut.h5",
                   store.substr(0, static_cast<std::size_t>(part * static_cast<double>(store.size()))));
        expect(train({"data.train=cut.h5"}), 2, {"cut.h5"});
    }
    REQUIRE(train({}).status == 0);
    expect(train({"model.dim=32", "train.steps=3"}), 2, {"another model"});
    expect(train({"model.layers=1", "train.steps=3"}), 2, {"another model"});
    const std::string file = folder / "ck/step-00000002/shard-00000.h5", whole = read_text(file);
    write_text(file, whole.substr(0, whole.size() / 2));
    expect(train({"train.steps=3"}), 2, {"step-00000002"});
    expect(run_program({"generate", "run.toml", "--checkpoint", "ck/step-00000002"}, folder.path()), 2,
           {"step-00000002"});
}

TEST_CASE("a damaged token store ends train, eval and data show before anything is computed")
{
    const Folder folder;
    make_store(folder, 200000);
    write_text(folder / "run.toml", "[model]\npreset=\"toy\"\nseq=32\nvocab=258\n[data]\ntrain=\"train."
                                    "h5\"\n[train]\nsteps=2\nglobal_batch=2\n"
                                    "[parallel]\nthreads=1\n[checkpoint]\ndir=\"ck\"\n");
    REQUIRE(run_program({"train", "run.toml"}, folder.path()).status == 0);
    const std::string store = read_text(folder / "train.h5");
    REQUIRE(store.size() > 1'500'000); // several blocks; two steps do not read most of them
    for (const double part : {0.001, 0.2, 0.5, 0.8, 0.99}) {
        std::string bad = store;
        const auto at = static_cast<std::size_t>(part * static_cast<double>(store.size()));
        bad[at] = static_cast<char>(bad[at] ^ 4);
        write_text(folder / "bad.h5", bad);
        INFO("byte " << at << " of " << store.size());
        expect(run_program({"train", "run.toml", "data.train=bad.h5", "checkpoint.dir=new"}, folder.path()),
               2, {"bad.h5", "not the ones that were written", "data tokenize"});
        expect(run_program({"train", "run.toml", "data.valid=bad.h5", "checkpoint.dir=new"}, folder.path()),
               2, {"bad.h5", "not the ones that were written"});
        expect(run_program({"eval", "run.toml", "--data", "bad.h5", "--batches", "1"}, folder.path()), 2,
               {"bad.h5", "not the ones that were written"});
        expect(run_program({"data", "show", "bad.h5"}, folder.path()), 2,
               {"bad.h5", "not the ones that were written"});
        CHECK_FALSE(fs::exists(folder / "new/step-00000002"));
    }
}

TEST_CASE("the same tokens for training and validation cause a warning; a tokenizer that is not the store's "
          "is refused")
{
    const Folder folder;
    make_store(folder, 6000, "text.txt", "train.h5", {"--valid", "valid.h5"});
    REQUIRE(
        run_program({"data", "tokenizer", "text.txt", "--vocab", "300", "--output", "t.model"}, folder.path())
            .status == 0);
    REQUIRE(run_program({"data", "tokenize", "text.txt", "--tokenizer", "t.model", "--output", "pieces.h5"},
                        folder.path())
                .status == 0);
    write_text(folder / "run.toml", "[model]\npreset=\"toy\"\nseq=32\nvocab=300\n[data]\ntrain=\"train."
                                    "h5\"\n[train]\nsteps=1\nglobal_batch=2\n"
                                    "[parallel]\nthreads=1\n[checkpoint]\ndir=\"ck\"\nresume=\"never\"\n");
    fs::create_symlink("train.h5", folder / "link.h5");
    fs::copy_file(folder / "train.h5", folder / "copy.h5");
    for (const std::string valid : {"train.h5", "link.h5", "copy.h5", "./train.h5", "valid.h5"}) {
        const Outcome outcome = run_program({"train", "run.toml", "data.valid=" + valid}, folder.path());
        INFO(outcome.err);
        CHECK(outcome.status == 0);
        const bool told = outcome.err.find("has the same tokens as data.train") != std::string::npos;
        CHECK(told == (valid != "valid.h5"));
    }
    REQUIRE(run_program({"train", "run.toml", "data.train=pieces.h5"}, folder.path()).status ==
            0); // the store contains its tokenizer
    for (const std::string command : {"train", "eval", "generate"})
        expect(
            run_program({command, "run.toml", "data.train=pieces.h5", "data.tokenizer=bytes"}, folder.path()),
            2, {"pieces.h5", "data.tokenizer = bytes", "leave data.tokenizer out"});
    CHECK(run_program(
              {"generate", "run.toml", "data.train=pieces.h5", "data.tokenizer=t.model", "--tokens", "1"},
              folder.path())
              .status == 0);
}

TEST_CASE(
    "a checkpoint of a model with the same shapes but other settings, or of another tokenizer, is refused")
{
    const Folder folder;
    make_store(folder, 6000);
    REQUIRE(
        run_program({"data", "tokenizer", "text.txt", "--vocab", "300", "--output", "t.model"}, folder.path())
            .status == 0);
    REQUIRE(run_program({"data", "tokenize", "text.txt", "--tokenizer", "t.model", "--output", "other.h5"},
                        folder.path())
                .status == 0);
    write_text(folder / "run.toml", "[model]\npreset=\"toy\"\nseq=32\nvocab=300\n[data]\ntrain=\"train."
                                    "h5\"\n[train]\nsteps=2\nglobal_batch=2\n"
                                    "[parallel]\nthreads=1\n[checkpoint]\ndir=\"ck\"\n");
    REQUIRE(run_program({"train", "run.toml"}, folder.path()).status == 0);
    for (const char* command : {"train", "eval", "generate"}) {
        expect(run_program({command, "run.toml", "model.norm_eps=0.5"}, folder.path()), 2,
               {"norm_eps", "another model"});
        expect(run_program({command, "run.toml", "model.rope_scaling=llama3"}, folder.path()), 2,
               {"rope_scaling"});
        expect(run_program({command, "run.toml", "data.train=other.h5"}, folder.path()), 2, {"tokenizer"});
    }
    expect(run_program({"train", "run.toml", "data.tokenizer=t.model"}, folder.path()), 2,
           {"t.model", "train.h5"});
    expect(run_program({"train", "run.toml", "checkpoint.dir=text.txt/ck"}, folder.path()), 2,
           {"text.txt/ck"});
    expect(run_program({"data", "tokenise", "text.txt"}, folder.path()), 2, {"tokenise", "tokenize"});
    fs::create_directory(folder / "texts");
    fs::create_directory_symlink(".", folder / "texts/again");
    write_text(folder / "texts/a.txt", "x");
    write_text(folder / "texts/b.txt", "y");
    const Outcome looped = run_program(
        {"data", "tokenize", "texts", "--tokenizer", "bytes", "--output", "loop.h5"}, folder.path());
    INFO(looped.err << looped.out);
    CHECK(looped.status == 0);
    CHECK(looped.out.find("loop.h5: 2 documents") != std::string::npos);
}

TEST_CASE("a plan that exceeds the machine's memory is refused before the run begins")
{
    const Folder folder;
    make_store(folder, 3000);
    write_text(
        folder / "run.toml",
        "[model]\npreset=\"llama3-405b\"\nseq=32\n[data]\ntrain=\"train.h5\"\n[train]\nglobal_batch=1\n");
    expect(run_program({"train", "run.toml"}, folder.path()), 2, {"TiB", "available"});
}
