// `trivium eval`.
#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "compile/threads.hpp"
#include "train/data/inputs.hpp"
#include "train/evaluator.hpp"
#include "train/save/saved_tensors.hpp"
#include "train/this_machine.hpp"

#include <cmath>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

struct EvalArguments {
    ConfigArguments config;
    std::string checkpoint, data;
    i64 batches = 0;
};

int run_eval(const EvalArguments& a)
{
    const RunConfig config = load_config(a.config);
    const std::string path = !a.data.empty()              ? a.data
                             : !config.data.valid.empty() ? config.data.valid
                                                          : config.data.train;
    if (path.empty())
        throw UserError({"data.valid", "is not set", "", "set data.valid or name a token store with --data"});
    TokenStore store = TokenStore::open(path, store_options(config.data, config.model.vocab));
    if (store.vocab() > config.model.vocab)
        throw UserError(
            {path,
             str("has a vocabulary of ", store.vocab(), " tokens, but the model has ", config.model.vocab),
             "", "use data of the model's tokenizer"});
    const CheckpointReader checkpoint = open_checkpoint(a.checkpoint, config);
    require_same_model(checkpoint, config);
    require_same_tokenizer(checkpoint, store.fingerprint(), path);
    require_tokenizer(config.data, store);
    if (window_count(store.size(), config.model.seq) == 0)
        throw UserError({path, "does not contain a whole sample", str("model.seq = ", config.model.seq),
                         "use more text"});
    verify_at_start(store);
    const int threads = thread_count(config.parallel, thread_limit());
    const Computing computing(threads);
    Engine engine(compile_evaluation(config, {machine_of(computing), {}, 0}), {.threads = threads});
    engine.initialise(0, Role::constant);
    restore_parameters(checkpoint, engine.program(only_program), engine.arenas());
    const Batches data(std::move(store), config.model.seq);
    const Evaluation e = evaluate(engine, data, a.batches * config.train.global_batch, {}, only_program);
    if (a.config.json)
        fmt::print("{}\n", nlohmann::ordered_json{{"checkpoint", checkpoint.path()},
                                                  {"step", checkpoint.state().step},
                                                  {"data", path},
                                                  {"tokens", e.tokens},
                                                  {"loss", e.loss},
                                                  {"perplexity", std::exp(e.loss)},
                                                  {"arena_bytes", engine.planned()}}
                               .dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
    else
        fmt::print("{} at step {} on {}: loss {:.6f}, perplexity {:.3f} over {} tokens\n", checkpoint.path(),
                   checkpoint.state().step, path, e.loss, std::exp(e.loss), format_count(e.tokens));
    return 0;
}

} // namespace

void add_eval_command(Command& program)
{
    Command command = program.add("eval", "compute validation loss and perplexity of a checkpoint");
    auto arguments = std::make_shared<EvalArguments>();
    arguments->config.add_to(command, true);
    command
        .option("--checkpoint", arguments->checkpoint, "checkpoint (default: the newest good one of the run)")
        .option("--data", arguments->data, "token store (default: data.valid)")
        .option("--batches", arguments->batches,
                "batches of train.global_batch sequences (default: the whole store)", {.from = 0, .to = 1e9});
    command.action([=] { return on_first_rank([&] { return run_eval(*arguments); }); });
}

} // namespace trivium
