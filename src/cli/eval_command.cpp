// `trivium eval`.
#include "base/check.hpp"
#include "cli/commands.hpp"
#include "cli/config_arguments.hpp"
#include "cli/text/score_file.hpp"
#include "io/files/files.hpp"
#include "io/metrics/metrics.hpp"
#include "train/data/inputs.hpp"
#include "train/data/training_data.hpp"
#include "train/evaluator.hpp"
#include "train/rank_engine.hpp"
#include "train/report/sample_report.hpp"
#include "train/save/consistency.hpp"

#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trivium {

namespace {

struct EvalArguments {
    ConfigArguments config;
    std::string checkpoint, data, samples, score, output;
    i64 batches = 0, batch = 8;
    bool average = false;
};

/// The stores to evaluate: --data, data.valid, or data.train.
std::vector<ValidationStore> sets_of(const EvalArguments& a, const DataConfig& data)
{
    if (!a.data.empty())
        return {{"", a.data}};
    std::vector<ValidationStore> sets = data.valid.list;
    if (sets.empty())
        for (const DataSource& source : data.train.list)
            sets.push_back({data.train.list.size() > 1 ? source.path : "", source.path});
    if (sets.empty())
        throw UserError({"data.valid", "is not set", "", "set data.valid, or name data with --data"});
    return sets;
}

nlohmann::ordered_json numbers_of(const ModelConfig& model, const std::string& path, const Evaluation& e)
{
    nlohmann::ordered_json numbers{{"data", path}, {"tokens", e.tokens}, {"loss", e.loss}};
    if (!model.is_program())
        numbers["perplexity"] = std::exp(e.loss);
    for (std::size_t i = 0; i < e.metrics.size(); ++i)
        numbers[model.program.metrics[i]] = e.metrics[i].mean();
    return numbers;
}

/// With the samples to show, for which --samples is the folder.
RunConfig config_of(const EvalArguments& a)
{
    RunConfig config = load_config(a.config);
    if (a.samples.empty()) {
        config.log.samples = 0;
        return config;
    }
    if (config.model.program.shown.empty() || config.log.samples == 0)
        throw UserError(
            {"--samples", "there is nothing to show",
             config.log.samples == 0 ? "log.samples is 0" : "the model has no output with numbers per sample",
             "leave it out"});
    if (std::filesystem::exists(a.samples + "/launches.jsonl"))
        throw UserError({"--samples " + a.samples, "is the folder of a run's log",
                         "the run's own metrics are in it", "name another folder"});
    config.log.dir = a.samples;
    return config;
}

/// Lets `metrics report` make a page of the folder.
void write_metrics(const RunConfig& config, i64 step, const Evaluation& e)
{
    nlohmann::ordered_json record{{"step", step}, {"valid_loss", e.loss}};
    for (std::size_t i = 0; i < e.metrics.size(); ++i)
        record["valid_" + config.model.program.metrics[i]] = e.metrics[i].mean();
    write_file(metrics_file(config.log.dir), record.dump() + "\n");
}

/// On rank 0. `shown`: what to write for --samples, or null.
void report(const EvalArguments& a, const RunConfig& config, const std::vector<ValidationStore>& sets,
            const CheckpointReader& checkpoint, const std::vector<NamedEvaluation>& losses,
            SampleReport* shown, Bytes arena)
{
    const Evaluation all = joined(losses);
    if (shown) {
        shown->write(checkpoint.state().step);
        write_metrics(config, checkpoint.state().step, all);
    }
    if (a.config.json) {
        nlohmann::ordered_json report{{"checkpoint", checkpoint.path()}, {"step", checkpoint.state().step}};
        report.update(numbers_of(config.model,
                                 sets.size() == 1            ? sets[0].path
                                 : config.data.valid.empty() ? config.data.train.text()
                                                             : config.data.valid.text(),
                                 all));
        for (std::size_t i = 0; i < sets.size(); ++i)
            if (!sets[i].name.empty())
                report["sets"][sets[i].name] = numbers_of(config.model, sets[i].path, losses[i].result);
        report["arena_bytes"] = arena;
        fmt::print("{}\n", report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace));
        return;
    }
    const auto print = [&](const std::string& place, const Evaluation& e) {
        if (config.model.is_program())
            fmt::print("{} at step {} on {}: loss {:.6f}, {}\n", checkpoint.path(), checkpoint.state().step,
                       place, e.loss, describe_result(config.model, e));
        else
            fmt::print("{} at step {} on {}: loss {:.6f}, perplexity {:.3f} over {} tokens\n",
                       checkpoint.path(), checkpoint.state().step, place, e.loss, std::exp(e.loss),
                       format_count(e.tokens));
    };
    for (std::size_t i = 0; i < sets.size(); ++i)
        print(sets[i].path, losses[i].result);
    if (sets.size() > 1)
        print("all of them", all);
}

void evaluate_sets(Comm& world, const EvalArguments& a)
{
    RunConfig config;
    std::vector<ValidationStore> sets;
    std::vector<TokenStore> stores;
    std::vector<Batches> data;
    TokenStoreOptions options;
    succeed_together(world, [&] {
        config = config_of(a);
        sets = sets_of(a, config.data);
        const SampleTypes inputs = inputs_of(config);
        if (inputs.empty())
            options = store_options(config.data, config.model.vocab);
        for (const ValidationStore& set : sets) { // before the checkpoint: likelier mistakes first
            if (!inputs.empty()) {
                data.push_back(open_validation(set.path, inputs));
                continue;
            }
            require_no_arrays(set.path);
            stores.push_back(TokenStore::open(set.path, options));
        }
    });
    const CheckpointReader checkpoint = open_checkpoint_together(world, a.checkpoint, config, a.average);
    succeed_together(world, [&] {
        for (TokenStore& store : stores)
            data.push_back(open_validation(std::move(store), config, options, checkpoint));
    });
    for (const Batches& set : data)
        require_same_data(world, set.source());
    config = config_on(world, config, compile_evaluation);
    RankEngine rank(config, world, compile_evaluation);
    rank.restore(checkpoint);
    Engine& engine = rank.engine();
    std::optional<SampleReport> shown; // of the first set
    succeed_together(world, [&] {
        for (const Batches& set : data)
            evaluated_samples(engine, set, a.batches * config.train.global_batch, only_program);
        if (config.log.samples > 0 && world.rank() == 0) {
            make_folders(config.log.dir);
            shown.emplace(config, data[0], 0);
        }
    });
    std::vector<NamedEvaluation> losses;
    for (std::size_t i = 0; i < sets.size(); ++i) {
        EvaluationCalls calls{.program = only_program};
        if (shown && i == 0)
            calls.after = [&](i64 first) { shown->take(engine, first, only_program); };
        losses.push_back(
            {sets[i].name, evaluate(engine, data[i], a.batches * config.train.global_batch, calls)});
    }
    if (world.rank() == 0)
        report(a, config, sets, checkpoint, losses, shown ? &*shown : nullptr, engine.planned());
}

void score(Comm& world, const EvalArguments& a)
{
    RunConfig config;
    succeed_together(world, [&] {
        if (!a.data.empty() || !a.samples.empty() || a.batches > 0)
            throw UserError({"--score", "cannot be combined with --data, --samples or --batches",
                             "it reads the texts of its file", "leave one of them out"});
        config = load_config(a.config);
    });
    score_file(world, config, {a.score, a.output, a.checkpoint, a.batch, a.average});
}

} // namespace

void add_eval_command(Command& program)
{
    Command command =
        program.add("eval", "compute validation loss and perplexity of a checkpoint, or score texts");
    auto arguments = std::make_shared<EvalArguments>();
    arguments->config.add_to(command, true);
    command
        .option("--checkpoint", arguments->checkpoint,
                "checkpoint, or best (default: the newest good one of the run)")
        .flag("--average", arguments->average, "evaluate the averaged weights (train.ema)")
        .option("--data", arguments->data, "token store: a file, a folder or a pattern (default: data.valid)")
        .option("--samples", arguments->samples,
                "folder for slices of samples of a program, for `metrics report`")
        .option("--batches", arguments->batches,
                "batches of train.global_batch sequences (default: the whole store)", {.from = 0, .to = 1e9})
        .option("--score", arguments->score,
                "instead: JSON lines with `context` and `continuation` (texts or lists of ids), for the log "
                "probability of each continuation",
                {.type = "FILE.jsonl"})
        .option("-o,--output", arguments->output, "file for the results of --score (default: stdout)")
        .option("--batch", arguments->batch, "with --score: sequences that a data rank computes together",
                {.show_default = true, .from = 1, .to = 1e6});
    command.action([=] {
        return on_all_ranks([&](Comm& world) {
            arguments->score.empty() ? evaluate_sets(world, *arguments) : score(world, *arguments);
        });
    });
}

} // namespace trivium
