#include "cli/commands.hpp"

#include "base/check.hpp"
#include "base/clock.hpp"
#include "base/counted.hpp"
#include "base/log.hpp"
#include "io/files/files.hpp"
#include "io/tokens/hold_out.hpp"
#include "io/tokens/text_source.hpp"
#include "io/tokens/token_store.hpp"
#include "io/tokens/tokenizer.hpp"

#include <algorithm>
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <memory>
#include <optional>

namespace trivium {

namespace {

namespace fs = std::filesystem;

double megabytes(Bytes bytes) { return static_cast<double>(bytes) / 1e6; }

/// Bytes per token; 0 if there are no tokens.
double ratio(i64 a, i64 b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }

/// Prints the progress of a command a few times per second.
class Progress {
public:
    void show(Bytes done, Bytes total, i64 tokens)
    {
        const Seconds time = now();
        if (time - last_ < 0.2)
            return;
        last_ = time;
        log_progress(str(fixed(megabytes(done), 1), " of ", fixed(megabytes(total), 1), " MB, ",
                         fixed(megabytes(done) / seconds(), 1), " MB/s, ",
                         format_si(static_cast<double>(tokens)), " tokens"));
    }
    Seconds seconds() const { return std::max(1e-9, now() - begin_); }

private:
    Seconds begin_ = now(), last_ = 0;
};

const char* const force_remedy = "name another file, or add --force to replace this one";

/// Throws if an output is also an input, or its folder is missing.
void require_own_place(const std::string& output, const std::vector<std::string>& others)
{
    require_parent(output);
    std::error_code ignored;
    for (const std::string& other : others)
        if (output == other || fs::equivalent(output, other, ignored))
            throw UserError({output, "is both input and output", "", "choose another --output"});
}

// ---- data tokenizer

/// Options of both commands that read text.
void add_selection(Command& command, TextSelection& text)
{
    command
        .option("input", text.inputs, "text files, files of JSON records (.jsonl, .ndjson, .json), folders",
                {.required = true, .type = "INPUT…"})
        .option("--key", text.key, "field of a JSON record that contains the text (default: text)")
        .option("--include", text.include,
                "in folders, read only files that match a pattern: '*.md,*.txt', 'notes/*'",
                {.list = true, .type = "PATTERN,…"})
        .option("--exclude", text.exclude, "in folders, leave out files that match a pattern",
                {.list = true, .type = "PATTERN,…"});
    command.flag(
        "--skip-bad", text.skip_bad,
        "skip and count records without valid JSON, UTF-8 or text, and named files that are not text");
    command.footer(
        "A file of UTF-8 text is one document. In a file of JSON records (one object per line, or a list of "
        "objects), each record is one.\n"
        "Folders are read with their sub-folders, in order of path. Left out, and counted in the summary: "
        "hidden files and\n"
        "folders (.NAME), links to folders, and files that are compressed, binary, not UTF-8 or empty. If "
        "you name a file\n"
        "that is not text, that is an error. A pattern with a '/' matches the path below the folder.");
}

void print_report(const CorpusReport& report)
{
    std::cout << "read: " << describe_read(report) << "\n";
    for (const std::string& line : describe_skipped(report))
        std::cout << "left out: " << line << "\n";
}

struct TokenizerOptions {
    TokenizerTraining training;
    std::string output;
    i64 sample_mb = 64;
    bool force = false;
};

void run_tokenizer(const TokenizerOptions& options)
{
    require_own_place(options.output, options.training.text.inputs);
    TokenizerTraining training = options.training;
    CorpusReport report;
    training.report = &report;
    training.text.own = {options.output};
    training.sample = options.sample_mb * 1'000'000;
    log_progress("training the tokenizer …");
    const Progress progress;
    const std::string model = train_tokenizer(training);
    log_progress("");
    if (!options.force)
        spare_other_kinds(options.output, model, force_remedy);
    write_file(options.output, model);
    print_report(report);
    const std::unique_ptr<Tokenizer> tokenizer = tokenizer_from_model(model, options.output);
    std::cout << options.output << ": " << tokenizer->name() << ", "
              << format_bytes(static_cast<Bytes>(model.size())) << ", " << format_seconds(progress.seconds())
              << "\n";
}

// ---- data tokenize

struct TokenizeOptions {
    TextSelection text;
    std::string tokenizer, eod, output, valid;
    double valid_fraction = 0.05;
    bool force = false;
};

void print_summary(const std::string& path, const TokenStoreWriter& store)
{
    std::cout << path << ": " << counted_in_groups(store.documents(), "document") << ", "
              << counted_in_groups(store.tokens(), "token") << ", "
              << fixed(ratio(store.text_bytes(), store.tokens()), 2) << " bytes per token, "
              << format_bytes(file_size(path)) << "\n";
}

/// Chooses the held-out documents in one pass over the corpus.
HoldOut survey(TextSource& source, double fraction)
{
    HoldOut hold_out(fraction);
    if (fraction <= 0)
        return hold_out;
    Progress progress;
    for (Document document; source.next(document);) {
        hold_out.survey(static_cast<Bytes>(document.text.size()));
        progress.show(source.bytes_done(), source.bytes_total(), 0);
    }
    source.rewind();
    return hold_out;
}

/// Reports if whole documents could not match the requested fraction.
void note_hold_out(HoldOut& hold_out, double fraction)
{
    if (hold_out.documents() == 1)
        log_info("the corpus is a single document: blocks of it are held out, which end at line ends");
    else if (hold_out.share() > 2 * fraction || hold_out.share() < fraction / 2)
        log_warning(str("--valid holds out ", fixed(100 * hold_out.share(), 2), " % of the text, not ",
                        fixed(100 * fraction, 2), " %: whole documents are held out, of ",
                        format_count(hold_out.documents()),
                        "; use more and smaller documents, or tokenize a separate validation text"));
}

void run_tokenize(const TokenizeOptions& options)
{
    std::vector<std::string> inputs = options.text.inputs;
    inputs.push_back(options.tokenizer);
    require_own_place(options.output, inputs);
    inputs.push_back(options.output);
    if (!options.valid.empty())
        require_own_place(options.valid, inputs);
    for (const std::string& output : {options.output, options.valid})
        if (std::error_code ignored;
            !options.force && fs::is_regular_file(output, ignored) && fs::file_size(output, ignored) > 0)
            throw UserError({output, "exists already", "a run may need this token store", force_remedy});
    const bool holds_out = !options.valid.empty();
    if (holds_out && !(options.valid_fraction > 0 && options.valid_fraction < 1))
        throw UserError({"--valid-fraction", str("must be between 0 and 1, is ", options.valid_fraction), "",
                         "0.05 is usual"});

    const std::unique_ptr<Tokenizer> tokenizer = make_tokenizer(options.tokenizer, options.eod);
    TextSelection text = options.text;
    text.own = {options.output, options.valid};
    if (options.tokenizer != "bytes")
        text.own.push_back(options.tokenizer);
    TextSource source(text);
    HoldOut hold_out = survey(source, holds_out ? options.valid_fraction : 0);
    if (holds_out)
        note_hold_out(hold_out, options.valid_fraction);
    TokenStoreWriter train(options.output, *tokenizer);
    std::optional<TokenStoreWriter> valid;
    if (holds_out)
        valid.emplace(options.valid, *tokenizer);
    Progress progress;
    for (Document document; source.next(document);)
        hold_out.split(document.text, [&](bool to_valid, std::string_view part) {
            std::vector<i32> ids;
            try {
                ids = tokenizer->encode(part);
            } catch (const UserError& error) {
                if (!options.text.skip_bad)
                    throw UserError(
                        {document.place, "cannot be tokenized",
                         std::string(error.what()).substr(0, std::string(error.what()).find('\n')),
                         "leave it out, or skip and count such documents with --skip-bad"});
                return source.skip_bad(document.place);
            }
            (to_valid ? *valid : train).add(ids, static_cast<Bytes>(part.size()));
            progress.show(source.bytes_done(), source.bytes_total(),
                          train.tokens() + (valid ? valid->tokens() : 0));
        });
    log_progress("");
    if (valid && valid->documents() == 0)
        throw UserError(
            {options.valid, "no text is left for validation",
             str("the corpus is one document of ", counted_in_groups(source.bytes_total(), "byte"),
                 "; a fraction of ", options.valid_fraction, " of it is less than a block"),
             "use a larger --valid-fraction, or more text"});
    if (train.documents() == 0)
        throw UserError({options.output, "no text is left for training",
                         str("--valid-fraction is ", options.valid_fraction),
                         "use a smaller --valid-fraction"});
    print_report(source.report());
    train.finish();
    print_summary(options.output, train);
    if (valid) {
        valid->finish();
        print_summary(options.valid, *valid);
    }
    log_info(str("done in ", format_seconds(progress.seconds()), ", ",
                 fixed(megabytes(source.bytes_done()) / progress.seconds(), 1), " MB/s"));
}

// ---- command line

void add_tokenizer(Command& data)
{
    auto options = std::make_shared<TokenizerOptions>();
    Command command = data.add("tokenizer", "train a SentencePiece tokenizer (BPE with byte fallback)");
    add_selection(command, options->training.text);
    command
        .option("--vocab", options->training.vocab,
                "vocabulary size in tokens, of which 259 are bytes and special tokens; at least 300",
                {.required = true})
        .option("-o,--output", options->output, "model file to write", {.required = true, .type = "FILE"})
        .option("--sample", options->sample_mb, "MB of text to train on, approximately",
                {.show_default = true, .from = 1, .to = 1e5});
    command.flag("--force", options->force, "replace an existing file of another kind");
    command.action([options] { return run_tokenizer(*options), 0; });
}

void add_tokenize(Command& data)
{
    auto options = std::make_shared<TokenizeOptions>();
    Command command = data.add("tokenize", "write text as a token store (HDF5)");
    add_selection(command, options->text);
    command
        .option("--tokenizer", options->tokenizer,
                "\"bytes\", a SentencePiece model file, or a tokenizer.json (byte-level BPE)",
                {.required = true, .type = "T"})
        .option("--eod", options->eod,
                "special token of a tokenizer.json that ends each document (default: what the file or its "
                "tokenizer_config.json says)",
                {.type = "TOKEN"})
        .option("-o,--output", options->output, "token store to write", {.required = true, .type = "FILE.h5"})
        .option("--valid", options->valid,
                "hold text out into this second store: whole documents, or blocks of a single document",
                {.type = "FILE.h5"})
        .option("--valid-fraction", options->valid_fraction,
                "fraction of the text that is held out, evenly spread",
                {.show_default = true, .needs = "--valid"});
    command.flag("--force", options->force, "replace existing token stores");
    command.action([options] { return run_tokenize(*options), 0; });
}

} // namespace

void add_data_command(Command& program)
{
    Command data = program.add("data", "train tokenizers; write, show and verify token stores");
    data.footer("Example:\n"
                "  trivium data tokenizer corpus/ --vocab 8192 -o corpus.model\n"
                "  trivium data tokenize corpus/ --tokenizer corpus.model -o train.h5 --valid valid.h5\n"
                "  trivium data show train.h5");
    add_tokenizer(data);
    add_tokenize(data);
    add_data_show(data);
    add_data_verify(data);
}

} // namespace trivium
