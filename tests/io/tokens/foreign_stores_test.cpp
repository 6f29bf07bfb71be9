// Runs on token stores of other programs, and of several files: the same losses as on the store of Trivium,
// `data show` and `data verify`, and the messages about what such a file does not say.
#include "base/check.hpp"
#include "catch.hpp"
#include "io/foreign_files.hpp"
#include "io/metrics/metrics.hpp"
#include "io/tokens/token_store.hpp"
#include "train/program.hpp"

#include <filesystem>
#include <nlohmann/json.hpp>
#include <tuple>

using namespace trivium;
using foreign::Numbers;
using foreign::packed;

namespace {

/// A folder with train.h5, and its tokens.
struct ForeignRun {
    Folder folder;
    Numbers ids, lengths, ends, bounds{0};
    ForeignRun()
    {
        std::filesystem::create_directory(folder / "in");
        for (int d = 0; d < 12; ++d)
            write_text(folder / text(d), some_text(100 + 7 * d));
        REQUIRE(program({"data", "tokenize", "in", "--tokenizer", "bytes", "--output", "train.h5"}).status ==
                0);
        const TokenStore store = TokenStore::open(folder / "train.h5");
        for (i64 at = 0; at < store.size(); ++at)
            ids.push_back(store.token(at));
        for (i64 d = 0; d < store.documents(); ++d) {
            ends.push_back(store.document_begin(d + 1));
            lengths.push_back(ends.back() - store.document_begin(d));
            bounds.push_back(d + 1);
        }
        write_text(folder / "run.toml", "[model]\npreset = \"toy\"\nlayers = 1\nseq = 32\nvocab = 258\n"
                                        "[train]\nsteps = 4\nglobal_batch = 4\nlr = 3e-3\neval_every = 2\n"
                                        "[parallel]\nthreads = 1\n[checkpoint]\nresume = \"never\"\n");
    }
    /// The file of a document.
    static std::string text(int document) { return str("in/", 10 + document, ".txt"); }
    Outcome program(const std::vector<std::string>& arguments) const
    {
        return run_program(arguments, folder.path());
    }
    std::vector<std::string> arguments(const std::string& store, const std::string& name,
                                       const std::vector<std::string>& more = {}) const
    {
        std::vector<std::string> all{"train",
                                     "run.toml",
                                     "data.train=" + store,
                                     "data.valid=" + store,
                                     "checkpoint.dir=ck-" + name,
                                     "log.dir=log-" + name};
        all.insert(all.end(), more.begin(), more.end());
        return all;
    }
    /// Losses of a run on a store, which is called `name`.
    std::vector<double> train(const std::string& store, const std::string& name,
                              const std::vector<std::string>& more = {}) const
    {
        const Outcome outcome = program(arguments(store, name, more));
        INFO(store << ": " << outcome.err);
        REQUIRE(outcome.status == 0);
        return losses(name);
    }
    /// Losses of steps and of validations.
    std::vector<double> losses(const std::string& name) const
    {
        std::vector<double> all;
        for (const MetricsRecord& r : read_metrics(folder / ("log-" + name + "/metrics.jsonl")))
            for (const char* key : {"loss", "valid_loss"})
                if (r.has(key))
                    all.push_back(r.value(key));
        return all;
    }
};

} // namespace

TEST_CASE("a run on a store of another program has the losses of the run on the store of Trivium")
{
    const ForeignRun run;
    const std::string u16 = packed<std::uint16_t>(run.ids), u32 = packed<std::uint32_t>(run.ids);
    const auto size = static_cast<std::int64_t>(run.ids.size());
    write_text(run.folder / "m.bin", u16);
    write_text(run.folder / "m.idx", foreign::megatron_index(8, 2, run.lengths, run.bounds));
    write_text(run.folder / "nano.bin", u16);
    write_text(run.folder / "gpt2.bin", foreign::llmc_header(20240520, 1, size) + u16);
    write_text(run.folder / "llama3.bin", foreign::llmc_header(20240801, 7, size) + u32);
    write_text(run.folder / "olmo.npy", u32);
    write_text(run.folder / "numpy.npy", foreign::numpy_header("<u2", str("(", size, ",)")) + u16);
    write_text(run.folder / "d.ds", u16);
    write_text(run.folder / "d.ds.index", packed<std::uint64_t>(run.ends));
    write_text(run.folder / "d.ds.metadata", str("bytes|2\n", size, "\n1 kT"));

    const auto train = [&](const std::string& store, const std::vector<std::string>& more = {}) {
        return run.train(store, store, more);
    };
    const std::vector<double> expected = train("train.h5");
    REQUIRE(expected.size() == 6);
    for (const char* store : {"m", "nano.bin", "gpt2.bin", "llama3.bin", "olmo.npy", "numpy.npy", "d.ds"}) {
        INFO(store);
        CHECK(train(store) == expected);
    }
    // Documents are those of the index, or end with data.eos.
    for (const char* key : {"data.packing=best-fit", "data.boundary_loss=ignore"}) {
        INFO(key);
        const std::vector<double> by_documents = train("train.h5", {key});
        CHECK(by_documents != expected);
        CHECK(train("m", {key}) == by_documents);
        CHECK(train("nano.bin", {key, "data.eos=257"}) == by_documents);
    }
    CHECK(train("nano.bin") == expected);
    // The tokenizer's vocabulary is the model's, as with a store of Trivium.
    CHECK(train("m.idx", {"model.vocab=0", "data.tokenizer=bytes"}) == expected);

    // A resumed run compares the tokens, whatever the file is called.
    const auto resume = [&](const std::string& store, const std::string& steps) {
        return run
            .program(run.arguments(store, "nano.bin", {"checkpoint.resume=auto", "train.steps=" + steps}))
            .err;
    };
    std::filesystem::copy(run.folder / "nano.bin", run.folder / "moved.bin");
    CHECK_FALSE(has(resume("moved.bin", "6"), "differs from the data of the checkpoint's run"));
    Numbers changed = run.ids;
    changed[changed.size() / 2] ^= 1;
    write_text(run.folder / "moved.bin", packed<std::uint16_t>(changed));
    CHECK(has(resume("moved.bin", "8"), "differs from the data of the checkpoint's run"));
    // Another tokenizer is not taken for the checkpoint's.
    const Outcome unknown = run.program(run.arguments("nano.bin", "m.idx", {"checkpoint.resume=auto"}));
    CHECK(unknown.status == 2);
    CHECK(has(unknown.err, "does not say which tokenizer made its ids"));
    CHECK(has(unknown.err, "set data.tokenizer"));
}

TEST_CASE("a run on a folder or a pattern of files has the losses of the run on one file")
{
    const ForeignRun run;
    // Uneven files, of which the first two are shorter than a sample. They end anywhere; those with an index
    // end with a document.
    const auto size = static_cast<std::int64_t>(run.ids.size());
    const std::int64_t cuts[] = {0, 7, 27, run.ends[4] + 1, run.ends[4] + 2000, size};
    const auto part_of = [](const Numbers& all, std::int64_t begin, std::int64_t end) {
        return Numbers(all.begin() + begin, all.begin() + end);
    };
    for (const char* dir : {"nano", "parts"})
        std::filesystem::create_directory(run.folder / dir);
    for (int i = 0; i < 5; ++i) {
        const Numbers part = part_of(run.ids, cuts[i], cuts[i + 1]);
        const std::string u16 = packed<std::uint16_t>(part), name = str(i, ".bin");
        write_text(run.folder / ("nano/" + name), u16);
        write_text(run.folder / ("gpt2_" + name),
                   foreign::llmc_header(20240520, 1, static_cast<std::int64_t>(part.size())) + u16);
    }
    for (const auto& [name, first, last] : {std::tuple{"a", 0, 1}, {"b", 1, 9}, {"c", 9, 12}}) {
        const std::string at = run.folder / str("parts/", name);
        write_text(at + ".bin", packed<std::uint16_t>(part_of(run.ids, first == 0 ? 0 : run.ends[first - 1],
                                                              run.ends[last - 1])));
        write_text(at + ".idx", foreign::megatron_index(8, 2, part_of(run.lengths, first, last),
                                                        part_of(run.bounds, 0, last - first + 1)));
        std::vector<std::string> tokenize{"data",  "tokenize", "--tokenizer",
                                          "bytes", "-o",       str(name, "-own.h5")};
        for (int d = first; d < last; ++d)
            tokenize.push_back(ForeignRun::text(d));
        REQUIRE(run.program(tokenize).status == 0);
    }
    const std::vector<double> expected = run.train("train.h5", "one");
    CHECK(run.train("nano", "nano") == expected);
    CHECK(run.train("gpt2_?.bin", "gpt2") == expected);
    CHECK(run.train("*-own.h5", "own") == expected);
    const std::vector<std::string> packs{"data.packing=best-fit", "data.attention=document"};
    const std::vector<double> by_documents = run.train("train.h5", "one", packs);
    CHECK(run.train("parts", "parts", packs) == by_documents);
    CHECK(run.train("nano", "own", {packs[0], packs[1], "data.eos=257"}) == by_documents);

    // A resumed run knows the files where they are now, and notices one that was added.
    std::filesystem::rename(run.folder / "nano", run.folder / "moved");
    const auto resume = [&](const std::string& steps) {
        return run
            .program(run.arguments("moved/*", "nano", {"checkpoint.resume=auto", "train.steps=" + steps}))
            .err;
    };
    CHECK_FALSE(has(resume("6"), "differs from the data of the checkpoint's run"));
    write_text(run.folder / "moved/5.bin", packed<std::uint16_t>({1, 2, 257}));
    CHECK(has(resume("8"), "differs from the data of the checkpoint's run"));
}

TEST_CASE(
    "what a store of another program does not say, and ids that the model lacks, end a run with a message")
{
    const ForeignRun run;
    write_text(run.folder / "t.bin", packed<std::uint16_t>(run.ids));
    const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& said) {
        const Outcome outcome = run.program(run.arguments("t.bin", "t", more));
        INFO(outcome.err);
        CHECK(outcome.status == 2);
        for (const std::string& words : said)
            CHECK(has(outcome.err, words));
    };
    refused({"model.vocab=0"}, {"model.vocab", "t.bin does not say its vocabulary", "data.tokenizer"});
    refused({"model.vocab=200"},
            {"data.train", "t.bin", "is 257, outside the vocabulary of 200", "model.vocab"});
    refused({"data.token_type=int64"}, {"t.bin", "no multiple of the 8 of int64", "data.token_type"});
    Numbers even = run.ids;
    even.resize(even.size() / 4 * 4);
    write_text(run.folder / "even.bin", packed<std::uint16_t>(even));
    refused({"data.train=even.bin", "data.valid=even.bin", "data.token_type=uint32"},
            {"even.bin", "outside the vocabulary of 258", "data.token_type"});
    refused({"data.valid=train.h5"}, {"train.h5", "different tokenizer", "unknown (set data.tokenizer)"});
    refused({"data.eos=-2"}, {"data.eos"});
    refused({"data.packing=best-fit"},
            {"data.train", "t.bin: does not say where its documents end", "data.eos"});
    refused({"data.boundary_loss=ignore"},
            {"data.train", "t.bin: does not say where its documents end", "data.eos"});
    const Outcome eval = run.program({"eval", "run.toml", "data.train=t.bin", "model.vocab=200"});
    CHECK(eval.status == 2);
}

TEST_CASE("data show and data verify know the formats; verify ends with 1 if a file is damaged")
{
    const ForeignRun run;
    const auto size = static_cast<std::int64_t>(run.ids.size());
    const std::string u16 = packed<std::uint16_t>(run.ids);
    write_text(run.folder / "m.bin", u16);
    write_text(run.folder / "m.idx", foreign::megatron_index(8, 2, run.lengths, run.bounds));
    write_text(run.folder / "nano.bin", u16);
    const auto report = [&](std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {"data", "show", "--json"});
        const Outcome shown = run.program(arguments);
        INFO(shown.err);
        REQUIRE(shown.status == 0);
        return nlohmann::json::parse(shown.out);
    };
    const auto own = report({"train.h5"}), megatron = report({"m"}), nano = report({"nano.bin"}),
               known = report({"nano.bin", "--tokenizer", "bytes", "--type", "uint16"});
    CHECK(own["format"] == "Trivium");
    CHECK(megatron["format"] == "Megatron .bin and .idx");
    CHECK(nano["documents"].is_null());
    CHECK(nano["vocab"].is_null());
    CHECK(nano["tokenizer"].is_null());
    for (const auto* each : {&own, &megatron, &nano, &known}) {
        CHECK((*each)["tokens"] == size);
        CHECK((*each)["type"] == "uint16");
        CHECK((*each)["largest_id"] == 257);
        CHECK((*each)["unigram_entropy"] == own["unigram_entropy"]);
        if (each != &nano)
            CHECK((*each)["documents"] == 12);
    }
    CHECK(report({"nano.bin", "--eos", "257"})["documents"] == 12);
    for (const char* key : {"vocab", "eos", "tokenizer", "head"})
        CHECK(known[key] == own[key]);
    std::filesystem::create_directory(run.folder / "several");
    write_text(run.folder / "several/0.bin", u16.substr(0, 1000));
    write_text(run.folder / "several/1.bin", u16.substr(1000));
    const auto several = report({"several", "--tokenizer", "bytes"});
    for (const char* key : {"documents", "tokens", "unigram_entropy", "largest_id", "head"})
        CHECK(several[key] == own[key]);
    CHECK(several["files"].size() == 2);
    CHECK(several["files"][1]["file"] == "several/1.bin");
    CHECK(several["files"][1]["tokens"] == size - 500);
    CHECK(has(run.program({"data", "show", "several/*"}).out, "several/0.bin: 500 tokens, 1000 B\n"));
    const Outcome text = run.program({"data", "show", "nano.bin", "--head", "3"});
    CHECK(has(text.out, "nanoGPT .bin with uint16 by its content"));
    CHECK(has(text.out, "unknown"));
    CHECK(has(text.out, str("first 3 tokens:\n", run.ids[0], " ", run.ids[1], " ", run.ids[2], "\n")));

    const Outcome good = run.program({"data", "verify", "train.h5", "m", "nano.bin", "several"});
    INFO(good.out << good.err);
    CHECK(good.status == 0);
    CHECK(has(good.out, "train.h5: good"));
    CHECK(has(good.out, "m: good"));
    CHECK(has(good.out, "12 documents, largest id 257"));
    CHECK(has(good.out, "several/0.bin: good, "));
    CHECK(has(good.out, "several: good, 2 files, "));
    write_text(run.folder / "several/1.bin", u16.substr(1001));
    const Outcome one_bad = run.program({"data", "verify", "several/*.bin"});
    INFO(one_bad.out);
    CHECK(one_bad.status == 1);
    CHECK(has(one_bad.out, "several/0.bin: good, "));
    CHECK(has(one_bad.out, "several/1.bin: bad\n"));
    CHECK(has(one_bad.out, "several/*.bin: bad\n  several/*.bin: has 1 bad file"));
    write_text(run.folder / "m.bin", u16.substr(2));
    std::string own_bytes = read_text(run.folder / "train.h5");
    own_bytes[own_bytes.size() - 9] ^= 1;
    write_text(run.folder / "train.h5", own_bytes);
    const Outcome bad = run.program({"data", "verify", "train.h5", "m", "nano.bin", "--vocab", "257"});
    INFO(bad.out << bad.err);
    CHECK(bad.status == 1);
    CHECK(has(bad.out, "train.h5: bad"));
    CHECK(has(bad.out, "m: bad\n"));
    CHECK(has(bad.out, "does not have the tokens of its index"));
    CHECK(has(bad.out, "nano.bin: bad\n"));
    CHECK(has(bad.out, "is 257, outside the vocabulary of 257"));
    CHECK(run.program({"data", "show", "m"}).status == 2);
}

TEST_CASE("ranks with different files of a store do not start")
{
    const ForeignRun run;
    for (const char* dir : {"a", "b"}) {
        std::filesystem::create_directory(run.folder / dir);
        write_text(run.folder / (std::string(dir) + "/t.bin"), packed<std::uint16_t>(run.ids));
        std::filesystem::copy(run.folder / "run.toml", run.folder / (std::string(dir) + "/run.toml"));
    }
    write_text(run.folder / "b/t2.bin", packed<std::uint16_t>(run.ids));
    const auto part = [&](const std::string& dir) {
        Launch launch{1,
                      {"train", "run.toml", "parallel.data=2", "data.train=t*.bin",
                       "checkpoint.dir=" + run.folder / "ck", "log.dir=" + run.folder / "log"}};
        launch.folder = run.folder / dir;
        return launch;
    };
    const Outcome outcome = run_ranks({part("a"), part("b")}, run.folder.path());
    INFO(outcome.err);
    CHECK(outcome.status == 2);
    CHECK(has(outcome.err, "t*.bin: is not the same on rank 1 as on rank 0"));
    CHECK(has(outcome.err, "2 files, "));
}
