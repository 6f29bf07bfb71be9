#include "base/check.hpp"
#include "base/log.hpp"
#include "catch.hpp"
#include "io/corpus.hpp"
#include "io/temporary_folder.hpp"
#include "io/token_store.hpp"
#include "train/data_command.hpp"

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

using namespace trivium;

namespace {

/// What `trivium data ARGUMENTS…` prints; its exceptions pass.
std::string data(std::vector<std::string> arguments)
{
    CommandLine line("trivium", "", "");
    Command program = line.root();
    add_data_command(program);
    arguments.insert(arguments.begin(), {"trivium", "data"});
    std::vector<char*> argv;
    for (std::string& argument : arguments)
        argv.push_back(argument.data());
    std::ostringstream output;
    std::streambuf* const before = std::cout.rdbuf(output.rdbuf());
    set_log_level(LogLevel::quiet);
    try {
        line.run(static_cast<int>(argv.size()), argv.data());
    } catch (...) {
        std::cout.rdbuf(before);
        set_log_level(LogLevel::info);
        throw;
    }
    std::cout.rdbuf(before);
    set_log_level(LogLevel::info);
    return output.str();
}

std::string complaint(const std::vector<std::string>& arguments)
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
    const std::string text = sample_text(20000), model = folder / "t.model", train = folder / "out/train.h5", valid = folder / "out/valid.h5";
    put(folder / "in/a.txt", text);
    put(folder / "in/b.jsonl", "{\"text\":\"one\"}\n{\"text\":\"two\"}\n");
    CHECK(has(data({"tokenizer", folder / "in", "--vocab", "350", "--output", model}), "350 words"));
    CHECK(has(data({"tokenize", folder / "in", "--tokenizer", model, "--output", train}), "3 documents"));
    CHECK((all_text(train) == text + "onetwo"));

    const std::string summary = data({"tokenize", folder / "in", "--tokenizer", model, "--output", train, "--valid", valid, "--valid-fraction", "0.1"});
    CHECK(has(summary, train + ": "));
    CHECK(has(summary, valid + ": "));
    const double share = double(all_text(valid).size()) / double(text.size());
    CHECK(std::abs(share - 0.1) < 0.02);
    CHECK(all_text(valid).size() + all_text(train).size() == text.size() + 6);
    const std::string first = get(train), again = (data({"tokenize", folder / "in", "--tokenizer", model, "--output", train, "--valid", valid,
                                                         "--valid-fraction", "0.1"}), get(train));
    CHECK((first == again)); // the same input gives the same file, byte for byte

    const auto report = nlohmann::json::parse(data({"show", train, "--json"}));
    const TokenStore store = TokenStore::open(train);
    CHECK(report["tokens"] == store.size());
    CHECK(report["vocab"] == 350);
    std::map<i32, double> counts;
    for (i64 i = 0; i < store.size(); ++i)
        counts[store.token(i)] += 1;
    double entropy = 0; // log n - sum c log c / n, another form of the same
    for (const auto& [id, count] : counts)
        entropy += count * std::log(count);
    entropy = std::log(double(store.size())) - entropy / double(store.size());
    CHECK(report["unigram_entropy"].get<double>() == Approx(entropy));
    CHECK(report["used_words"] == counts.size());
    const std::string shown = data({"show", train, "--head", "5"});
    CHECK(has(shown, "sentencepiece, 350 words"));
    CHECK(has(shown, "nats per token"));
    CHECK(has(shown, "first 5 tokens:"));
}

TEST_CASE("what the data command cannot do, it says")
{
    const TemporaryFolder folder;
    put(folder / "a.txt", "some text");
    put(folder / "zero.txt", "");
    const std::string a = folder / "a.txt", out = folder / "o.h5";
    CHECK(says(complaint({"tokenize", folder / "none.txt", "--tokenizer", "bytes", "-o", out}), "none.txt"));
    CHECK(says(complaint({"tokenize", folder / "zero.txt", "--tokenizer", "bytes", "-o", out}), "corpus is empty"));
    CHECK(says(complaint({"tokenize", a, "--tokenizer", folder / "none.model", "-o", out}), "none.model"));
    CHECK(says(complaint({"tokenize", a, "--tokenizer", "bytes", "-o", a}), "read and written"));
    CHECK(says(complaint({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid", out}), "read and written"));
    CHECK(says(complaint({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid", folder / "v.h5"}), "no text is left for validation"));
    CHECK(says(complaint({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid", folder / "v.h5", "--valid-fraction", "1.5"}),
               "--valid-fraction", "0.05"));
    CHECK(says(complaint({"show", a}), "is no Trivium token store"));
    CHECK(says(complaint({"tokenizer", a, "--vocab", "4000", "-o", folder / "m"}), "too small for so many words"));
    CHECK(get(a) == "some text");
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2); // no leftovers, no outputs
    CHECK_THROWS_AS(data({"tokenize", a, "--tokenizer", "bytes"}), UserError);
    CHECK_THROWS_AS(data({"tokenize", a, "--tokenizer", "bytes", "-o", out, "--valid-fraction", "0.5"}), UserError);
    CHECK_THROWS_AS(data({"sow", a}), UserError);
    CHECK_THROWS_AS(data({}), UserError);
}
