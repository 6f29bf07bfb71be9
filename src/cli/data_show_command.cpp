// `trivium data show | verify`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "cli/commands.hpp"
#include "cli/data/array_report.hpp"
#include "cli/data/printable.hpp"
#include "cli/data/sample_report.hpp"
#include "config/token_type.hpp"
#include "io/tokens/store_list.hpp"
#include "io/tokens/token_store.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

/// What files of other programs do not say.
struct StoreArguments {
    std::string type{name_of(TokenType::automatic)}, tokenizer;
    i64 vocab = 0, eos = -1;

    void add_to(Command& command)
    {
        command
            .option(
                "--type", type,
                "integers of a file that has neither header nor index (default: by the content)",
                {.words = {names_of_enum<TokenType>.begin(), names_of_enum<TokenType>.end()}, .type = "TYPE"})
            .option("--tokenizer", tokenizer, "tokenizer that made the ids of another program's file",
                    {.type = "T"})
            .option("--vocab", vocab, "vocabulary of a model that is to read that file",
                    {.from = 1, .to = 2e9})
            .option("--eos", eos, "id that ends a document in that file, if it has no index",
                    {.from = 0, .to = 2e9});
    }
    TokenStoreOptions options() const
    {
        TokenStoreOptions options{*value_named<TokenType>(type), vocab, eos};
        if (!tokenizer.empty())
            options.tokenizer = make_tokenizer(tokenizer);
        return options;
    }
};

struct TokenCounts {
    double entropy = 0; ///< of single tokens, nats
    i64 used_tokens = 0, largest = 0;
};

TokenCounts count_tokens(const TokenStore& store)
{
    std::vector<i64> counts;
    std::vector<i32> block(std::size_t{1} << 20);
    const auto block_size = static_cast<i64>(block.size());
    for (i64 begin = 0; begin < store.size(); begin += block_size) {
        const i64 count = std::min(block_size, store.size() - begin);
        store.read(begin, count, block.data());
        const auto end = block.begin() + count;
        if (const auto most = static_cast<std::size_t>(*std::max_element(block.begin(), end));
            most >= counts.size())
            counts.resize(most + 1);
        std::for_each(block.begin(), end, [&](i32 id) { ++counts[static_cast<std::size_t>(id)]; });
    }
    TokenCounts result;
    result.largest = static_cast<i64>(counts.size()) - 1;
    for (const i64 count : counts) {
        if (count == 0)
            continue;
        const double p = static_cast<double>(count) / static_cast<double>(store.size());
        result.entropy -= p * std::log(p);
        ++result.used_tokens;
    }
    return result;
}

/// "12 files, 1.50 GiB, llm.c .bin with uint16".
std::string describe_files(const TokenStore& store)
{
    const std::size_t files = store.files().size();
    return str(files > 1 ? str(files, " files, ") : "", format_bytes(store.file_bytes()), ", ",
               store.format(), " with ", name_of(store.type()),
               store.type_is_guessed() ? " by its content" : "");
}

// ---- data show

struct ShowArguments {
    StoreArguments store;
    std::string file;
    bool json = false;
    i64 head = 64;
    SampleChoice sample;
};

void print_json(const ShowArguments& a, const TokenStore& store, const TokenCounts& counts,
                double bytes_per_token, const std::string& head)
{
    nlohmann::ordered_json report{{"file", a.file},
                                  {"format", store.format()},
                                  {"type", name_of(store.type())},
                                  {"documents", nullptr},
                                  {"tokens", store.size()},
                                  {"trained_tokens", store.trained_tokens()},
                                  {"vocab", nullptr},
                                  {"used_tokens", counts.used_tokens},
                                  {"largest_id", counts.largest},
                                  {"tokenizer", nullptr},
                                  {"eos", nullptr},
                                  {"text_bytes", nullptr},
                                  {"bytes_per_token", nullptr},
                                  {"file_bytes", store.file_bytes()},
                                  {"unigram_entropy", counts.entropy},
                                  {"head", head}};
    const auto known = [&](const char* key, bool is_known, const auto& value) {
        if (is_known)
            report[key] = value;
    };
    known("documents", store.knows_documents(), store.knows_documents() ? store.documents() : 0);
    known("vocab", store.vocab() > 0, store.vocab());
    known("tokenizer", !store.fingerprint().empty(), store.fingerprint());
    known("eos", store.eos() >= 0, store.eos());
    known("text_bytes", store.text_bytes() > 0, store.text_bytes());
    known("bytes_per_token", store.text_bytes() > 0, bytes_per_token);
    if (names_several_files(a.file))
        for (const TokenStore::File& file : store.files())
            report["files"].push_back({{"file", file.path},
                                       {"tokens", file.tokens},
                                       {"trained_tokens", file.trained},
                                       {"file_bytes", file.bytes}});
    std::cout << report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
}

void run_show(const ShowArguments& a)
{
    if (names_arrays(a.file))
        return show_arrays(a.file, a.json);
    if (a.sample.number < 0 && !a.sample.config.empty())
        throw UserError(
            {"--config", "applies to nothing", "it makes the samples that --sample shows", "add --sample N"});
    TokenStore store = TokenStore::open(a.file, a.store.options());
    if (a.sample.number >= 0) {
        SampleChoice sample = a.sample;
        sample.json = a.json;
        return show_sample(std::move(store), sample);
    }
    store.verify();
    const TokenCounts counts = count_tokens(store);
    const std::unique_ptr<Tokenizer> tokenizer = store.fingerprint().empty() ? nullptr : store.tokenizer();
    const i64 head = std::min(a.head, store.knows_documents() ? store.document_begin(1) : store.size());
    std::vector<i32> first(static_cast<std::size_t>(head));
    store.read(0, head, first.data());
    std::string text;
    if (tokenizer)
        text = tokenizer->decode(first);
    else
        for (const i32 id : first)
            text += str(text.empty() ? "" : " ", id);
    const double bytes_per_token =
        static_cast<double>(store.text_bytes()) / static_cast<double>(store.size());
    if (a.json)
        return print_json(a, store, counts, bytes_per_token, text);
    std::cout << a.file << " (" << describe_files(store) << ", verified)\n";
    if (names_several_files(a.file))
        for (const TokenStore::File& file : store.files())
            std::cout << "  " << file.path << ": " << counted_in_groups(file.tokens, "token") << ", "
                      << (store.has_mask() ? format_count(file.trained) + " trained, " : "")
                      << format_bytes(file.bytes) << "\n";
    std::cout << "  documents        "
              << (store.knows_documents() ? format_count(store.documents())
                                          : "unknown: the format has no index (--eos ID finds them)")
              << "\n  tokens           " << format_count(store.size());
    if (store.has_mask())
        std::cout << "\n  trained          " << format_count(store.trained_tokens()) << " ("
                  << fixed(100 * static_cast<double>(store.trained_tokens()) /
                               static_cast<double>(store.size()),
                           1)
                  << " %)";
    std::cout << "\n  tokenizer        " << (tokenizer ? tokenizer->name() : "unknown") << "; "
              << format_count(counts.used_tokens)
              << (store.vocab() > 0 ? str(" of ", format_count(store.vocab()), " tokens of the vocabulary")
                                    : std::string(" different tokens"))
              << " occur\n  largest id       " << counts.largest << "\n";
    if (store.text_bytes() > 0)
        std::cout << "  bytes per token  " << fixed(bytes_per_token, 3) << "\n";
    std::cout << "  unigram entropy  " << fixed(counts.entropy, 4)
              << " nats per token (a model that learns gets below this)\n";
    if (head > 0)
        std::cout << "  first " << counted_in_groups(head, "token") << ":\n" << printable(text) << "\n";
}

// ---- data verify

/// Prints that `name` is good, with what `check` returns, or the error that it throws. Returns whether it is.
bool report_store(const std::string& name, const std::function<std::string()>& check)
{
    try {
        const std::string facts = check();
        std::cout << name << ": good, " << facts << "\n";
        return true;
    } catch (const InternalError&) {
        throw;
    } catch (const Error& error) { // damaged or unreadable
        std::cout << name << ": bad\n  " << error.what() << "\n";
        return false;
    }
}

/// Verifies a store, each of its files alone.
bool verify_store(const std::string& name, const TokenStoreOptions& options)
{
    i64 largest = 0; ///< id
    const auto facts = [&](const TokenStore& store) {
        return str(describe_files(store), ", ", counted_in_groups(store.size(), "token"),
                   store.knows_documents() ? ", " + counted_in_groups(store.documents(), "document") : "",
                   store.has_mask() ? str(", ", format_count(store.trained_tokens()), " trained") : "",
                   ", largest id ", largest);
    };
    bool arrays = false;
    const auto check_file = [&](const std::string& file) {
        if (arrays)
            return verify_arrays(file);
        const TokenStore store = TokenStore::open(file, options);
        store.verify();
        largest = count_tokens(store).largest;
        return facts(store);
    };
    return report_store(name, [&] {
        arrays = names_arrays(name);
        if (!names_several_files(name))
            return check_file(name);
        i64 bad = 0, largest_of_all = 0;
        for (const std::string& file : files_of_store(name)) {
            bad += report_store(file, [&] { return check_file(file); }) ? 0 : 1;
            largest_of_all = std::max(largest_of_all, largest);
        }
        if (bad > 0)
            throw UserError(
                {name, str("has ", counted(bad, "bad file")), "",
                 "see the lines above; mend them, or leave them out with a pattern such as *.bin"});
        if (arrays)
            return counted(files_of_store(name).size(), "file of arrays", "files of arrays");
        largest = largest_of_all;
        return facts(TokenStore::open(name, options));
    });
}

int run_verify(const StoreArguments& a, const std::vector<std::string>& names)
{
    const TokenStoreOptions options = a.options();
    bool good = true;
    for (const std::string& name : names)
        good &= verify_store(name, options);
    return good ? 0 : 1;
}

} // namespace

void add_data_show(Command& data)
{
    auto arguments = std::make_shared<ShowArguments>();
    Command command =
        data.add("show", "verify a token store and print its contents, or list a file of arrays");
    command
        .option("file", arguments->file,
                "token store of Trivium or of another program, or arrays: a file, a folder or a pattern",
                {.required = true})
        .flag("--json", arguments->json, "print JSON")
        .option("--head", arguments->head, "number of tokens of the first document to print as text",
                {.show_default = true, .from = 0, .to = 1e9})
        .option("--sample", arguments->sample.number,
                "print the text of document N, from 0, with its special tokens, and which tokens are trained",
                {.from = 0, .to = 9e15, .type = "N"})
        .option("--config", arguments->sample.config,
                "with --sample: print sample N of this run's model.seq and data.packing",
                {.type = "CONFIG.toml"});
    arguments->store.add_to(command);
    command.action([arguments] { return run_show(*arguments), 0; });
}

void add_data_verify(Command& data)
{
    auto arguments = std::make_shared<std::pair<StoreArguments, std::vector<std::string>>>();
    Command command =
        data.add("verify", "verify that token stores and arrays are whole (exit status 1 if one is not)");
    command.option("files", arguments->second,
                   "token stores of Trivium or of other programs, or arrays: files, folders or patterns",
                   {.required = true, .type = "FILE…"});
    arguments->first.add_to(command);
    command.action([arguments] { return run_verify(arguments->first, arguments->second); });
}

} // namespace trivium
