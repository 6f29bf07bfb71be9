#include "cli/commands.hpp"

#include "base/check.hpp"
#include "base/log.hpp"
#include "cli/text_arguments.hpp"
#include "io/files/files.hpp"
#include "io/tokens/tokenizer.hpp"

#include <iostream>
#include <memory>

namespace trivium {

namespace {

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
    const TextProgress progress;
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

} // namespace

void add_data_command(Command& program)
{
    Command data =
        program.add("data", "train tokenizers; write, join, show and verify token stores and arrays");
    data.footer("Example:\n"
                "  trivium data tokenizer corpus/ --vocab 8192 -o corpus.model\n"
                "  trivium data tokenize corpus/ --tokenizer corpus.model -o train.h5 --valid valid.h5\n"
                "  trivium data arrays x=inputs.npy y=targets.npy -o fields.h5 --valid valid.h5\n"
                "  trivium data show train.h5");
    add_tokenizer(data);
    add_data_tokenize(data);
    add_data_join(data);
    add_data_arrays(data);
    add_data_show(data);
    add_data_verify(data);
}

} // namespace trivium
