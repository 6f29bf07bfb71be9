#include "base/check.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/data_command.hpp"
#include "io/temporary_folder.hpp"
#include "io/tokens/token_store.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

using namespace trivium;

namespace {

std::string diagnostic(const std::vector<std::string>& arguments)
{
    return message_of<UserError>([&] { data(arguments); });
}

std::string all_text(const std::string& path)
{
    const TokenStore store = TokenStore::open(path);
    std::vector<i32> ids(std::size_t(store.size()));
    store.read(0, store.size(), ids.data());
    return store.tokenizer()->decode(ids);
}

} // namespace

TEST_CASE("tokenizer, tokenize and show work together")
{
    const TemporaryFolder folder;
    const std::string text = sample_text(20000), model = folder / "t.model", train = folder / "train.h5",
                      valid = folder / "valid.h5";
    put(folder / "in/a.txt", text);
    put(folder / "in/b.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
    CHECK(has(data({"tokenizer", folder / "in", "--vocab", "350", "--output", model}), "350 tokens"));
    CHECK(has(data({"tokenize", folder / "in", "--tokenizer", model, "--output", train}), "3 documents"));
    CHECK((all_text(train) == text + "onetwo"));

    const std::string summary = data({"tokenize", folder / "in", "--tokenizer", model, "--output", train,
                                      "--valid", valid, "--valid-fraction", "0.1", "--force"});
    CHECK(has(summary, train + ": "));
    CHECK(has(summary, valid + ": "));
    CHECK(TokenStore::open(valid).documents() == 2); // whole documents; the long one does not fit
    CHECK(all_text(valid) == "onetwo");
    CHECK((all_text(train) == text));
    const std::string first = get(train),
                      again = (data({"tokenize", folder / "in", "--tokenizer", model, "--output", train,
                                     "--valid", valid, "--valid-fraction", "0.1", "--force"}),
                               get(train));
    CHECK((first == again)); // the same input gives the same file, byte for byte

    const auto report = nlohmann::json::parse(data({"show", train, "--json"}));
    const TokenStore store = TokenStore::open(train);
    CHECK(report["tokens"] == store.size());
    CHECK(report["vocab"] == 350);
    std::map<i32, double> counts;
    for (i64 i = 0; i < store.size(); ++i)
        counts[store.token(i)] += 1;
    double entropy = 0; // log n - sum c log c / n, an equivalent form
    for (const auto& [id, count] : counts)
        entropy += count * std::log(count);
    entropy = std::log(double(store.size())) - entropy / double(store.size());
    CHECK(report["unigram_entropy"].get<double>() == Approx(entropy));
    CHECK(report["used_tokens"] == counts.size());
    const std::string shown = data({"show", train, "--head", "5"});
    CHECK(has(shown, "sentencepiece, 350 tokens"));
    CHECK(has(shown, "nats per token"));
    CHECK(has(shown, "first 5 tokens:"));
}

TEST_CASE("part of a single document is held out; otherwise whole documents")
{
    const TemporaryFolder folder;
    const std::string text = sample_text(20000), train = folder / "train.h5", valid = folder / "valid.h5";
    put(folder / "one/a.txt", text);
    data({"tokenize", folder / "one", "--tokenizer", "bytes", "--output", train, "--valid", valid,
          "--valid-fraction", "0.1"});
    CHECK(std::abs(double(all_text(valid).size()) / double(text.size()) - 0.1) < 0.02);
    CHECK(all_text(valid).size() + all_text(train).size() == text.size());
    std::map<std::string, int> documents;
    for (int i = 0; i < 50; ++i) {
        const std::string each = sample_text(500 + i, unsigned(i));
        put(folder / "many/" + std::to_string(i) + ".py", each);
        ++documents[each];
    }
    const std::string output = data({"tokenize", folder / "many", "--tokenizer", "bytes", "--output", train,
                                     "--valid", valid, "--valid-fraction", "0.1", "--force"});
    CHECK(has(output, "read: 50 .py"));
    for (const std::string& path : {train, valid}) {
        const TokenStore store = TokenStore::open(path);
        for (i64 d = 0; d < store.documents(); ++d) {
            std::vector<i32> ids(std::size_t(store.document_begin(d + 1) - store.document_begin(d) - 1));
            store.read(store.document_begin(d), i64(ids.size()), ids.data());
            --documents[store.tokenizer()->decode(ids)];
        }
    }
    CHECK(documents.size() == 50);
    CHECK(std::all_of(documents.begin(), documents.end(),
                      [](const auto& each) { return each.second == 0; })); // each is whole, in one store
    CHECK(std::abs(TokenStore::open(valid).documents() - 5) <= 1);
}

TEST_CASE("tokenize --append and join add to stores")
{
    const TemporaryFolder folder;
    put(folder / "a.txt", sample_text(500, 1));
    put(folder / "b.txt", sample_text(300, 2));
    const std::string a = folder / "a.h5", b = folder / "b.h5", both = folder / "both.h5",
                      joined = folder / "joined.h5";
    const auto tokenize = [&](std::vector<std::string> arguments, const std::string& output) {
        arguments.insert(arguments.begin(), "tokenize");
        arguments.insert(arguments.end(), {"--tokenizer", "bytes", "-o", output});
        return data(arguments);
    };
    tokenize({folder / "a.txt", folder / "b.txt", "--threads", "3"}, both);
    tokenize({folder / "a.txt"}, a);
    tokenize({folder / "b.txt", "--threads", "1"}, b);
    CHECK(has(data({"join", a, b, "-o", joined}), "2 documents"));
    CHECK((get(joined) == get(both)));
    CHECK(has(tokenize({folder / "b.txt", "--append"}, a), "2 documents"));
    CHECK((get(a) == get(both)));
    CHECK(says(diagnostic({"join", a, b, "-o", joined}), joined, "exists already", "--force"));
    CHECK(says(diagnostic({"join", a, b, "-o", a, "--force"}), a, "both input and output"));
    CHECK(says(
        diagnostic({"tokenize", folder / "b.txt", "--tokenizer", "bytes", "-o", a, "--append", "--force"}),
        "--append"));
    data({"tokenizer", folder / "a.txt", "--vocab", "300", "-o", folder / "t.model"});
    data({"tokenize", folder / "b.txt", "--tokenizer", folder / "t.model", "-o", b, "--force"});
    CHECK(says(diagnostic({"join", a, b, "-o", joined, "--force"}), b, "was made by another tokenizer"));
    CHECK((get(joined) == get(both)));
}

TEST_CASE("a folder: the report lists what was read, what was left out, and why")
{
    const TemporaryFolder folder;
    for (int i = 0; i < 120; ++i)
        put(folder / "in/src/" + std::to_string(i) + ".py", "print(" + std::to_string(i) + ")\n");
    put(folder / "in/README", "about");
    put(folder / "in/data.json", "{\"body\": \"one\"}\n{\"body\": \"two\"}\n");
    put(folder / "in/old.bz2", "BZh91AYrest");
    put(folder / "in/.git/config", "hidden");
    const std::string out = folder / "in/o.h5";
    const std::vector<std::string> all{"tokenize", folder / "in", "--tokenizer", "bytes",
                                       "-o",       out,           "--force"};
    for (int again = 0; again < 2; ++again) { // the second time the output is in the folder
        const std::string output = data(all);
        INFO(output);
        CHECK(has(output, "120 .py"));
        CHECK(has(output, "1 file without a suffix"));
        CHECK(has(output, "121 documents"));
        CHECK(has(output, "left out: 1 compressed file, " + folder / "in/old.bz2; decompress"));
        CHECK(has(output, "left out: 1 file of JSON records without text in the field \"text\", " +
                              folder / "in/data.json; name the field with --key"));
        CHECK(has(output, "left out: 1 hidden file or folder"));
        CHECK(has(output, "that this command itself uses") == (again == 1));
    }
    auto with = [&](std::vector<std::string> more) {
        more.insert(more.begin(), all.begin(), all.end());
        return more;
    };
    CHECK(has(data(with({"--key", "body"})), "1 .json (2 documents)"));
    CHECK(has(data(with({"--include", "*.py"})), "read: 120 .py\n"));
    CHECK(has(data(with({"--include", "*.py,README", "--exclude", "src/1*"})),
              "read: 89 .py, 1 file without a suffix\n"));
    CHECK(says(diagnostic(with({"--include", "*.txt"})), "no text was found",
               "excluded by --include or --exclude"));
    CHECK(
        says(diagnostic({"tokenize", folder / "in/data.json", "--tokenizer", "bytes", "-o", out, "--force"}),
             "data.json:1", "not a chat of a known form", "\"body\"", "--key"));
    CHECK(says(diagnostic({"tokenize", folder / "in/README", "--tokenizer", "bytes", "-o", out, "--force",
                           "--key", "body"}),
               "--key body", "applies to nothing", "README"));
}

TEST_CASE("bad records are named; --skip-bad counts them")
{
    const TemporaryFolder folder;
    put(folder / "a.jsonl",
        "{\"text\": \"one\"}\nnot JSON\n{\"body\": 1}\n{\"text\": \"\xff\"}\n\n{\"text\": \"two\"}\n");
    put(folder / "b.json",
        "[{\"text\": \"three\"}, {\"text\": 4}, {\"text\": \"five\"} {\"text\": \"six\"}]");
    put(folder / "c.txt", "\xff");
    const std::string out = folder / "o.h5";
    const auto with = [&](const std::vector<std::string>& names, bool skips) {
        std::vector<std::string> all{"tokenize", "--tokenizer", "bytes", "-o", out, "--force"};
        for (const std::string& name : names)
            all.push_back(folder / name);
        if (skips)
            all.emplace_back("--skip-bad");
        return all;
    };
    CHECK(says(diagnostic(with({"a.jsonl"}, false)), "a.jsonl:2"));
    const std::string output = data(with({"a.jsonl", "b.json", "c.txt"}, true));
    INFO(output);
    CHECK(has(output, "o.h5: 4 documents, 19 tokens")); // with the token that ends each
    CHECK(has(output, "left out: 5 bad records, such as " + folder / "a.jsonl:2"));
    CHECK(has(output, "left out: 1 file that is not UTF-8, " + folder / "c.txt"));
    CHECK(says(diagnostic(with({"c.txt"}, true)), "no text was found"));
    // What the tokenizer has no token for.
    nlohmann::json file = nlohmann::json::parse(get(TRIVIUM_TEST_DATA "/io/data/byte_bpe/gpt2.json"));
    file["model"]["vocab"].erase("\u00f1");
    put(folder / "t.json", file.dump());
    put(folder / "d.jsonl", "{\"text\": \"one\"}\n{\"text\": \"\U00040000\"}\n");
    std::vector<std::string> all = with({"d.jsonl"}, false);
    all[2] = folder / "t.json";
    CHECK(says(diagnostic(all), "d.jsonl:2", "the byte 241", "--skip-bad"));
    all.emplace_back("--skip-bad");
    CHECK(has(data(all), "1 bad record, " + folder / "d.jsonl:2"));
}

TEST_CASE("an existing token store, or another kind of file, is replaced only with --force")
{
    const TemporaryFolder folder;
    put(folder / "a.txt", sample_text(2000));
    put(folder / "run.toml", "[model]\n");
    const std::string store = folder / "o.h5", config = folder / "run.toml";
    std::vector<std::string> words{"tokenize", folder / "a.txt", "--tokenizer", "bytes", "-o", store};
    data(words);
    const std::string before = get(store);
    CHECK(says(diagnostic(words), "o.h5", "exists already", "--force"));
    CHECK(says(diagnostic({"tokenize", folder / "a.txt", "--tokenizer", "bytes", "-o", folder / "new.h5",
                           "--valid", store, "--valid-fraction", "0.5"}),
               "o.h5", "exists already"));
    CHECK((get(store) == before && !std::filesystem::exists(folder / "new.h5")));
    words.emplace_back("--force");
    data(words);
    CHECK((get(store) == before));
    std::vector<std::string> model{"tokenizer", folder / "a.txt", "--vocab", "300", "-o", config};
    CHECK(says(diagnostic(model), "run.toml", "another kind", "--force"));
    CHECK(get(config) == "[model]\n");
    model.back() = folder / "t.model";
    data(model);
    data(model); // of the same kind
}

TEST_CASE("errors of the data command")
{
    const TemporaryFolder folder;
    put(folder / "a.txt", "some text");
    put(folder / "zero.txt", "");
    const std::string a = folder / "a.txt", out = folder / "o.h5";
    CHECK(says(diagnostic({"tokenize", folder / "none.txt", "--tokenizer", "bytes", "-o", out}), "none.txt"));
    CHECK(says(diagnostic({"tokenize", folder / "zero.txt", "--tokenizer", "bytes", "-o", out}),
               "no text was found", "1 empty file"));
    CHECK(says(diagnostic({"tokenize", a, "--tokenizer", folder / "none.model", "-o", out}), "none.model"));
    CHECK(says(diagnostic({"tokenize", a, "--tokenizer", "bytes", "-o", a}), "both input and output"));
    CHECK(says(diagnostic({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid", out}),
               "both input and output"));
    CHECK(says(diagnostic({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid", folder / "v.h5"}),
               "no text is left for validation"));
    CHECK(says(diagnostic({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid", folder / "v.h5",
                           "--valid-fraction", "1.5"}),
               "--valid-fraction", "0.05"));
    CHECK(says(diagnostic({"show", a}), "is not a Trivium token store"));
    CHECK(says(diagnostic({"tokenizer", a, "--vocab", "4000", "-o", folder / "m"}),
               "too small for a tokenizer"));
    CHECK(get(a) == "some text");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) ==
          2); // no leftovers, no outputs
    CHECK_THROWS_AS(data({"tokenize", a, "--tokenizer", "bytes"}), UserError);
    CHECK_THROWS_AS(data({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid-fraction", "0.5"}),
                    UserError);
    CHECK_THROWS_AS(data({"sow", a}), UserError);
    CHECK_THROWS_AS(data({}), UserError);
}
