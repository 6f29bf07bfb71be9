// `trivium data tokenize` and `trivium data join`.
#include "base/check.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "cli/commands.hpp"
#include "cli/text_arguments.hpp"
#include "compile/threads.hpp"
#include "io/files/files.hpp"
#include "io/hugging_face/chat_files.hpp"
#include "io/tokens/text/join_stores.hpp"
#include "io/tokens/text/tokenize.hpp"
#include "mpi/session.hpp"
#include "train/node_resources.hpp"

#include <ctime>
#include <iostream>
#include <memory>

namespace trivium {

namespace {

void print_store(const StoreSummary& store)
{
    const double bytes_per_token =
        store.tokens == 0 ? 0 : static_cast<double>(store.text_bytes) / static_cast<double>(store.tokens);
    std::cout << store.path << ": " << counted_in_groups(store.documents, "document") << ", "
              << counted_in_groups(store.tokens, "token") << ", "
              << (store.trained_tokens == store.tokens
                      ? ""
                      : str(format_count(store.trained_tokens), " trained (",
                            fixed(100 * static_cast<double>(store.trained_tokens) /
                                      static_cast<double>(store.tokens),
                                  1),
                            " %), "))
              << fixed(bytes_per_token, 2) << " bytes per token, " << format_bytes(file_size(store.path))
              << "\n";
}

// ---- data tokenize

constexpr int most_threads = 4096;

struct TokenizeOptions {
    TokenizeJob job;
    std::string tokenizer, eod, chat_template, overlong{"drop"};
    i64 threads = 0;
    bool force = false;
};

/// Reports if whole documents could not match the requested fraction.
void note_hold_out(i64 documents, double share, double fraction)
{
    if (documents == 1)
        log_info("the corpus is a single document: blocks of it are held out, which end at line ends");
    else if (share > 2 * fraction || share < fraction / 2)
        log_warning(str("--valid holds out ", fixed(100 * share, 2), " % of the text, not ",
                        fixed(100 * fraction, 2), " %: whole documents are held out, of ",
                        format_count(documents),
                        "; use more and smaller documents, or tokenize a separate validation text"));
}

/// With the template that is named, or next to the tokenizer. If the latter cannot be used, only a chat that
/// needs it is an error.
ChatRule chat_rule(const TokenizeOptions& options, const Tokenizer& tokenizer)
{
    ChatRule rule = options.job.chats;
    rule.cuts = options.overlong == "cut";
    if (!options.chat_template.empty()) {
        rule.chat_template = load_chat_template(options.chat_template, tokenizer);
        return rule;
    }
    try {
        rule.chat_template = find_chat_template(options.tokenizer, tokenizer);
    } catch (const UserError& error) {
        rule.no_template = error.what();
    }
    return rule;
}

void run_tokenize(const TokenizeOptions& options, Comm& comm)
{
    TokenizeJob job = options.job;
    std::unique_ptr<Tokenizer> tokenizer;
    succeed_together(comm, [&] {
        std::vector<std::string> inputs = job.text.inputs;
        inputs.push_back(options.tokenizer);
        require_own_place(job.output, inputs);
        inputs.push_back(job.output);
        if (!job.valid.empty())
            require_own_place(job.valid, inputs);
        if (options.force && job.append)
            throw UserError({"--append", "contradicts --force", "the one keeps what the other replaces",
                             "leave one out"});
        for (const std::string& output : {job.output, job.valid})
            require_free(output, options.force || job.append);
        if (!job.valid.empty() && !(job.valid_fraction > 0 && job.valid_fraction < 1))
            throw UserError({"--valid-fraction", str("must be between 0 and 1, is ", job.valid_fraction), "",
                             "0.05 is usual"});
        tokenizer = make_tokenizer(options.tokenizer, options.eod);
        job.chats = chat_rule(options, *tokenizer);
        job.text.chats = true;
        job.text.own = {job.output, job.valid};
        if (!options.chat_template.empty())
            job.text.own.push_back(options.chat_template);
        if (options.tokenizer != "bytes")
            job.text.own.push_back(options.tokenizer);
    });
    job.tokenizer = tokenizer.get();
    job.chats.now = std::stoll(share_text(comm, std::to_string(std::time(nullptr)))); // the same on all ranks
    ParallelConfig parallel;
    parallel.threads = options.threads;
    const Grid grid(comm, {{{data_axis, comm.size()}}}, node_name());
    job.threads = thread_count(parallel, most_threads, ranks_on_same_cores(grid));
    job.on_survey = [&](i64 documents, double share) { note_hold_out(documents, share, job.valid_fraction); };
    TextProgress progress;
    job.on_progress = [&](Bytes done, Bytes total, i64 tokens) { progress.show(done, total, tokens); };
    const TokenizedText result = tokenize_text(job, comm);
    if (comm.rank() > 0)
        return;
    log_progress("");
    print_report(result.report);
    for (const std::string& line : describe_chats(result.report))
        std::cout << "chats: " << line << "\n";
    for (const StoreSummary& store : result.stores)
        print_store(store);
    const double rate = static_cast<double>(result.bytes) / 1e6 / progress.seconds();
    log_info(str("done in ", format_seconds(progress.seconds()), ", ", fixed(rate, 1), " MB/s, ",
                 comm.size() == 1 ? "" : str(comm.size(), " ranks with "),
                 counted_in_groups(job.threads, "thread")));
}

// ---- data join

struct JoinOptions {
    std::vector<std::string> inputs;
    std::string output, tokenizer, eod;
    bool force = false;
};

void run_join(const JoinOptions& options)
{
    require_free(options.output, options.force);
    TokenStoreOptions open;
    if (!options.tokenizer.empty())
        open.tokenizer = make_tokenizer(options.tokenizer, options.eod);
    std::vector<TokenStore> stores;
    std::vector<std::string> files;
    for (const std::string& input : options.inputs) {
        stores.push_back(TokenStore::open(input, open));
        for (const TokenStore::File& file : stores.back().files())
            files.push_back(file.path);
    }
    require_own_place(options.output, files);
    const std::unique_ptr<Tokenizer> tokenizer = stores.front().tokenizer();
    TokenStoreWriter writer(options.output, *tokenizer);
    for (const TokenStore& store : stores)
        append_store(writer, store, *tokenizer);
    writer.finish();
    print_store(
        {options.output, writer.documents(), writer.tokens(), writer.trained_tokens(), writer.text_bytes()});
}

} // namespace

void add_data_tokenize(Command& data)
{
    auto options = std::make_shared<TokenizeOptions>();
    Command command = data.add("tokenize", "write text and chats as a token store (HDF5)");
    add_selection(command, options->job.text);
    command
        .option("--tokenizer", options->tokenizer,
                "\"bytes\", a SentencePiece model file, or a tokenizer.json (BPE or Unigram)",
                {.required = true, .type = "T"})
        .option("--eod", options->eod,
                "special token of a tokenizer.json that ends each document (default: what the file or its "
                "tokenizer_config.json says)",
                {.type = "TOKEN"})
        .option("-o,--output", options->job.output, "token store to write",
                {.required = true, .type = "FILE.h5"})
        .option("--valid", options->job.valid,
                "hold text out into this second store: whole documents, or blocks of a single document",
                {.type = "FILE.h5"})
        .option("--valid-fraction", options->job.valid_fraction,
                "fraction of the text that is held out, evenly spread",
                {.show_default = true, .needs = "--valid"});
    command
        .option("--chat-template", options->chat_template,
                "template that renders chats: a .jinja file, a tokenizer_config.json or a model's folder "
                "(default: the one next to the tokenizer)",
                {.type = "FILE"})
        .option("--max-length", options->job.chats.max_length,
                "tokens of the longest conversation that is kept (default: any; model.seq + 1 fits a sample)",
                {.from = 2, .to = 1e9})
        .option("--overlong", options->overlong,
                "what to do with longer ones: leave them out, or cut their end off",
                {.show_default = true, .words = {"drop", "cut"}, .needs = "--max-length"});
    command.option("--threads", options->threads, "threads of each rank (default: the cores that it may use)",
                   {.from = 1, .to = most_threads});
    command
        .flag("--append", options->job.append, "add to existing token stores, which the same tokenizer made")
        .flag("--force", options->force, "replace existing token stores");
    command.action([options] {
        return run_session([&](Session& session) {
            run_tokenize(*options, session.world());
            return session.end_together(0);
        });
    });
}

void add_data_join(Command& data)
{
    auto options = std::make_shared<JoinOptions>();
    Command command = data.add("join", "write the documents of several token stores as one, in order");
    command
        .option("inputs", options->inputs, "token stores of one tokenizer",
                {.required = true, .type = "STORE…"})
        .option("-o,--output", options->output, "token store to write", {.required = true, .type = "FILE.h5"})
        .option("--tokenizer", options->tokenizer, "the tokenizer of stores that do not contain it",
                {.type = "T"})
        .option("--eod", options->eod, "special token of a tokenizer.json that ends each document",
                {.type = "TOKEN", .needs = "--tokenizer"});
    command.flag("--force", options->force, "replace an existing token store");
    command.action([options] { return on_first_rank([&] { return run_join(*options), 0; }); });
}

} // namespace trivium
